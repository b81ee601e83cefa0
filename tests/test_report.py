"""The report's page, in a real browser: Debian's chromium driven by Playwright, both from this
machine."""

import json
import shutil
import struct
import zlib
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

import empowerment as emp
from empowerment import _version
from empowerment.behaviour import Greedy, exact_value, run_episode
from empowerment.report import build_report, data, save_playback
from empowerment.report.futures import exact_futures, plans
from empowerment.report.packing import ALPHABET, pack
from empowerment.report.page import embedded, fit
from empowerment.report.playback import check_playback, playback
from empowerment.worlds.grid import GridWorld, Map

BROWSER = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
EVIL = (
    "<img src=x onerror=\"document.title='pwned'\"></script><script>document.title='pwned'</script>"
)
MAP = "#########\n#...#...#\n#.a.....#\n#...#...#\n#########\n"


def unpack(text, width=2):
    digits = [ALPHABET.index(c) for c in text]
    return [
        sum(64 ** (width - 1 - j) * digits[i + j] for j in range(width))
        for i in range(0, len(digits), width)
    ]


def png(path):
    """A picture of one grey pixel."""

    def part(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    body = part(b"IHDR", header) + part(b"IDAT", zlib.compress(b"\0\x80")) + part(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A tiny training under two seeds, an episode, claims, a figure, a table and a few
    injections."""
    out = tmp_path_factory.mktemp("report")
    (out / "small.txt").write_text(MAP)
    world = emp.make(out / "small.txt")
    tiny = {"progress": False, "updates": 200, "batch": 32, "hidden": 8, "features": 8}
    for seed in (0, 1):
        emp.train(world, 2, seed, out / "runs" / f"small-{seed}", **tiny)
    with patch.object(_version, "__version__", EVIL):
        evil = GridWorld(Map.parse(MAP, EVIL))
        emp.train(evil, 2, 1, out / "runs" / "x<img src=x onerror=alert(1)>", **tiny)
    maze = emp.make("lava-maze")
    episode = run_episode(maze, Greedy(maze, exact_value(maze, 2)), 6)
    save_playback(maze, episode, out / "episodes" / "maze.json", f"maze {EVIL}", "greedy")
    claim = {
        "figure": "static",
        "claim": EVIL,
        "criterion": "R² >= 0.99",
        "exact": None,
        "seeds": 1,
    }
    learned = {"median": 0.5, "min": float("nan"), "max": 1.0}
    (out / "claims.json").write_text(json.dumps([{**claim, "learned": learned, "shown": False}]))
    (out / "table.csv").write_text(f'name,value\n"{EVIL.replace(chr(34), chr(34) * 2)}",1\n')
    (out / "broken.json").write_text("{")
    png(out / "figure.png")
    (out / "figure.txt").write_text(EVIL)
    build_report(out)
    return out


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="the page tests need playwright: pip install playwright"
    )
    if BROWSER is None:
        pytest.skip("the page tests need a browser: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=BROWSER, headless=True, args=FLAGS, timeout=180_000
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, directory, request):
    """The page, opened from disk; any error or message in the console fails the test."""
    options = {
        "viewport": {"width": 1200, "height": 900},
        "color_scheme": "light",
        **getattr(request, "param", {}),
    }
    tab, complaints = browser.new_page(**options), []
    tab.set_default_timeout(120_000)
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on(
        "request",
        lambda r: None if r.url.startswith(("file:", "data:")) else complaints.append(r.url),
    )
    tab.goto((directory / "report.html").as_uri())
    yield tab
    tab.close()
    assert complaints == []


def click(page, row, column, **options):
    """Click a cell of the first landscape."""
    plane = page.locator(".landscapes .plane").first
    plane.scroll_into_view_if_needed()
    box = plane.bounding_box()
    spot = {"x": (column + 0.5) * box["width"] / 9, "y": (row + 0.5) * box["height"] / 5}
    plane.click(position=spot, **options)


def test_everything_is_there(page):
    headings = page.locator("h2").all_text_contents()
    assert headings == [
        "Claims",
        "Landscapes",
        "Episodes",
        "Training",
        "Figures",
        "Numbers",
        "Settings",
    ]
    assert "0 of 1 claims" in page.locator("#content").text_content()
    assert page.locator(".gallery button").count() == 2
    assert page.evaluate("document.querySelector('.figures img').naturalWidth") == 1
    assert page.locator(".charts .series").count() == 6  # bound and loss of three runs
    assert "broken.json" in page.locator("#content").text_content()


def test_hovering_a_cell_reads_its_values(page, directory):
    world = emp.make(directory / "small.txt")
    land = emp.exact(world, 2)
    plane = page.locator(".landscapes .plane").first
    box = plane.bounding_box()
    plane.hover(position={"x": 1.5 * box["width"] / 9, "y": 1.5 * box["height"] / 5})
    page.locator(
        ".readout", has_text=f"row 1, column 1: exact {land.grid()[1, 1]:.3f}"
    ).first.wait_for()


def test_clicking_a_cell_changes_the_source_panel(page):
    click(page, 1, 1)
    first = page.locator(".source").text_content()
    assert "the exact source ends in 6 cells" in first
    picture = "document.querySelectorAll('.futures canvas')[1].toDataURL()"
    before = page.evaluate(picture)
    click(page, 2, 4)
    assert page.locator(".source").text_content() != first
    assert page.evaluate(picture) != before
    assert "row 2, column 4" in page.locator(".explorer h3").text_content()


def test_the_plan_appears_after_choosing_a_goal(page):
    click(page, 1, 1)
    assert page.locator(".route").count() == 0
    click(page, 2, 2, modifiers=["Shift"])
    assert "plan to row 2, column 2" in page.locator(".plan").text_content()
    assert page.locator(".landscapes .route.over").count() == 3  # on each of the three maps
    page.get_by_label("goal", exact=True).check()  # without the Shift key, as by touch
    click(page, 3, 7)
    assert "cannot be reached in 2 actions" in page.locator(".plan").text_content()
    page.get_by_role("button", name="Clear goal").click()
    assert page.locator(".route").count() == 0


def test_the_keyboard_does_the_same(page):
    click(page, 1, 1)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("g")
    assert "plan to row 1, column 2" in page.locator(".plan").text_content()
    page.keyboard.press("Enter")
    assert "From row 1, column 2" in page.locator(".explorer h3").text_content()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_the_source_says_whose_it_is(page):
    assert (
        "The learned source and the plans are those of runs/small-0."
        in page.locator(".source").text_content()
    )


def test_views_and_seeds_can_be_chosen(page):
    page.get_by_label("difference", exact=True).check()
    assert page.locator(".landscapes figure:visible").count() == 1
    fit_of_first = page.locator(".fit").text_content()
    page.locator(".explorer select").select_option("1")
    assert page.locator(".fit").text_content() != fit_of_first


def test_the_episode_plays_steps_and_stops(page):
    said = page.locator(".said")
    assert "step 0 of 6" in said.text_content()
    page.locator(".controls .on").click()
    assert "step 1 of 6" in said.text_content()
    assert page.locator(".bars .bar").count() == 9
    assert page.locator(".bars .bar.chosen").count() == 1
    page.locator(".controls select").select_option("12")
    page.locator(".controls .toggle").click()
    page.locator(".said", has_text="step 6 of 6").wait_for(timeout=60_000)
    assert page.locator(".controls .toggle").text_content() == "▶ play"
    page.locator(".player").press("ArrowLeft")
    assert "step 5 of 6" in said.text_content()


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("page", [{"color_scheme": "dark"}], indirect=True)
def test_dark_mode_follows_the_system_and_the_button(page):
    dark = page.evaluate(BACKGROUND)
    assert max(int(x) for x in dark.removeprefix("rgb(").removesuffix(")").split(",")) < 60
    page.locator("#theme").click()
    assert (
        min(
            int(x)
            for x in page.evaluate(BACKGROUND).removeprefix("rgb(").removesuffix(")").split(",")
        )
        > 200
    )


@pytest.mark.parametrize("page", [{"viewport": {"width": 390, "height": 844}}], indirect=True)
def test_a_phone_shows_it_without_scrolling_sideways(page):
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".landscapes .plane").first.bounding_box()["width"] > 280


def test_injected_text_is_shown_and_does_nothing(page, directory):
    page.locator(".gallery button").nth(1).click()
    assert page.title() == f"Empowerment: {directory.name}"
    assert page.locator("img").count() == 1  # the figure
    assert page.evaluate("document.scripts.length") == 2
    assert EVIL in page.locator(".claims").text_content()
    assert EVIL in page.locator(".gallery").text_content()


def test_the_policy_refuses_what_gets_in(browser, directory):
    tab = browser.new_page()
    tab.goto((directory / "report.html").as_uri())
    with tab.expect_console_message(lambda message: "Content Security Policy" in message.text):
        tab.evaluate(
            "() => { const node = document.createElement('script'); node.textContent = "
            "'document.title = \"pwned\"'; "
            "document.body.append(node); }"
        )
    assert "pwned" not in tab.title()
    tab.close()


def test_the_file_holds_no_markup_from_outside(directory):
    text = (directory / "report.html").read_text()
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text
    assert "Content-Security-Policy" in text
    assert not any(word in text for word in ("http://localhost", "https://"))


def test_embedded_json_survives_the_trip():
    data = {"a": "</script><!--", "b": ["&lt;", "\u2028"]}
    assert json.loads(embedded(data)) == data
    assert not set("<>&\u2028") & set(embedded(data))


def test_numbers_are_packed_to_the_base_of_64():
    assert unpack(pack([0, 63, 64, 4095])) == [0, 63, 64, 4095]
    with pytest.raises(ValueError, match="do not fit"):
        pack([4096])


def test_exact_ends_are_the_reachable_cells_in_equal_parts():
    world = emp.make("open-room")
    texts, goals = exact_futures(world, world.states(), 1)
    numbers = unpack(texts[0])  # the corner: stay, right, down
    assert numbers[0::2] == [21, 22, 41] == goals[0].cells.tolist()
    assert numbers[1::2] == [1365, 1365, 1365]


def test_plans_are_those_of_the_estimator(directory):
    est = emp.load(directory / "runs" / "small-0")
    states = est.world.states()
    _, goals = exact_futures(est.world, states, 2)
    cells, texts = plans(est, states, goals)
    start, goal = est.world.observe(states)[0], est.world.observe(goals[0].states)[1]
    text = texts[0][7:14]  # the second goal: one character, then three for each of two steps
    assert unpack(cells[0]) == goals[0].cells.tolist()
    assert [ALPHABET.index(text[i]) for i in (1, 4)] == est.plan(start, goal).tolist()


def test_a_page_that_would_be_too_large_loses_plans_and_then_what_is_largest():
    panels = [{"name": n, "plans": ["x" * 10**5]} for n in "ab"]
    data = {
        "panels": panels,
        "pictures": [{"name": "p", "png": "y" * 10**5}],
        "episodes": [],
        "notes": [],
    }
    assert fit(data, 10**6)["notes"] == []
    smaller = fit(data, 3 * 10**5 + 10**3)
    assert ["plans" in p for p in smaller["panels"]] == [True, False]
    assert len(smaller["pictures"]) == 1
    smallest = fit(data, 10**5 + 10**3)
    assert smallest["pictures"] == []
    assert len(smallest["notes"]) == 3
    assert "plans" in panels[0]  # what was given is left as it was
    played = fit(
        data | {"episodes": [{"title": "long", "frames": ["z" * 10**6]}]}, 2 * 10**5 + 10**3
    )
    assert played["episodes"] == []
    assert len(played["pictures"]) == 1
    assert played["notes"][-1].startswith("long: this episode is left out")


def test_a_playback_is_checked(tmp_path):
    world = emp.make("key-door")
    episode = run_episode(world, Greedy(world, exact_value(world, 2)), 3)
    good = playback(world, episode, "title", "greedy")
    assert check_playback(json.loads(json.dumps(good)))["title"] == "title"
    for wrong in (
        {"chosen": [99, 0, 0]},
        {"frames": good["frames"][:-1]},
        {"format": "other"},
        {"shape": [1, 1]},
        {"shape": [-1, -1]},
        {"path": [0] * 4},
        {"path": [[0, 99]] * 4},
    ):
        with pytest.raises((ValueError, TypeError)):
            check_playback(good | wrong)
    plain = replace(episode, expected=None)
    assert playback(world, plain, "t", "b")["expected"] is None
    table = emp.from_transitions(np.array([[0, 1], [1, 0]]))
    walk = run_episode(table, Greedy(table, exact_value(table, 1)), 2)
    assert check_playback(playback(table, walk, "t", "b"))["path"] is None


def test_the_agent_of_a_large_map_stays_in_the_picture():
    world = GridWorld(
        Map.parse(
            "\n".join(["#" * 100, "#a" + "." * 97 + "#", *["#" + "." * 98 + "#"] * 3, "#" * 100]),
            "wide",
        )
    )
    walk = run_episode(world, Greedy(world, exact_value(world, 1)), 3)
    found = check_playback(playback(world, walk, "t", "b"))
    assert found["path"] == (walk.path // 2).tolist()
    seen = {
        unpack(f, 1)[r * found["shape"][1] + c]
        for f, (r, c) in zip(found["frames"], found["path"], strict=True)
    }
    assert len(seen) == 1  # one colour, wherever it is
    assert all(unpack(f, 1).count(*seen) == 1 for f in found["frames"])


def shown(directory):
    """What the page is made of."""
    return data.gather(directory)


def test_a_saved_landscape_has_a_panel_of_its_own(tmp_path):
    emp.exact(emp.make("two-rooms"), 3).save(tmp_path / "land.safetensors")
    text = build_report(tmp_path).read_text()
    assert '"two-rooms"' in text


def test_landscapes_of_one_name_are_told_apart_and_copies_left_out(tmp_path):
    sure, noisy = (emp.exact(emp.make("open-room", slip=slip), 1) for slip in (0.0, 0.1))
    for name, land in (("a", sure), ("b", noisy), ("c", sure)):
        land.save(tmp_path / f"{name}.safetensors")
    assert [panel["scene"] for panel in shown(tmp_path)["panels"]] == ["", "b.safetensors"]


def test_runs_of_another_beta_are_not_compared_with_empowerment(tmp_path):
    (tmp_path / "small.txt").write_text(MAP)
    tiny = {
        "progress": False,
        "updates": 4,
        "batch": 8,
        "hidden": 8,
        "features": 8,
        "layers": 2,
        "ema": 0.0,
        "optimiser": "adam",
    }
    for beta in (1.0, 0.5):
        emp.train(emp.make(tmp_path / "small.txt"), 1, out=tmp_path / f"b{beta}", beta=beta, **tiny)
    found = shown(tmp_path)
    assert [panel["scene"] for panel in found["panels"]] == ["β = 0.5", ""]
    assert [panel["exact"] is None for panel in found["panels"]] == [True, False]
    assert "beta=0.5, so that it is not compared" in found["notes"][0]


def test_runs_with_feedback_are_compared_with_feedback(tmp_path):
    world = emp.make("windy-bridge")
    tiny = {"progress": False, "updates": 4, "batch": 8, "hidden": 8, "features": 8, "layers": 2}
    closed = {"feedback": True, "discount": 0.9}
    emp.train(world, float("inf"), out=tmp_path / "closed", **tiny, **closed)
    emp.exact(world, 3, feedback=True).save(tmp_path / "land.safetensors")
    found = shown(tmp_path)
    scenes = [panel["scene"] for panel in found["panels"]]
    assert scenes == ["with feedback, K = ∞, discount 0.9", "with feedback, K = 3"]
    exact = emp.exact(world, float("inf"), **closed)
    assert max(found["panels"][0]["exact"]) == pytest.approx(exact.nats.max(), abs=1e-4)
    assert found["curves"][0]["horizon"] == "∞"


def test_claims_that_two_files_have_are_counted_once(tmp_path):
    claim = {"figure": "static", "claim": "holds", "shown": True}
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "claims.json").write_text(
        json.dumps([{**claim, "shown": False}, {**claim, "claim": "other"}])
    )
    (tmp_path / "claims.json").write_text(json.dumps([claim]))
    found = shown(tmp_path)
    assert {(c["claim"], c["shown"]) for c in found["claims"]} == {("holds", True), ("other", True)}
    assert found["notes"] == [
        "old/claims.json: 1 of its claims are those of another file too, which are shown"
    ]


def test_captions_that_lead_elsewhere_are_not_followed(tmp_path):
    secret, inside = tmp_path / "secret", tmp_path / "in"
    secret.write_text("a key")
    inside.mkdir()
    png(inside / "x.png")
    (inside / "x.txt").symlink_to(secret)
    assert shown(inside)["pictures"][0]["caption"] == ""


def test_files_that_cannot_be_read_become_notes(tmp_path):
    emp.exact(emp.make("open-room"), 1).save(tmp_path / "land.safetensors")
    deep = "[" * 600 + "]" * 600
    (tmp_path / "claims.json").write_text(deep)
    (tmp_path / "numbers.json").write_text(deep)
    (tmp_path / "run.json").write_text('{"config": {}}')
    (tmp_path / "metrics.jsonl").write_text(f'{{"updates": 1{"0" * 400}}}\n{"[" * 10**5}\n')
    found = shown(tmp_path)
    assert len(found["panels"]) == 1
    assert "claims.json is nested too deeply and was left out" in found["notes"]
    build_report(tmp_path)


def test_a_world_where_all_ends_are_deaths_is_drawn(tmp_path):
    (tmp_path / "doomed.txt").write_text("#####\n#a.l#\n#####\n")
    tiny = {
        "progress": False,
        "updates": 4,
        "batch": 8,
        "hidden": 8,
        "features": 8,
        "layers": 2,
        "ema": 0.0,
        "optimiser": "adam",
    }
    emp.train(emp.make(tmp_path / "doomed.txt"), 5, out=tmp_path / "run", **tiny)
    found = shown(tmp_path)
    assert len(found["panels"]) == 1, found["notes"]


def test_a_run_that_does_not_know_its_world_has_its_curve_only(tmp_path):
    world = emp.from_transitions([[1, 2], [2, 0], [0, 1]])
    emp.train(world, 1, out=tmp_path / "ring", updates=4, batch=8, optimiser="adam", progress=False)
    assert "so that it is not drawn" in build_report(tmp_path).read_text()


def test_an_empty_or_missing_directory_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no runs"):
        build_report(tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        build_report(tmp_path / "nowhere")


def test_a_leaderboard_of_the_benchmark(tmp_path):
    from empowerment.bench import tasks
    from empowerment.report.data import gather

    tree = tasks("tree")[0]
    results = [
        {"task": "tree", "version": 1, "seed": 0, "values": (tree.truth().nats * 0.9).tolist()}
    ]
    scores = {"format": "empowerment scores 1", "estimator": "theirs", "results": results}
    (tmp_path / "theirs.json").write_text(json.dumps(scores))
    (tmp_path / "bad.json").write_text(json.dumps({**scores, "results": [{"task": "tree"}]}))
    found = gather(tmp_path)
    (row,) = found["leaderboard"]["rows"]
    assert (row["task"], row["estimator"], row["seeds"]) == ("tree", "theirs", 1)
    (panel,) = found["panels"]
    assert panel["name"] == "tree"
    assert panel["learned"][0]["run"] == "theirs, seed 0"
    assert panel["learned"][0]["fit"]["bias"] < 0
    assert any("bad.json" in note for note in found["notes"])
