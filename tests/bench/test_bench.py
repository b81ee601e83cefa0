"""The benchmark: tasks, stored truth, scores, runs that resume, and score files from outside."""

import json
import math
import pickle
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import empowerment as emp
from empowerment.bench import certificates, estimators, runner, scoring
from empowerment.bench.estimators import ESTIMATORS, Fitted, LookUp
from empowerment.bench.scoring import score, time_to
from empowerment.bench.tasks import Task, tasks
from empowerment.bench.verify import blahut_arimoto, fingerprint, slow_value, verify
from empowerment.cli import main
from empowerment.worlds.distractor import Distractor

QUICK = (
    "tree",
    "key-door",
    "two-rooms-k2",
    "frozen-lake-4x4",
    "minigrid-empty",
    "opaque-key-door",
    "channel-flip",
)


def task(name) -> Task:
    return tasks(name)[0]


def test_there_are_tasks_of_every_kind():
    every = tasks()
    assert len(every) >= 40
    tags = {tag for one in every for tag in one.tags}
    assert not tags & {one.name for one in every}
    assert {
        "paper",
        "held-out",
        "opaque",
        "slip",
        "minigrid",
        "continuous",
        "channel",
        "distractor",
        "core",
    } <= tags
    assert len(tasks("opaque")) >= 12
    assert 13 <= len(tasks("core")) <= 18
    assert {one.horizon for one in every if one.name.startswith("two-rooms-k")} | {5} == set(
        range(1, 11)
    )
    with pytest.raises(
        ValueError, match=r"set 'held_out' is unknown \(did you mean 'held-out'\?\)"
    ):
        tasks("held_out")


@pytest.mark.parametrize("name", [one.name for one in tasks()])
def test_every_task_has_its_stored_truth(name):
    one = task(name)
    truth = one.truth()
    assert truth.nats.shape == truth.lower.shape == truth.upper.shape
    assert np.isfinite(truth.nats).all()
    if one.certified:
        assert (truth.lower <= truth.nats + 1e-12).all()
        assert (truth.nats <= truth.upper + 1e-12).all()
        assert (truth.upper - truth.lower).max() < 1e-3


@pytest.mark.parametrize("name", QUICK)
def test_observations_are_what_the_estimator_will_see(name):
    one = task(name)
    seen = one.observations()
    assert len(seen) == len(one.truth().nats) == len(one)
    if one.kind == "opaque":
        world = one.world()
        assert seen.shape[1:] == world.shape


def test_verification_passes():
    assert [verdict for verdict in verify([task(name) for name in QUICK]) if verdict.problem] == []


def test_a_flipped_bit_in_a_stored_value_is_found(tmp_path, monkeypatch):
    data = bytearray(certificates.FILE.read_bytes())
    header = int.from_bytes(data[:8], "little")
    places = json.loads(data[8 : 8 + header])
    start = 8 + header + places["tree/nats"]["data_offsets"][0]
    data[start + 6] ^= 1
    (tmp_path / "truth.safetensors").write_bytes(data)
    monkeypatch.setattr(certificates, "FILE", tmp_path / "truth.safetensors")
    with pytest.raises(ValueError, match="checksum does not agree"):
        task("tree").truth()
    assert "checksum" in next(iter(verify([task("tree")]))).problem


def test_a_value_that_is_wrong_with_a_right_checksum_is_found(tmp_path, monkeypatch):
    one = task("tree")
    truth = one.truth()
    off = certificates.Truth(truth.nats + 1e-6, truth.lower, truth.upper)
    certificates.store({"tree": (1, fingerprint(one), off)}, tmp_path / "truth.safetensors")
    monkeypatch.setattr(certificates, "FILE", tmp_path / "truth.safetensors")
    assert "stored nats" in next(iter(verify([one]))).problem


def test_a_changed_world_is_found():
    other = replace(task("tree"), world=lambda: emp.make("tree", depth=4))
    assert "world is not the one" in next(iter(verify([other]))).problem


def test_the_independent_path_finds_a_wrong_solver(monkeypatch):
    """Everything stored and recomputed agrees, and is wrong."""
    one = task("frozen-lake-4x4")
    wrong = certificates.Truth(
        *(getattr(one.truth(), name) + 0.01 for name in ("nats", "lower", "upper"))
    )
    monkeypatch.setattr("empowerment.bench.verify.stored", lambda name, version: wrong)
    monkeypatch.setattr(Task, "compute", lambda self: wrong)
    assert "by plain enumeration" in next(iter(verify([one]))).problem


def test_plain_blahut_arimoto_and_the_slow_values():
    lower, upper = blahut_arimoto(np.array([[0.9, 0.1], [0.1, 0.9]]))
    assert lower <= np.log(2) + 0.1 * np.log(0.1) + 0.9 * np.log(0.9) + 1e-9
    assert upper - lower < 1e-6
    assert slow_value(task("tree"), 0)[0] == pytest.approx(np.log(6))


def test_scores_by_hand():
    one = task("tree")
    truth = one.truth().nats
    perfect = score(one, truth)
    assert (perfect.r2, perfect.max_error, perfect.regret, perfect.violations) == (1.0, 0.0, 0.0, 0)
    shifted = score(one, truth + 0.5)
    assert shifted.bias == pytest.approx(0.5)
    assert shifted.r2 == pytest.approx(1 - 0.25 / truth.var())
    assert shifted.pearson == pytest.approx(1)
    assert shifted.violations == len(truth)
    rooms = task("two-rooms-k2")
    worst = score(rooms, -rooms.truth().nats)
    assert worst.regret > 0
    assert worst.regret_share == pytest.approx(1, abs=0.02)
    assert math.isnan(score(task("channel-flip"), [0.3]).r2)


def test_the_time_to_a_good_fit():
    truth = task("tree").truth()
    curve = [(1.0, truth.nats * 0), (2.0, truth.nats + 0.001), (3.0, truth.nats)]
    assert time_to(curve, truth) == 2.0
    assert math.isnan(time_to(curve[:1], truth))


def test_distraction_leaves_empowerment_alone():
    world = Distractor(emp.make("cross-room"))
    rng = np.random.default_rng(0)
    states = world.states()
    outcome = rng.standard_normal((len(states.agent), world.noise)).astype(np.float32)
    after = world.step(states, np.zeros(len(states.agent), np.int64), outcome)
    assert np.array_equal(
        after.agent, world.grid.step(world.grid.states(), np.zeros(len(states.agent), int), 0).agent
    )
    picture = world.observe(after)
    assert picture.shape[1:] == (24, 20, 3)
    assert len(np.unique(picture[:, -4:, :4, 0])) > 50


def test_a_run_resumes_and_makes_a_table(tmp_path, monkeypatch, capsys):
    args = [
        "bench",
        "run",
        "--set",
        "tree",
        "--estimator",
        "uniform-source",
        "sparse-sampling",
        "--seeds",
        "2",
    ]
    main([*args, "--out", str(tmp_path), "--processes", "1", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["estimator"], row["seeds"]) for row in rows] == [
        ("uniform-source", 2),
        ("sparse-sampling", 2),
    ]
    assert rows[1]["r2"] > 0.99
    monkeypatch.setattr(runner, "_do", lambda *args: pytest.fail("done again"))
    main([*args, "--out", str(tmp_path), "--processes", "1", "--json"])
    assert json.loads(capsys.readouterr().out)["rows"] == rows
    assert (tmp_path / "table.csv").read_text().startswith("task,estimator,seeds,r2")


@pytest.mark.parametrize("name", ["ours", "paper", "uniform-decoder", "contrastive"])
def test_learned_estimators_fit(name, monkeypatch):
    """A few updates: what comes out are numbers, with their costs."""
    monkeypatch.setattr(estimators, "POINTS", 2)
    one = task("tree")
    few = replace(
        ESTIMATORS[name], settings={**ESTIMATORS[name].settings, "updates": 4, "batch": 64}
    )
    fitted = few.fit(one, 0)
    assert np.isfinite(fitted.values(one.observations())).all()
    assert fitted.steps == 4 * 64 * one.horizon
    assert len(fitted.curve) == 2


def test_water_filling_is_exact_where_the_world_is_linear():
    one = task("point-mass")
    assert (
        score(
            one, ESTIMATORS["water-filling"].fit(one, 0).values(one.observations())
        ).relative_error
        < 1e-5
    )


def test_estimators_say_what_they_apply_to():
    assert not ESTIMATORS["uniform-source"].applies(task("opaque-key-door"))
    assert not ESTIMATORS["sparse-sampling"].applies(task("point-mass"))
    assert ESTIMATORS["ours"].applies(task("channel-flip"))
    assert not ESTIMATORS["paper"].applies(task("channel-flip"))
    assert all(estimator.source for estimator in ESTIMATORS.values())


GOOD = {"task": "tree", "version": 1, "seed": 0, "values": task("tree").truth().nats.tolist()}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("no json", "is not JSON"),
        ([1], "is no score file"),
        ({"format": runner.FORMAT, "estimator": 3, "results": []}, "no estimator"),
        ({**GOOD, "task": "trees"}, "did you mean 'tree'"),
        ({**GOOD, "task": "core"}, "task 'core' is unknown"),
        ({"task": "tree", "values": []}, "has no task, version and values"),
        ({**GOOD, "version": 2}, "for version 2 of task 'tree', which has version 1"),
        ({**GOOD, "values": GOOD["values"][:-1]}, "have shape (20,); give 21"),
        ({**GOOD, "values": [None, *GOOD["values"][1:]]}, "hold nan at place 0"),
        ({**GOOD, "values": ["x", *GOOD["values"][1:]]}, "no list of numbers"),
        ({**GOOD, "values": "many"}, "no list of numbers"),
        ({**GOOD, "seed": [1]}, "has seed [1]; give a whole number"),
        ({**GOOD, "steps": "12"}, "has steps '12'; give a number"),
    ],
)
def test_a_bad_score_file_is_one_sentence(content, why, tmp_path, capsys):
    if isinstance(content, dict) and "task" in content:
        content = {"format": runner.FORMAT, "estimator": "theirs", "results": [content]}
    path = tmp_path / "scores.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(SystemExit) as stop:
        main(["bench", "score", str(path)])
    err = capsys.readouterr().err
    assert stop.value.code == 2
    assert why in err
    assert len(err.strip().splitlines()) == 1


def test_a_score_file_is_scored(tmp_path, capsys):
    path = tmp_path / "scores.json"
    path.write_text(json.dumps({"format": runner.FORMAT, "estimator": "theirs", "results": [GOOD]}))
    main(["bench", "score", str(path), "--out", str(tmp_path / "out"), "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["task"], row["estimator"], row["r2"]) == ("tree", "theirs", 1.0)
    assert (tmp_path / "out" / "table.csv").is_file()


def test_the_list_says_what_there_is(capsys):
    main(["bench", "list", "--set", "core", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert len(found["tasks"]) == len(tasks("core"))
    assert "ours" in found["estimators"]


def test_tasks_can_be_sent_to_other_processes(tmp_path):
    for one in tasks():
        assert pickle.loads(pickle.dumps(one)).name == one.name
    rows = emp.bench.run(
        "tree", ["uniform-source", "sparse-sampling"], out=tmp_path, processes=2, progress=False
    )
    assert [row["estimator"] for row in rows] == ["uniform-source", "sparse-sampling"]


def test_nothing_to_do_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="there is nothing to do"):
        emp.bench.run("tree", ["water-filling"], out=tmp_path, progress=False)


def test_a_failing_estimator_is_named(tmp_path):
    class Failing:
        name, source = "failing", "nowhere"

        def applies(self, task):
            return True

        def fit(self, task, seed):
            return lambda observations: np.full(len(observations), np.nan)

    with pytest.raises(
        ValueError, match="'failing' failed on task 'tree', seed 0: values of task 'tree' hold nan"
    ):
        emp.bench.run("tree", [Failing()], out=tmp_path, processes=1, progress=False)


def test_stored_values_change_only_with_the_version(tmp_path):
    one = task("tree")
    truth = one.truth()
    off = certificates.Truth(truth.nats + 1, truth.lower, truth.upper)
    path = tmp_path / "truth.safetensors"
    certificates.store({"tree": (1, fingerprint(one), truth)}, path)
    with pytest.raises(ValueError, match="give it a new version"):
        certificates.store({"tree": (1, fingerprint(one), off)}, path)
    certificates.store({"tree": (2, fingerprint(one), off), "other": (1, "x", truth)}, path)
    facts, _ = certificates._read(path)
    assert (facts["tree"]["version"], set(facts)) == (2, {"tree", "other"})


@pytest.mark.parametrize("name", ["frozen-lake-4x4", "point-mass"])
@pytest.mark.parametrize("method", ["paper", "contrastive", "uniform-decoder"])
def test_baselines_where_chance_decides_and_where_actions_are_continuous(name, method):
    estimator, one = ESTIMATORS[method], task(name)
    if not estimator.applies(one):
        assert (method, name) in {("contrastive", "point-mass"), ("uniform-decoder", "point-mass")}
        return
    few = replace(estimator, settings={**estimator.settings, "updates": 2, "batch": 64})
    assert np.isfinite(few.fit(one, 0).values(one.observations())).all()


def test_an_estimator_of_ones_own(tmp_path):
    """The example takes ten lines, and runs."""
    own = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "own_estimator.py"))
    rows = emp.bench.run(
        [task("tree")], [own["CountedMoves"]()], out=tmp_path, processes=1, progress=False
    )
    assert rows[0]["estimator"] == "counted-moves"
    assert rows[0]["r2"] < 1


def test_values_may_be_a_plain_function(tmp_path):
    class Plain:
        name, source = "plain", "nowhere"

        def applies(self, task):
            return True

        def fit(self, task, seed):
            return LookUp(task.observations(), task.truth().nats)

    assert not isinstance(Plain().fit(task("tree"), 0), Fitted)
    assert (
        emp.bench.run([task("tree")], [Plain()], out=tmp_path, processes=1, progress=False)[0]["r2"]
        == 1.0
    )


def test_two_tasks_cannot_share_a_name(monkeypatch):
    tree = task("tree")
    module = sys.modules["empowerment.bench.tasks"]  # the package's `tasks` is the function
    monkeypatch.setattr(module, "_all_tasks", lambda: iter([tree, tree]))
    with pytest.raises(ValueError, match="two tasks are called 'tree'"):
        module._by_name.__wrapped__()


def test_regret_of_a_world_whose_successors_are_not_listed():
    assert scoring._successors(task("channel-flip")) == (None, None)
    assert math.isnan(score(task("point-mass"), task("point-mass").truth().nats).regret)
