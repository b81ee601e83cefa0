"""A world of one's own in 30 lines: a lift that goes up, down or stays, and jams one time in ten.

python examples/own_world.py
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import empowerment as emp
from empowerment.worlds.world import World, namespace


class Lift(World):
    """States are floors. Written with functions that NumPy and JAX share, it is exact and can be
    compiled."""

    name = "lift"
    actions = ("down", "stay", "up")
    outcomes = 2  # it moves, or it jams

    def __init__(self, floors: int):
        self.floors, self.start = floors, np.int32(0)

    def step(self, state: Any, action: Any, outcome: Any) -> Any:
        xp = namespace(state, action, outcome)
        moved = xp.clip(state + action - 1, 0, self.floors - 1)
        return xp.where(outcome == 0, moved, state).astype(np.int32)

    def probabilities(self, state: Any, action: Any) -> Any:
        xp = namespace(state, action)
        return xp.broadcast_to(
            xp.asarray([0.9, 0.1]), (*xp.broadcast_shapes(state.shape, action.shape), 2)
        )

    def observe(self, state: Any) -> Any:
        return (state[..., None] == namespace(state).arange(self.floors)).astype(np.float32)

    def states(self) -> np.ndarray:
        return np.arange(self.floors, dtype=np.int32)


options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--out", type=Path, default=Path("own_world.png"), help="picture to write")
options.add_argument("--quick", action="store_true", help="few updates")
args = options.parse_args()

lift = Lift(floors=7)
truth = emp.exact(lift, horizon=2)
small = {"updates": 5, "batch": 64, "hidden": 16, "optimiser": "adam"}
learned = emp.train(
    lift, horizon=2, **(small if args.quick else {"updates": 500, "batch": 512})
).landscape()
for floor in reversed(range(lift.floors)):
    print(f"floor {floor}: exact {truth.nats[floor]:.3f} nats, learned {learned.nats[floor]:.3f}")
print(emp.compare(learned, truth))

figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
axis.plot(truth.nats, "o-", color="0.2", label="exact")
axis.plot(learned.nats, "x--", color="tab:orange", label="learned")
axis.set(
    xlabel="floor", ylabel="empowerment (nats)", ylim=(0, None), title="A lift that jams, K = 2"
)
axis.legend()
figure.savefig(args.out, dpi=120)
print(f"wrote {args.out}")
