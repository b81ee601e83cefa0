"""Predator and prey: windows a second with mujoco.rollout against a plain loop over mj_step, and
simulation's share of training.

    python benchmarks/continuous.py
"""

import argparse
import time

import numpy as np

from empowerment import make
from empowerment.variational import training
from empowerment.worlds.predator_prey import INERTIA, SUBSTEPS, Bodies, PredatorPrey


def windows(
    world: PredatorPrey, count: int, horizon: int, rng: np.random.Generator
) -> tuple[Bodies, np.ndarray]:
    return world.scatter(count, rng), world.draw_actions((count, horizon), rng)


def with_rollout(
    world: PredatorPrey, states: Bodies, actions: np.ndarray, rng: np.random.Generator
) -> Bodies:
    for k in range(actions.shape[1]):
        states = world.step(states, actions[:, k], world.draw_outcome(states, actions[:, k], rng))
    return states


def with_a_loop(
    world: PredatorPrey, states: Bodies, actions: np.ndarray, rng: np.random.Generator
) -> None:
    """The same windows one after the other, as a first program would do it."""
    import mujoco

    model = world._simulator.model
    data = mujoco.MjData(model)
    for i in range(len(actions)):
        mujoco.mj_resetData(model, data)
        for place, body in ((0, states.agent[i]), (7, states.predator[i])):
            data.qpos[place : place + 2] = body[:2]
            data.qvel[6 * (place > 0) : 6 * (place > 0) + 6] = [*body[2:4], 0, *body[4:] / INERTIA]
        for action in actions[i]:
            data.qfrc_applied[:2] = action + world.spread * rng.standard_normal(2)
            way = data.qpos[:2] - data.qpos[7:9]
            data.qfrc_applied[6:8] = world.speed * way / max(np.linalg.norm(way), 1e-9)
            for _ in range(SUBSTEPS):
                mujoco.mj_step(model, data)


def share_of_simulation(updates: int, batch: int) -> float:
    """Seconds in `world.step` over seconds of training, after compilation."""
    world = PredatorPrey()
    config = training.configure(3, {"updates": updates + 50, "batch": batch, "features": 64})
    run = training.prepare(world, config)
    spent, step = [0.0], world.step

    def timed(*parts):
        begin = time.perf_counter()
        try:
            return step(*parts)
        finally:
            spent[0] += time.perf_counter() - begin

    world.step = timed  # pyright: ignore[reportAttributeAccessIssue]
    carry = run.init(0)
    for _ in range(50):
        carry, _ = run.advance(carry)
    spent[0], begin = 0.0, time.perf_counter()
    for _ in range(updates):
        carry, _ = run.advance(carry)
    np.asarray(carry.learner.updates)
    return spent[0] / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=200)
    options = parser.parse_args()
    world, rng = make("predator-prey"), np.random.default_rng(0)
    assert isinstance(world, PredatorPrey)
    states, actions = windows(world, options.windows, 3, rng)
    with_rollout(world, states, actions, rng)
    seconds: dict[str, list[float]] = {"rollout": [], "loop": []}
    for _ in range(options.rounds):  # taken in turns, so that both meet the same machine
        for name, play in (("rollout", with_rollout), ("loop", with_a_loop)):
            begin = time.perf_counter()
            play(world, states, actions, rng)
            seconds[name].append(time.perf_counter() - begin)
    rates = {name: options.windows / np.array(found) for name, found in seconds.items()}
    for name, found in rates.items():
        print(
            f"{name:8} {np.median(found):8.0f} windows a second (K = 3, {3 * SUBSTEPS} steps of "
            "the simulation each)"
        )
    ratio = rates["rollout"] / rates["loop"]
    print(
        f"rollout is {np.median(ratio):.1f} times as fast ({ratio.min():.1f} to {ratio.max():.1f})"
    )
    share = share_of_simulation(options.updates, 1024)
    print(
        f"simulation takes {100 * share:.0f} % of the time of training ({options.updates} updates "
        "of 1,024 windows)"
    )


if __name__ == "__main__":
    main()
