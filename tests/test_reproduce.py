"""Reproducing: figures as data, skipped where done, continued where interrupted; real figures in
their exact parts."""

import csv
import json
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure as Drawing

from empowerment.cli import main
from empowerment.figures import pendulum, workshop
from empowerment.figures import reproduce as module
from empowerment.figures.reproduce import FIGURES, reproduce
from empowerment.figures.workshop import Figure, Finding, Statement, all_at_least, provenance

FIELDS = {"figure", "claim", "criterion", "exact", "learned", "seeds", "shown"}
SMALL = {"updates": 200, "batch": 32, "hidden": 8, "features": 8}


def quiet(message):
    pass


def figure(name, worlds=(), value=1.0, calls=None, fail=None):
    """A figure that trains, draws an empty picture and finds `value` in every seed."""

    def make(shop):
        if calls is not None:
            calls.append(name)
        estimators = [e for world in worlds for e in shop.trained(world)]
        if fail:
            raise fail
        shop.draw(Drawing(figsize=(1, 1)), "nothing")
        shop.table(["value"], [[value]])
        return {"it": Finding(0.5, [value] * max(len(estimators), 1))}

    return Figure(
        name,
        worlds,
        make,
        (Statement("it", f"{name} holds", "value >= 1", all_at_least(1.0)),),
        horizon=2,
    )


@pytest.fixture
def figures(monkeypatch):
    """Replaces the list of figures, and makes the trainings tiny."""
    monkeypatch.setattr(workshop, "QUICK", SMALL)

    def replace(*chosen):
        monkeypatch.setattr(module, "FIGURES", {one.name: one for one in chosen})

    return replace


def test_every_figure_of_the_paper_is_declared():
    assert list(FIGURES) == [
        "static",
        "tree",
        "boxes",
        "key-door",
        "lava-corridor",
        "lava-maze",
        "predator-prey",
        "pendulum",
        "behaviours",
        "complexity",
        "feedback",
    ]
    for one in FIGURES.values():
        assert len({s.key for s in one.statements}) == len(one.statements) > 0


def test_the_tree_is_made_with_all_its_files(tmp_path):
    claims = reproduce("tree", tmp_path, None, False, quiet)
    assert [claim.shown for claim in claims] == [True, True, True]
    files = {path.name for path in tmp_path.iterdir()}
    assert {
        "tree.png",
        "tree.pdf",
        "tree.txt",
        "tree.csv",
        "tree.numbers.json",
        "claims.json",
    } <= files
    assert "report.html" in files
    with open(tmp_path / "tree.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["paths"]) for row in rows] in ([1, 5, 10, 10, 5, 1], [1, 5, 10, 10, 5, 1][::-1])
    numbers = json.loads((tmp_path / "tree.numbers.json").read_text())
    assert {"settings", "seeds", "versions", "commit", "machine", "seconds"} <= set(numbers)
    assert numbers["machine"]["cores"] >= 1
    found = json.loads((tmp_path / "claims.json").read_text())
    assert all(set(claim) == FIELDS for claim in found)


def test_a_figure_that_is_done_is_not_made_again(tmp_path, figures):
    calls = []
    figures(figure("one", calls=calls))
    first = reproduce("one", tmp_path, None, False, quiet)
    assert reproduce("one", tmp_path, None, False, quiet) == first
    assert calls == ["one"]
    reproduce("one", tmp_path, 2, False, quiet)  # other settings
    (tmp_path / "one.png").unlink()  # a file is missing
    reproduce("one", tmp_path, 2, False, quiet)
    assert calls == ["one"] * 3


def test_claims_of_other_figures_are_kept(tmp_path, figures):
    figures(figure("one"), figure("two", value=0.0))
    reproduce("two", tmp_path, None, False, quiet)
    reproduce("one", tmp_path, None, False, quiet)
    found = json.loads((tmp_path / "claims.json").read_text())
    assert [(claim["figure"], claim["shown"]) for claim in found] == [("one", True), ("two", False)]
    assert found[1]["learned"] == {"median": 0.0, "min": 0.0, "max": 0.0}


def test_claims_made_otherwise_are_not_shown_beside_others(tmp_path, figures, monkeypatch):
    figures(figure("one"), figure("two"))

    def shown():
        return [claim["figure"] for claim in json.loads((tmp_path / "claims.json").read_text())]

    reproduce("all", tmp_path, 1, True, quiet)
    assert shown() == ["one", "two"]
    reproduce("one", tmp_path, 1, False, quiet)  # the other was made quickly
    assert shown() == ["one"]
    monkeypatch.setattr(module, "__version__", "999")
    reproduce("two", tmp_path, 1, False, quiet)  # the first was made by another version
    assert shown() == ["two"]


def test_what_a_figure_needs_is_asked_for_before_any_is_made(tmp_path, figures, monkeypatch):
    calls = []
    figures(figure("one", calls=calls), figure("chase", ("predator-prey",), calls=calls))
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ValueError, match="needs MuJoCo"):
        reproduce("all", tmp_path, 1, True, quiet)
    assert calls == []


def test_an_interrupted_run_goes_on_where_it_was(tmp_path, figures, monkeypatch):
    from empowerment.variational.checkpoint import RunDirectory

    calls, save = [], RunDirectory.save

    def interrupted(self, updates, tree):
        save(self, updates, tree)
        raise KeyboardInterrupt

    figures(figure("one", calls=calls), figure("learned", ("key-door",), calls=calls))
    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reproduce("all", tmp_path, 1, True, quiet)
    assert workshop.updates_of(tmp_path / "runs" / "key-door-0-quick") == 100
    lines = (tmp_path / "runs" / "key-door-0-quick" / "metrics.jsonl").read_text().splitlines()
    claims = reproduce("all", tmp_path, 1, True, quiet)
    assert calls == ["one", "learned", "learned"]
    assert [claim.shown for claim in claims] == [True, True]
    after = (tmp_path / "runs" / "key-door-0-quick" / "metrics.jsonl").read_text().splitlines()
    assert after[:1] == lines  # the first hundred updates were not made again
    assert len(after) == 2
    numbers = json.loads((tmp_path / "learned.numbers.json").read_text())
    assert numbers["seconds"]["training"]["key-door-0-quick"] > 0


def test_seconds_that_cannot_be_read_are_not_known(tmp_path):
    shop = workshop.Workshop(figure("one"), tmp_path, 1, True, workshop.Progress(0, shown=False))
    shop._note("good", 1.5)
    shop._note("good", 1.0)
    (tmp_path / "runs" / "bad.seconds").write_text("")
    shop._note("bad", 1.0)
    assert shop.seconds == {"good": 2.5, "bad": None}
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "bad.seconds",
        "good.seconds",
    ]


@pytest.mark.parametrize(("value", "code"), [(1.0, 0), (0.0, 1), (float("nan"), 1)])
def test_the_exit_code_says_whether_every_claim_is_shown(tmp_path, figures, capsys, value, code):
    figures(figure("one", value=value))
    found = 0
    try:
        main(["reproduce", "one", "--out", str(tmp_path), "--json"])
    except SystemExit as stop:
        found = stop.code
    assert found == code
    assert json.loads(capsys.readouterr().out)["claims"] == 1


def test_unknown_figures_are_one_sentence_and_exit_two(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "statik", "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "did you mean 'static'?" in capsys.readouterr().err


def test_what_gave_the_numbers_is_noted():
    found = provenance()
    assert found["versions"]["numpy"]
    assert found["commit"]
    assert found["machine"]["processor"]


def test_the_linearised_pendulum_is_gymnasium_s():
    env, torques = pendulum.make_swing(), np.array([0.5, -1.0, 0.2])
    env.reset(seed=0)
    env.unwrapped.state = np.array([0.4, -1.5])
    for torque in torques:
        seen = env.step(np.array([2 * torque], np.float32))[0]
    angle, speed = pendulum._swung(np.array([0.4]), np.array([-1.5]), torques)[0]
    np.testing.assert_allclose(seen, [np.cos(angle), np.sin(angle), speed], atol=1e-5)
