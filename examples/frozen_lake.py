"""Exact empowerment of Gymnasium's FrozenLake, slippery and dry, and what it is as a reward.

python examples/frozen_lake.py
"""

# %% A Gymnasium environment with a table of transitions is an exact world.
import argparse
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt

import empowerment as emp

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--horizon", type=int, default=4, help="number of actions in a sequence, K")
options.add_argument("--out", type=Path, default=Path("frozen_lake.png"), help="picture to write")
options.add_argument("--quick", action="store_true", help="a short horizon")
args = options.parse_args()
horizon = 2 if args.quick else args.horizon

lakes = {
    name: gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=slippery)
    for name, slippery in [("dry", False), ("slippery", True)]
}
lands = {name: emp.exact(emp.from_gymnasium(lake), horizon) for name, lake in lakes.items()}

# %% On ice that slips two times out of three, hardly anything can be brought about. Each value is
# proved.
for name, land in lands.items():
    gap = (land.upper - land.lower).max()
    print(
        f"{name:9} up to {land.nats.max():.3f} nats ({land.bits.max():.3f} bits), certified to "
        f"{gap:.0e}"
    )

# %% Holes and the goal end the episode: nothing can be brought about there, and the cells beside
# them have less.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for axis, (name, land) in zip(axes, lands.items(), strict=True):
    land.plot(axis)
    axis.set_title(f"{name} lake, K = {horizon}")
figure.savefig(args.out, dpi=120)
print(f"wrote {args.out}")

# %% The same values as a reward: the agent is paid for keeping its options open.
env = emp.EmpowermentReward(lakes["dry"], horizon, mode="replace")
_, info = env.reset(seed=0)
_, reward, *_ = env.step(2)
print(f"from {info['empowerment']:.3f} nats, a step to the right is paid {reward:.3f}")
