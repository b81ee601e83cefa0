"""Makes the stored run of `test_damage.py` again: `python tests/variational/runs/make.py`, after a
change of format."""

import json
import shutil
from pathlib import Path

import empowerment as emp
from empowerment.variational import training

SETTINGS = {
    "updates": 20,
    "batch": 16,
    "hidden": 6,
    "features": 5,
    "layers": 2,
    "optimiser": "adam",
    "progress": False,
}

if __name__ == "__main__":
    out = Path(__file__).parent / "format-1"
    shutil.rmtree(out, ignore_errors=True)
    training.CHUNK = 10
    run = emp.train(emp.make("tree", depth=2), 2, seed=4, out=out, **SETTINGS)
    (out / "expected.json").write_text(json.dumps({"nats": run.landscape().nats.tolist()}) + "\n")
    (out / "lock").unlink(missing_ok=True)
