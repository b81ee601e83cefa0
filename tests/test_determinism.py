"""The same seed gives the same numbers on the same machine: on one processor or two, and done
twice.

What is learned, by programs that are compiled once and kept, is the same to the last bit on equally
many processors. On another number of them the compiler's matrix products add up in another order,
so that it agrees to rounding.

That a resumed training gives the same numbers is in variational/test_training.py and
test_crashes.py.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import contextlib, hashlib, io, json, os, pathlib, sys, tempfile
os.sched_setaffinity(0, set(map(int, sys.argv[1].split(","))))
import numpy as np
import empowerment as emp
from empowerment.cli import main
from empowerment.figures.reproduce import reproduce

def digest(*parts):
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()

def exact():
    noisy, sure = emp.exact(emp.make("two-rooms", slip=0.1), 2), emp.exact(emp.make("open-room"), 12)
    return digest(noisy.lower, noisy.upper, sure.nats)

def train():
    settings = {"updates": 3, "batch": 1024, "layers": 2, "ema": 0.0, "optimiser": "adagrad", "progress": False}
    est = emp.train(emp.make("two-rooms"), 2, seed=7, **settings)
    return est.landscape().nats.tolist()

def act():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main("act lava-corridor --horizon 2 --steps 5 --seed 3 --json".split())
    return out.getvalue()

def figure():
    with tempfile.TemporaryDirectory() as name:
        claims = reproduce("tree", pathlib.Path(name), None, True, lambda message: None)
        tables = [path.read_text() for path in sorted(pathlib.Path(name).rglob("*.csv"))]
    return repr(claims) + repr(tables)

print(json.dumps([exact(), act(), figure(), train(), exact(), act(), figure(), train()]))
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_one_or_two_processors_once_or_twice(tmp_path):
    first, second = sorted(os.sched_getaffinity(0))[:2]
    outputs = []
    for processors in (f"{first}", f"{first},{second}"):
        # Each side compiles for its own number of processors, and once.
        environment = {
            **os.environ,
            "MPLBACKEND": "Agg",
            "JAX_COMPILATION_CACHE_DIR": str(tmp_path / processors),
        }
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        args = [sys.executable, "-c", SCRIPT, processors]
        done = subprocess.run(args, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        assert found[:4] == found[4:], f"on processors {processors}"
        outputs.append(found[:4])
    assert outputs[0][:3] == outputs[1][:3]
    assert np.allclose(outputs[0][3], outputs[1][3], atol=1e-4)
