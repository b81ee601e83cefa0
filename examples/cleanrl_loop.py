"""An actor and a critic in one file, with empowerment as the only reward: the agent walks to where it can do most.

    python examples/cleanrl_loop.py

Both are tables with an entry for each cell, updated with NumPy at every step from the wrapper's reward.
"""

import argparse

import gymnasium
import numpy as np

import empowerment as emp

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--world", default="empowerment/CrossRoom-v0", help="Gymnasium name of the environment")
options.add_argument("--horizon", type=int, default=5, help="K, of the exact empowerment that is the reward")
options.add_argument("--episodes", type=int, default=1500, help="episodes to learn from")
options.add_argument("--steps", type=int, default=40, help="steps of an episode")
options.add_argument("--rate", type=float, default=0.5, help="learning rate of the actor")
options.add_argument("--gamma", type=float, default=0.9, help="discount")
options.add_argument("--seed", type=int, default=0)
options.add_argument("--quick", action="store_true", help="few episodes")
args = options.parse_args()
episodes = 5 if args.quick else args.episodes

rng = np.random.default_rng(args.seed)
env = emp.EmpowermentReward(gymnasium.make(args.world), args.horizon, mode="replace")
world = emp.from_gymnasium(env.env)
everywhere = emp.exact(world, args.horizon).nats
logits = np.zeros((*world.layout.shape, env.action_space.n))
values = np.full(world.layout.shape, everywhere.mean() / (1 - args.gamma))

ends = []
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

last = float(np.mean(ends[-100:]))
print(f"a cell has {everywhere.mean():.3f} nats on average and {everywhere.max():.3f} at most")
print(f"the last episodes ended at {last:.3f} nats on average, above {np.mean(everywhere < last):.0%} of the cells")
