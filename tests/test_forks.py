"""JAX does not survive a fork: a forked process says so at once instead of waiting for ever."""

import subprocess
import sys

import pytest

SCRIPT = """
import functools
import gymnasium
import empowerment as emp

def wrapped(value):
    return emp.EmpowermentReward(gymnasium.make("empowerment/TwoRooms-v0"), value)

if __name__ == "__main__":
    settings = dict(updates=1, batch=8, hidden=8, features=8, progress=False)
    estimator = emp.train(emp.make("two-rooms"), 1, **settings)
    makers = [functools.partial(wrapped, estimator)] * 2
    envs = gymnasium.vector.AsyncVectorEnv(makers, context={context!r})
    try:
        observations, info = envs.reset(seed=0)
        print("nats", len(info["empowerment"]))
    except ValueError as error:
        print("refused", error)
    envs.close(terminate=True)
"""


@pytest.mark.parametrize(
    ("context", "answer"), [("fork", "refused this process was forked"), ("spawn", "nats 2")]
)
def test_a_vector_environment_in_processes(context, answer, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("{context!r}", repr(context)))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert answer in done.stdout, done.stderr
    if context == "fork":
        assert "context='spawn'" in done.stdout
