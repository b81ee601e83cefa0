"""Run directories that are damaged or planted: one sentence or the checkpoint before, never a wrong
number."""

import contextlib
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import empowerment as emp
from empowerment.variational import training
from empowerment.variational.checkpoint import RunDirectory, _digest_of_facts

RUNS = Path(__file__).parent / "runs"
SETTINGS = {
    "updates": 20,
    "batch": 16,
    "hidden": 6,
    "features": 5,
    "layers": 2,
    "optimiser": "adam",
    "progress": False,
}
FILES = (
    "run.json",
    "metrics.jsonl",
    "checkpoints/00000010.safetensors",
    "checkpoints/00000020.safetensors",
)


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(RUNS / "format-1", tmp_path / "run"))


def resume(run):
    return emp.train(emp.make("tree", depth=2), 2, seed=4, out=run, resume=True, **SETTINGS)


def expected(run):
    return np.array(json.loads((run / "expected.json").read_text())["nats"])


def test_the_format_stays_loadable(run):
    assert np.allclose(emp.load(run).landscape().nats, expected(run), rtol=0, atol=1e-5)


def test_the_format_can_be_resumed(run, monkeypatch, capsys):
    """From a damaged newest checkpoint, that is from the one before it, to the same end."""
    monkeypatch.setattr(training, "CHUNK", 10)
    lines = (run / "metrics.jsonl").read_text()
    (run / FILES[-1]).write_bytes(b"")
    assert np.allclose(resume(run).landscape().nats, expected(run), rtol=0, atol=1e-5)
    assert "00000020.safetensors' is damaged" in capsys.readouterr().err
    assert [
        json.loads(line)["updates"] for line in (run / "metrics.jsonl").read_text().splitlines()
    ] == [10, 20]
    assert (run / "metrics.jsonl").read_text().splitlines()[0] == lines.splitlines()[0]


def harm(data, kind, rng):
    if kind == "emptied":
        return b""
    if kind == "truncated":
        return data[: int(rng.integers(1, len(data)))]
    at = int(rng.integers(len(data)))
    return data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]


@pytest.mark.parametrize("kind", ["emptied", "truncated", "flipped"])
@pytest.mark.parametrize("file", FILES)
def test_damage_is_named_and_never_gives_a_wrong_number(run, capsys, kind, file):
    """`load`, and `newest` for a run that goes on, give exactly what was saved, or say which file
    is bad."""
    good = {path: _arrays(run, path) for path in FILES[2:]}
    described = json.loads((run / "run.json").read_text())
    original, rng, said = (run / file).read_bytes(), np.random.default_rng(0), 0
    for _ in range(1 if kind == "emptied" else 60):
        (run / file).write_bytes(harm(original, kind, rng))
        directory = RunDirectory(run)
        sentence = None
        try:
            facts = directory.facts()
            arrays, _, complaints = directory.newest(metrics=True)
        except ValueError as error:
            sentence = str(error)
        if sentence is not None:
            assert file in sentence
            said += 1
            continue
        assert facts.items() <= described.items()
        said += bool(complaints)
        assert all(file in complaint for complaint in complaints)
        assert any(all(np.array_equal(arrays[k], x[k]) for k in x) for x in good.values())
    if file == FILES[2]:  # it is not needed while the newer one is good
        assert said == 0
    elif file == "metrics.jsonl" and kind == "truncated":
        assert said > 50
    else:
        assert said >= (
            1 if kind == "emptied" else 59
        )  # a flip may fall into the JSON's white space


def _arrays(run, file):
    directory = RunDirectory(run)
    directory.facts()
    return directory.read(run / file)[0]


def test_metrics_may_be_deleted(run, capsys):
    (run / "metrics.jsonl").unlink()
    assert np.allclose(resume(run).landscape().nats, expected(run), rtol=0, atol=1e-5)
    assert "metrics.jsonl' is missing" in capsys.readouterr().err


def test_metrics_that_were_deleted_are_not_asked_for_again(run, capsys):
    (run / "metrics.jsonl").unlink()
    resume(run)
    capsys.readouterr()
    resume(run)  # as one that died before its next checkpoint
    assert capsys.readouterr().err == ""


def test_the_only_good_checkpoint_is_kept(run):
    for updates in (20, 30):
        (run / "checkpoints" / f"{updates:08d}.safetensors").write_bytes(b"bad")
    directory = RunDirectory(run)
    directory.facts()
    _, facts, complaints = directory.newest(metrics=True)
    assert (facts["updates"], len(complaints)) == (10, 2)
    directory.tidy(facts["metrics"], facts["updates"])
    assert [path.stem for path in directory.checkpoints()] == ["00000010"]


def test_load_goes_on_from_the_checkpoint_before(run, capsys):
    (run / FILES[3]).write_bytes((run / FILES[3]).read_bytes()[:-3])
    emp.load(run)
    assert "using the one before it" in capsys.readouterr().err
    (run / FILES[2]).unlink()
    with pytest.raises(ValueError, match="nothing good is before it"):
        emp.load(run)


def test_a_checkpoint_of_another_run_is_not_taken(run, tmp_path):
    other = RunDirectory(tmp_path / "other")
    other.create({"seed": 9})
    with other.locked():
        other.facts()
        arrays = _arrays(run, FILES[3])
        other.save(30, arrays)
    shutil.copy(tmp_path / "other" / "checkpoints" / "00000030.safetensors", run / "checkpoints")
    directory = RunDirectory(run)
    directory.facts()
    assert "belongs to another run" in directory.newest()[2][0]


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.mkdir, (str(self._path),)


@pytest.mark.parametrize(
    "file", [*FILES, "checkpoints/00000030.safetensors", "checkpoints/00000030.pkl"]
)
def test_a_planted_pickle_is_never_opened(run, tmp_path, file):
    (run / file).write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with contextlib.suppress(ValueError):
        emp.load(run)
    assert not (tmp_path / "sprung").exists()
    pickle.loads((run / file).read_bytes())
    assert (tmp_path / "sprung").exists(), "the trap works"


def rewrite(run, **facts):
    """A planted description, its checksum in order."""
    old = json.loads((run / "run.json").read_text())
    del old["sha256"]
    new = {**old, **facts}
    (run / "run.json").write_text(json.dumps({**new, "sha256": _digest_of_facts(new)}))


FOUR = {"shape": [4], "dtype": "float32"}
GRID = {"kind": "grid", "name": "x", "map": ["a."], "slip": 0.0, "bricks": False}


@pytest.mark.parametrize(
    "facts",
    [
        {"config": {}},
        {"config": None},
        {"config": {"horizon": 10**12}},
        {"config": {"horizon": 2, "hidden": 10**9}},
        {"config": {"horizon": 2, "beta": "1"}},
        {"config": {"horizon": 2, "beta": [1]}},
        {"config": {"horizon": 2, "optimiser": {}}},
        {"config": {"horizon": 2, "no": 1}},
        {"world": {"kind": "tree", "depth": 10**9}},
        {"world": {"kind": "tree", "depth": "2"}},
        {"world": {"kind": "tree"}},
        {"world": {"kind": []}},
        {"world": 5},
        {"world": {"kind": "predator-prey", "model": "/etc/passwd"}},
        {"world": {"kind": "point-mass", "nonsense": 1}},
        {"world": {**GRID, "map": 7}},
        {"world": {**GRID, "map": [1]}},
        {"world": {**GRID, "slip": None}},
        {"world": {**GRID, "slip": "0"}},
        {"world": {**GRID, "name": 3}},
        {"world": None, "observation": {"shape": [10**9, 10**9, 10**9], "dtype": "uint8"}},
        {"world": None, "observation": "abc"},
        {"world": None, "observation": {"shape": [4], "dtype": "object"}, "actions": 2},
        {"world": None, "observation": FOUR, "actions": -1},
        {"world": None, "observation": FOUR, "actions": 10**12},
        {"world": None, "observation": {**FOUR, "shape": [2.5]}, "actions": 2},
        {"world": None, "observation": FOUR, "actions": {"size": 10**12, "power": None}},
        {"world": None, "observation": FOUR, "actions": {"size": 2, "power": "much"}},
        {"format": 99},
        {"format": "1"},
    ],
    ids=str,
)
def test_a_planted_description_is_one_sentence_and_takes_no_memory(run, facts):
    rewrite(run, **facts)
    with pytest.raises(ValueError) as caught:
        emp.load(run)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "data", [b"[" * 10**6, b"\xff\xfe", b'{"format": 1' + b"0" * 10**5 + b"}", b"null", b"[]"]
)
def test_a_description_that_is_no_description(run, data):
    (run / "run.json").write_bytes(data)
    with pytest.raises(ValueError, match=r"run\.json"):
        emp.load(run)


def test_files_that_are_no_files(run, tmp_path):
    (run / FILES[3]).unlink()
    os.mkfifo(run / FILES[3])  # reading it would wait for ever
    directory = RunDirectory(run)
    directory.facts()
    assert "is no file" in directory.newest()[2][0]


def test_names_cannot_leave_the_directory(run, tmp_path, monkeypatch, capsys):
    """A world's name is a title, never a path."""
    from empowerment.cli import main

    name = "../../escaped"
    rewrite(run, world={**GRID, "name": name, "map": ["#####", "#a..#", "#####"]})
    out = tmp_path / "deep" / "out"
    world = training.rebuild(RunDirectory(run).facts()["world"])
    from empowerment.figures.landscapes import save_landscape

    save_landscape(emp.exact(world, 1), out)
    with pytest.raises(SystemExit):
        main(
            ["act", str(run), "--steps", "2", "--out", str(out)]
        )  # its checkpoint is of another world
    assert not list(tmp_path.glob("escaped*"))
    assert not list((tmp_path / "deep").glob("escaped*"))


def test_a_tensor_that_lies_about_its_size(run):
    path = run / FILES[3]
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    name = next(key for key in header if key != "__metadata__")
    header[name]["shape"] = [2**40]
    changed = json.dumps(header).encode()
    path.write_bytes(len(changed).to_bytes(8, "little") + changed + data[8 + size :])
    with pytest.raises(ValueError, match="damaged"):
        _arrays(run, FILES[3])
    save_file({"x": np.zeros(3)}, path)
    with pytest.raises(ValueError, match="checksum"):
        _arrays(run, FILES[3])


@pytest.mark.parametrize("file", [FILES[0], FILES[1], FILES[3]])
def test_a_report_says_what_is_damaged(run, file, capsys):
    from empowerment.report.data import gather

    (run / file).write_bytes(b"\x80\x04nonsense")
    found = gather(run)
    if file == "metrics.jsonl":
        assert not found["curves"]
    else:
        assert file in str(found["notes"]) + capsys.readouterr().err
