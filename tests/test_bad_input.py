"""Bad input of every kind, drawn at random: accepted, or refused in one sentence
(benchmarks/fuzz.py: at length)."""

import contextlib
import dataclasses
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import empowerment as emp
from empowerment.cli import parse
from empowerment.variational.checkpoint import RunDirectory, _digest_of_facts
from empowerment.variational.config import Config, configure
from empowerment.variational.training import _described
from empowerment.worlds.grid import GridWorld, Map

RUN = Path(__file__).parent / "variational" / "runs" / "format-1"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)
NAMES = st.sampled_from([field.name for field in dataclasses.fields(Config)] + ["hiden"])


def refused_in_one_line(function, *args):
    """The result; None where it was refused."""
    try:
        return function(*args)
    except ValueError as error:
        sentence = str(error)
    assert len(sentence.splitlines()) == 1, sentence
    return None


@given(st.text(max_size=80) | st.text("#.bkdla\n", max_size=80), st.floats(), st.booleans())
def test_maps(text, slip, bricks):
    drawn = refused_in_one_line(Map.parse, text, "drawn")
    world = refused_in_one_line(GridWorld, drawn, slip, bricks) if drawn is not None else None
    if world is not None:
        after = world.step(world.start, np.arange(len(world.actions), dtype=np.int32), np.int32(0))
        assert world.observe(after).dtype == np.uint8


@given(VALUES, st.dictionaries(NAMES, VALUES, max_size=3))
def test_settings(horizon, chosen):
    config = refused_in_one_line(_plainly(configure), horizon, chosen)
    assert config is None or config.horizon >= 1


def _plainly(function):
    """Without the type checks of the test suite, which users do not have."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Path(shutil.copytree(RUN, tmp_path_factory.mktemp("fuzzed") / "run"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["config", "world"]),
    st.text(max_size=4) | NAMES | st.sampled_from(["kind", "depth"]),
    VALUES,
)
def test_descriptions(run, part, name, value):
    facts = json.loads((RUN / "run.json").read_text())
    del facts["sha256"]
    facts[part][name] = value
    (run / "run.json").write_text(json.dumps({**facts, "sha256": _digest_of_facts(facts)}))
    directory = RunDirectory(run)
    found = refused_in_one_line(directory.facts)
    if found is not None:
        refused_in_one_line(_described, directory, found)


@given(st.integers(0, 10**4), st.binary(max_size=6), st.integers(0, 6))
def test_checkpoints(run, at, new, length):
    good = (RUN / "checkpoints" / "00000020.safetensors").read_bytes()
    at %= len(good)
    changed = good[:at] + new + good[at + length :]
    (run / "checkpoints" / "00000020.safetensors").write_bytes(changed)
    directory = RunDirectory(run)
    directory._identity = json.loads((RUN / "run.json").read_text())["sha256"]
    found = refused_in_one_line(directory.read, directory.checkpoints()[0])
    assert found is None or changed == good


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.floats() | st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=3), max_size=3
    ),
    st.floats(),
)
def test_channels(rows, beta):
    with np.errstate(all="ignore"):
        found = refused_in_one_line(_plainly(emp.capacity), rows, beta)
    assert found is None or 0 <= found.lower <= found.upper < np.inf


SLIPS = {
    'emp.train("two-rooms")': "world is a str; give a world, such as emp.make('two-rooms')",
    'emp.exact("two-rooms", 5)': "world is a str; give a world, such as emp.make('two-rooms')",
    "emp.exact({}, 5)": "world is a dict; give a world, such as emp.make('two-rooms') or emp.from_gymnasium(env)",
    'emp.train_seeds("two-rooms")': "world is a str; give a world, such as emp.make('two-rooms')",
    'emp.train_seeds(emp.make("tree"), seeds=3)': "seeds=3 is one number; give several, such as range(3)",
    'emp.make("two-rooms", slip="0.1")': "slip='0.1' is not a probability; give a number from 0 to 1",
    "emp.maximise_information(lambda x, rng: x, 2.0)": "source=2.0 must be a number of symbols (2, 3, ...) or "
    "emp.Gaussian(size, power)",
    "emp.Gaussian(2, power=0)": "power=0 must be a positive number, or None for numbers between -1 and 1",
}


@pytest.fixture(scope="module")
def answers():
    """What each slip is answered with, in a process without the type checks of the test suite."""
    code = """
import json, sys
import empowerment as emp
answers = {}
for slip in json.load(sys.stdin):
    try:
        eval(slip)
    except Exception as error:
        answers[slip] = f"{type(error).__name__}: {error}"
print(json.dumps(answers))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(list(SLIPS)),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("slip", SLIPS)
def test_likely_slips_are_one_sentence(slip, answers):
    assert answers[slip] == f"ValueError: {SLIPS[slip]}"


@settings(max_examples=25)
@given(
    st.lists(
        st.text(max_size=5)
        | st.sampled_from(["exact", "train", "--horizon", "--out", "2", "-1", "nan"]),
        max_size=5,
    )
)
def test_commands(args):
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            parse(args)
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    assert code in (0, 2)
    assert code == 0 or len(said.getvalue().strip().splitlines()) == 1, said.getvalue()
