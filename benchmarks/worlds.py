"""Environment steps per second with pixels: the vectorised grid engine beside MiniGrid's vector
environment.

    python benchmarks/worlds.py

Both run in this process, one after the other, with random actions drawn beforehand. MiniGrid is
given its best case among the two: its symbolic observations, which need no rendering, are reported
beside its pixels.
"""

import argparse
import json
import time

import gymnasium
import minigrid  # noqa: F401  (registers its environments)
import numpy as np
from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper

import empowerment  # noqa: F401  (registers its environments)


def rate(env, seconds: float) -> float:
    """Steps of single environments per second."""
    rng = np.random.default_rng(0)
    n = env.single_action_space.n
    actions = rng.integers(n, size=(16, env.num_envs))
    env.reset(seed=0)
    for row in actions[:3]:
        env.step(row)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        env.step(actions[steps % 16])
        steps += 1
    return steps * env.num_envs / (time.perf_counter() - start)


def mini(wrapper, count: int):
    return gymnasium.vector.SyncVectorEnv(
        [lambda: wrapper(gymnasium.make("MiniGrid-Empty-16x16-v0"))] * count
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--batch", type=int, default=4096)
    args = parser.parse_args()
    ours = {
        name: rate(
            gymnasium.make_vec(name, num_envs=args.batch, vectorization_mode="vector_entry_point"),
            args.seconds,
        )
        for name in (
            "empowerment/TwoRooms-v0",
            "empowerment/BoxMovable-v0",
            "empowerment/LavaMaze-v0",
        )
    }
    theirs = {
        "MiniGrid pixels": rate(
            mini(lambda e: ImgObsWrapper(RGBImgObsWrapper(e, tile_size=8)), 64), args.seconds
        ),
        "MiniGrid symbolic": rate(mini(ImgObsWrapper, 64), args.seconds),
    }
    for name, value in (ours | theirs).items():
        print(f"{name:28}{value:14,.0f} steps/s")
    ratios = {name: value / theirs["MiniGrid pixels"] for name, value in ours.items()}
    symbolic = {name: value / theirs["MiniGrid symbolic"] for name, value in ours.items()}
    print(json.dumps({"times_minigrid_pixels": ratios, "times_minigrid_symbolic": symbolic}))


if __name__ == "__main__":
    main()
