"""An actor and a critic in one file, with empowerment as the only reward: the agent walks to where
it can do most.

    python examples/cleanrl_loop.py

Both are tables with an entry for each cell, updated with NumPy at every step from the wrapper's
reward.
"""

import argparse
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import empowerment as emp

options = argparse.ArgumentParser(description=__doc__)
options.add_argument(
    "--world", default="empowerment/CrossRoom-v0", help="Gymnasium name of the environment"
)
options.add_argument(
    "--horizon", type=int, default=5, help="K, of the exact empowerment that is the reward"
)
options.add_argument("--episodes", type=int, default=1500, help="episodes to learn from")
options.add_argument("--steps", type=int, default=40, help="steps of an episode")
options.add_argument("--rate", type=float, default=0.5, help="learning rate of the actor")
options.add_argument("--gamma", type=float, default=0.9, help="discount")
options.add_argument("--seed", type=int, default=0)
options.add_argument("--out", type=Path, default=Path("cleanrl_loop.png"), help="picture to write")
options.add_argument("--quick", action="store_true", help="few episodes")
args = options.parse_args()
episodes = 5 if args.quick else args.episodes

rng = np.random.default_rng(args.seed)
env = emp.EmpowermentReward(gymnasium.make(args.world), args.horizon, mode="replace")
world = emp.from_gymnasium(env.env)
land = emp.exact(world, args.horizon)
everywhere = land.nats
logits = np.zeros((*world.layout.shape, env.action_space.n))
values = np.full(world.layout.shape, everywhere.mean() / (1 - args.gamma))

ends, places = [], []
for _ in range(episodes):
    env.reset(seed=int(rng.integers(2**31)), options={"start": "anywhere"})
    cell = tuple(world.locate(env.unwrapped.state))
    for _ in range(args.steps):
        odds = np.exp(logits[cell] - logits[cell].max())
        odds /= odds.sum()
        action = int(rng.choice(len(odds), p=odds))
        _, reward, terminated, truncated, info = env.step(action)
        after = tuple(world.locate(env.unwrapped.state))
        advantage = reward + args.gamma * values[after] * (not terminated) - values[cell]
        values[cell] += 0.2 * advantage
        logits[cell] += args.rate * advantage * ((np.arange(len(odds)) == action) - odds)
        cell = after
        if terminated or truncated:
            break
    ends.append(info["empowerment"])
    places.append(cell)

last = float(np.mean(ends[-100:]))
print(f"a cell has {everywhere.mean():.3f} nats on average and {everywhere.max():.3f} at most")
print(
    f"the last episodes ended at {last:.3f} nats on average, above "
    f"{np.mean(everywhere < last):.0%} of the cells"
)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=(1.4, 1)
)
window = min(50, len(ends))
left.plot(np.convolve(ends, np.ones(window) / window, "valid"), color="tab:blue")
left.axhline(everywhere.mean(), color="0.4", linestyle="--", label="mean over the cells")
left.axhline(everywhere.max(), color="0.4", label="highest")
left.set(
    xlabel="episode", ylabel="empowerment at the end (nats)", title=f"mean of {window} episodes"
)
left.legend()
land.plot(right)
rows, columns = np.array(places[-100:]).T
right.scatter(columns, rows, s=14, color="tab:red", alpha=0.4)
right.set_title("where the last episodes ended")
figure.savefig(args.out, dpi=100)
print(f"wrote {args.out}")
