"""Stable-Baselines3's PPO on a MiniGrid environment with empowerment as its reward.

    pip install ".[sb3]"
    python examples/sb3_minigrid.py --mode replace     # empowerment only
    python examples/sb3_minigrid.py --mode add         # added to the task's reward
    # learned from what the agent sees, instead of exact
    python examples/sb3_minigrid.py --learned

Nothing of Stable-Baselines3 is changed: the wrapper goes around the single environment.
"""

import argparse
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from minigrid.wrappers import FullyObsWrapper, ImgObsWrapper
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import empowerment as emp

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--env", default="MiniGrid-DoorKey-6x6-v0", help="a MiniGrid environment")
options.add_argument("--grid", type=int, default=0, help="seed of the grid, which stays the same")
options.add_argument(
    "--mode", default="replace", choices=["add", "replace", "shape"], help="see EmpowermentReward"
)
options.add_argument(
    "--horizon", type=int, default=3, help="K, of the empowerment that is the reward"
)
options.add_argument(
    "--learned", action="store_true", help="learn empowerment first, instead of exact values"
)
options.add_argument("--steps", type=int, default=30_000, help="steps to learn from")
options.add_argument("--seed", type=int, default=0)
options.add_argument(
    "--out", type=Path, default=Path("ppo_empowerment.zip"), help="file for the trained agent"
)
options.add_argument(
    "--picture", type=Path, default=Path("sb3_minigrid.png"), help="picture to write"
)
options.add_argument("--quick", action="store_true", help="few steps")
args = options.parse_args()


class SameGrid(gymnasium.Wrapper):
    """Every episode has the same grid and start."""

    def reset(self, *, seed=None, options=None):
        return self.env.reset(seed=args.grid, options=options)


def view() -> gymnasium.Env:
    return ImgObsWrapper(FullyObsWrapper(gymnasium.make(args.env, max_steps=100)))


def make(mode: str, value) -> gymnasium.Env:
    env = emp.EmpowermentReward(view(), value, mode=mode, gamma=0.9)
    return gymnasium.wrappers.FlattenObservation(SameGrid(env))


def learned() -> emp.Estimator:
    env = view()
    env.reset(seed=args.grid)
    return emp.train(
        emp.from_gymnasium(env), args.horizon, seed=args.seed, updates=5 if args.quick else 3000
    )


def visits(choose, episodes: int) -> list[np.ndarray]:
    """Exact empowerment of the states that each episode visits."""
    env, found = make("info", args.horizon), []
    for _ in range(episodes):
        observation, info = env.reset()
        nats, over = [info["empowerment"]], False
        while not over:
            observation, _, terminated, truncated, info = env.step(choose(observation))
            nats.append(info["empowerment"])
            over = terminated or truncated
        found.append(np.array(nats))
    return found


episodes, copies = (1, 2) if args.quick else (30, 8)
reward = learned() if args.learned else args.horizon
agent = PPO(
    "MlpPolicy",
    make_vec_env(lambda: make(args.mode, reward), copies, seed=args.seed),
    n_steps=32 if args.quick else 256,
    gamma=0.9,
    ent_coef=0.01,
    seed=args.seed,
    device="cpu",
)
agent.learn(64 if args.quick else args.steps)
agent.save(args.out)

rng = np.random.default_rng(args.seed)
random = np.concatenate(visits(lambda _: int(rng.integers(agent.action_space.n)), episodes))
ends = np.array([nats[-1] for nats in visits(lambda seen: int(agent.predict(seen)[0]), episodes)])
line = np.quantile(random, 0.9)
print(
    f"a random agent visits states of {random.mean():.3f} nats on average, 90th percentile "
    f"{line:.3f}"
)
print(
    f"the trained agent ends at {ends.mean():.3f} nats, above that percentile in "
    f"{np.mean(ends > line):.0%} of episodes"
)

figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
bins = np.linspace(random.min() - 0.1, max(random.max(), ends.max()) + 0.1, 40)
axis.hist(random, bins, density=True, color="0.7", label="states that a random agent visits")
axis.hist(
    ends, bins, density=True, color="tab:blue", alpha=0.8, label="where the trained agent ends"
)
axis.axvline(line, color="0.2", linestyle="--", label="90th percentile of the random agent")
axis.set(
    xlabel=f"exact empowerment, K = {args.horizon} (nats)",
    ylabel="density",
    title=f"{args.env}, {args.mode}",
)
axis.legend(fontsize=8)
figure.savefig(args.picture, dpi=110)
print(f"wrote {args.picture}")
