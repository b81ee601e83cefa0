"""Every example runs in its quick form, as a user would start it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, directory, *flags):
    return subprocess.run(
        [
            sys.executable,
            "-W",
            "error::DeprecationWarning:__main__",
            EXAMPLES / name,
            "--quick",
            *flags,
        ],
        cwd=directory,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "words", "made"),
    [
        ("spiking_neuron.py", "of it", "spiking_neuron.png"),
        ("frozen_lake.py", "certified to", "frozen_lake.png"),
        ("own_world.py", "floor 6: exact 0.817", "own_world.png"),
        ("cleanrl_loop.py", "nats on average", "cleanrl_loop.png"),
        ("jax_ppo.py", "of the cells", "jax_ppo.png"),
        ("sb3_minigrid.py", "above that percentile", "ppo_empowerment.zip sb3_minigrid.png"),
    ],
)
def test_example(name, words, made, tmp_path):
    if name.startswith("sb3"):
        pytest.importorskip("stable_baselines3")
    done = run(name, tmp_path)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
    for picture in made.split():
        assert (tmp_path / picture).stat().st_size > 1000


def test_sb3_with_a_learned_reward(tmp_path):
    pytest.importorskip("stable_baselines3")
    done = run("sb3_minigrid.py", tmp_path, "--learned", "--mode", "add")
    assert done.returncode == 0, done.stderr
    assert "above that percentile" in done.stdout


def test_an_estimator_in_torch_says_the_same(tmp_path):
    pytest.importorskip("torch")
    done = run("torch_estimator.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "largest difference of 292 states" in done.stdout
