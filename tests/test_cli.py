import json
import subprocess
import sys

import numpy as np
import pytest

import empowerment as emp
from empowerment import __version__, worlds
from empowerment.cli import main, show
from empowerment.variational.config import STOCHASTIC, Config


def run(capsys, *args):
    """Exit code, standard output and standard error of one command."""
    try:
        main(list(args))
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    out, err = capsys.readouterr()
    return code, out, err


def test_version_and_help(capsys):
    assert run(capsys, "--version")[1].strip() == __version__
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "exact" in out
    assert "empowerment exact two-rooms" in run(capsys, "exact", "--help")[1]


def test_worlds_are_listed_and_drawn(capsys, tmp_path):
    assert all(name in run(capsys, "worlds")[1] for name in worlds())
    code, out, _ = run(capsys, "worlds", "--out", str(tmp_path / "pictures"), "--json")
    assert code == 0
    assert set(json.loads(out)) == set(worlds())
    assert {p.stem for p in (tmp_path / "pictures").glob("*.png")} == set(worlds())


def test_exact_prints_one_json_object(capsys, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("#####\n#a..#\n#####\n")
    code, out, _ = run(
        capsys, "exact", str(path), "--horizon", "1", "--out", str(tmp_path / "out"), "--json"
    )
    result = json.loads(out)
    assert code == 0
    assert result["states"] == 3
    assert result["positions"] == [[1, 1], [1, 2], [1, 3]]
    assert result["slip"] == 0.0
    assert result["version"] == __version__
    assert result["argmax"] == [1, 2]
    assert result["max"] == pytest.approx(1.0986122886681098)
    assert list((tmp_path / "out").glob("*.png"))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["exact", "two-room"], ["'two-room'", "did you mean 'two-rooms'?"]),
        (["exact", "two-rooms", "--slip", "1.5"], ["slip=1.5"]),
        (["exact", "two-rooms", "--horizon", "0"], ["horizon", "0"]),
        (["exact", "two-rooms", "--horizon", "5.5"], ["--horizon takes a whole number, not '5.5'"]),
        (["exact", "two-rooms", "--slip=much"], ["--slip takes a number, not 'much'"]),
        (["exact", "two-rooms", "--slip"], ["--slip takes a number, and none is given"]),
        (["exact", "two-rooms", "twice"], ["'twice' is not understood"]),
        (["act", "two-rooms", "--start", "1"], ["--start takes a row and a column, not '1'"]),
        (
            ["train", "two-rooms", "--out", "nowhere", "--update", "10"],
            ["'--update'", "did you mean '--updates'?"],
        ),
        (["trian", "two-rooms"], ["command 'trian' is unknown (did you mean 'train'?)"]),
        (["exact", "two-rooms", "--horizn", "2"], ["--horizn", "--help"]),
        (["exact", "two-rooms", "--part", "0/2"], ["--out"]),
        (
            ["exact", "two-rooms", "--part", "0/2", "--processes", "2", "--out", "nowhere"],
            ["processes=2"],
        ),
        (["train", "two-rooms", "--out", "nowhere", "--process-id", "1"], ["coordinator"]),
        (
            ["train", "two-rooms", "--out", "nowhere", "--processes", "2", "--coordinator", "h:1"],
            ["coordinator"],
        ),
        (
            ["train", "two-rooms", "--out", "nowhere", "--preset", "papr"],
            ["preset='papr'", "did you mean 'paper'?"],
        ),
        (
            ["train", "two-rooms", "--out", "nowhere", "--method", "importanse"],
            ["did you mean 'importance'?"],
        ),
        (
            ["train", "two-rooms", "--out", "nowhere", "--processes", "2", "--process-id", "1"],
            ["coordinator"],
        ),
        (
            ["train", "two-rooms", "--out", "nowhere", "--seeds", "2", "--process-count", "2"],
            ["seeds=2", "leave"],
        ),
        (["exact"], ["WORLD is missing"]),
        (["train", "two-rooms"], ["--out is missing"]),
        (["--verson"], ["option '--verson' is unknown"]),
    ],
)
def test_bad_input_is_one_sentence_and_exit_two(capsys, args, words):
    code, out, err = run(capsys, *args)
    assert code == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    assert all(word in err for word in words), err


def test_a_landscape_of_something_else_is_not_overwritten(capsys, tmp_path):
    args = ["exact", "open-room", "--out", str(tmp_path / "out"), "--horizon", "1"]
    assert run(capsys, *args)[0] == 0
    before = (tmp_path / "out" / "landscape.safetensors").read_bytes()
    assert run(capsys, *args)[0] == 0  # the same again
    for other in (["--horizon", "2"], ["--slip", "0.1"]):
        code, _, err = run(capsys, *args, *other)
        assert code == 2
        assert "holds the landscape of 'open-room', K = 1" in err
    assert (tmp_path / "out" / "landscape.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    "command", [["exact", "tree"], ["act", "tree"], ["train", "tree"], ["reproduce", "tree"]]
)
def test_a_place_that_cannot_be_written_is_one_sentence(capsys, tmp_path, monkeypatch, command):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "deeper"):
        code, _, err = run(capsys, *command, "--out", str(out))
        assert code == 2
        assert "a file where a directory is needed" in err
    monkeypatch.setattr(
        "empowerment.files.os.access", lambda path, mode: False
    )  # root may write anywhere
    code, _, err = run(capsys, *command, "--out", str(tmp_path / "new" / "deeper"))
    assert code == 2
    assert f"no permission in {str(tmp_path)!r}" in err
    assert not (tmp_path / "new").exists()


def test_what_the_disk_refuses_is_one_sentence(capsys, monkeypatch):
    for number, words in (
        (13, "permission denied"),
        (17, "a directory is needed"),
        (28, "disk is full"),
    ):

        def refuse(self, number=number):
            raise OSError(number, "as the system says it", "somewhere")

        monkeypatch.setattr("empowerment.cli.Worlds.run", refuse)
        code, _, err = run(capsys, "worlds")
        assert code == 2
        assert words in err
        assert "'somewhere'" in err
        assert "Errno" not in err


def test_a_missing_extra_leaves_nothing_behind(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    code, _, err = run(capsys, "train", "tree", "--out", str(tmp_path / "run"), "--tensorboard")
    assert code == 2
    assert "TensorBoard needs tensorboardX" in err
    assert not (tmp_path / "run").exists()


def test_import_is_quick_and_starts_no_device():
    code = "import sys, empowerment; print('jax' in sys.modules, 'matplotlib' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.split() == ["False", "False"]


def test_act_writes_an_episode(capsys, tmp_path):
    out = tmp_path / "episode"
    code, text, _ = run(
        capsys,
        "act",
        "lava-corridor",
        "--horizon",
        "2",
        "--steps",
        "8",
        "--out",
        str(out),
        "--json",
    )
    result = json.loads(text)
    assert code == 0
    assert set(result) == {"alive", "steps", "path", "actions", "empowerment", "reachable_cells"}
    assert len(result["path"]) == result["steps"] + 1
    assert {p.name for p in out.iterdir()} >= {"filmstrip.png", "video.gif", "episode.json"}


def test_a_directory_with_the_name_of_a_world_hides_it_only_if_it_is_a_run(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "open-room").mkdir()
    (tmp_path / "other").mkdir()
    assert run(capsys, "act", "open-room", "--horizon", "1", "--steps", "1", "--json")[0] == 0
    assert "is not a run" in run(capsys, "act", "other")[2]
    (tmp_path / "open-room" / "run.json").write_text("{}")
    assert "run.json" in run(capsys, "act", "open-room")[2]


def test_memory_that_runs_out_is_one_sentence(capsys, monkeypatch):
    def full(self):
        raise kind(f"{words}: Out of memory while trying to allocate 8589934592 bytes.\nAnd more.")

    monkeypatch.setattr("empowerment.cli.Worlds.run", full)
    sentence = (
        "memory ran out; give a smaller world, horizon or batch (--batch), or use a larger machine"
    )
    for kind, words in ((RuntimeError, "RESOURCE_EXHAUSTED"), (MemoryError, "Unable")):  # noqa: B007 - for `full`
        code, _, err = run(capsys, "worlds")
        assert code == 2
        assert err.strip() == f"empowerment: {sentence}"
    kind, words = RuntimeError, "INTERNAL"
    with pytest.raises(RuntimeError, match="INTERNAL"):
        main(["worlds"])


def test_help_says_what_is_usual(capsys):
    text = " ".join(run(capsys, "train", "--help")[1].replace("│", " ").split())
    assert f"(default: {Config.updates}; {STOCHASTIC['updates']} where chance decides)" in text
    assert f"(default: {Config.batch})" in text
    for name in ("method", "preset"):
        assert f"(default: {getattr(Config, name)})" in text
    assert "None" not in text


def test_the_hint_is_for_worlds_that_have_exact_values(capsys, tmp_path, monkeypatch):
    class Learned:
        def __init__(self, world):
            self.world = world

        def landscape(self):
            return emp.exact(emp.make("tree"), 1)

        def impossible(self, nats):
            return np.zeros(len(nats), bool)

    monkeypatch.setattr(
        "empowerment.variational.training.train", lambda world, *args, **settings: Learned(world)
    )
    for name, hint in {
        "tree": True,
        "point-mass": True,
        "pendulum": False,
        "predator-prey": False,
    }.items():
        _, out, _ = run(capsys, "train", name, "--out", str(tmp_path / name))
        assert ("empowerment check" in out) == hint


def test_act_starts_where_it_is_told(capsys):
    args = ["act", "open-room", "--horizon", "1", "--steps", "1", "--json", "--start"]
    code, text, _ = run(capsys, *args, "3", "4")
    assert code == 0
    assert json.loads(text)["path"][0] == [3, 4]
    code, _, err = run(capsys, *args, "0", "4")
    assert code == 2
    assert "start=(0, 4) is no free place" in err


def test_train_then_check_then_act(capsys, tmp_path):
    path, out = tmp_path / "mine.txt", tmp_path / "run"
    path.write_text("########\n#a.#...#\n#..#...#\n#......#\n########\n")
    args = ["train", str(path), "--horizon", "2", "--updates", "40", "--out", str(out)]
    code, text, _ = run(capsys, *args, "--json")
    assert code == 0
    assert json.loads(text)["states"] == 16
    code, _, err = run(capsys, *args)
    assert code == 2
    assert "--resume" in err
    assert run(capsys, *args, "--resume")[0] == 0
    code, text, _ = run(capsys, "check", str(out), "--samples", "50", "--json")
    result = json.loads(text)
    assert code == 0, "the bound holds, however little was learned"
    assert {"pearson", "r2", "bias", "max_error", "argmax_agrees", "bound_broken"} <= set(result)
    code, _, err = run(capsys, "check", str(out), "--samples", "1")
    assert code == 2
    assert "samples=1" in err
    code, text, _ = run(capsys, "act", str(out), "--steps", "3", "--json")
    assert code == 0
    assert json.loads(text)["steps"] == 3


def test_check_leaves_other_objectives_alone(capsys, tmp_path):
    emp.train(
        emp.make("tree", depth=2),
        2,
        out=tmp_path / "run",
        updates=4,
        batch=8,
        beta=0.5,
        progress=False,
    )
    code, _, err = run(capsys, "check", str(tmp_path / "run"))
    assert code == 2
    assert "beta=0.5" in err


def test_numbers_that_are_none_are_null(capsys):
    show({"r2": float("nan"), "nats": [1.0, float("inf")]}, True, "")
    assert json.loads(capsys.readouterr().out) == {"r2": None, "nats": [1.0, None]}
