"""Windows a second where the environment is inside the learner's compiled program, against the same
environment through its Gymnasium interface, in one run.

    python -m pip install ".[jax-envs]" && python benchmarks/jax_worlds.py --out results/jax-worlds

The environment is gymnax's Breakout (MinAtar), K = 3, default settings. Through Gymnasium it is
stepped by gymnax's own wrapper in 16 copies. Counted are windows that are learned from, and windows
that are played where nothing is learned. Beside it: steps a second of the bare environment, 1,024
copies in one compiled loop.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import gymnax
import jax
from gymnax.wrappers import GymnaxToGymWrapper

import empowerment as emp
from empowerment.figures.workshop import provenance
from empowerment.variational.config import make_config
from empowerment.variational.learner import LearnerPolicy
from empowerment.variational.training import Carry, _chunks, prepare
from empowerment.worlds.world import World

NAME, HORIZON, COPIES, BARE, STEPS, LENGTH = "Breakout-MinAtar", 3, 16, 1024, 200, 20


def through_gymnasium() -> World:
    return emp.from_gymnasium(
        lambda: GymnaxToGymWrapper(*gymnax.make(NAME)), learn=True, copies=COPIES
    )


def windows_per_second(world: World, seconds: float) -> dict[str, float]:
    """How many windows are learned from, and how many are played where nothing is learned."""
    config = make_config(world, HORIZON, {})
    run = prepare(world, config)
    carry = run.init(0)

    def play(carry: Carry, _: Any = None) -> tuple[Carry, Any]:
        key, now = jax.random.split(carry.key)
        policy = LearnerPolicy(run.learner, carry.learner)
        agents, batch = run.collector.collect(carry.agents, policy, key=now)
        return carry._replace(agents=agents, key=key), batch.actions.sum()

    def several(carry: Carry) -> Carry:
        if world.on_host:
            return play(carry)[0]
        return jax.lax.scan(play, carry, None, length=LENGTH)[0]

    chunk, played = _chunks(run), several if world.on_host else jax.jit(several)
    length = 1 if world.on_host else LENGTH
    ways = {"learned": lambda c: chunk(c, length)[0], "played": played}
    rates = {}
    for name, way in ways.items():
        carry, done = jax.block_until_ready(way(carry)), 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            carry = jax.block_until_ready(way(carry))
            done += length
        rates[name] = done * config.batch / (time.perf_counter() - start)
    return rates


def bare_steps_per_second() -> float:
    env, params = gymnax.make(NAME)

    def one(states: Any, key: Any) -> Any:
        keys = jax.random.split(key, 2 * BARE).reshape(2, BARE)
        actions = jax.vmap(env.action_space(params).sample)(keys[0])
        return jax.vmap(env.step, (0, 0, 0, None))(keys[1], states, actions, params)[1], None

    states = jax.vmap(env.reset, (0, None))(jax.random.split(jax.random.key(0), BARE), params)[1]
    play = jax.jit(lambda s, k: jax.lax.scan(one, s, jax.random.split(k, STEPS))[0])
    states = jax.block_until_ready(play(states, jax.random.key(1)))
    start = time.perf_counter()
    jax.block_until_ready(play(states, jax.random.key(2)))
    return BARE * STEPS / (time.perf_counter() - start)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seconds", type=float, default=20.0, help="for each measurement")
    options.add_argument("--out", type=Path, default=Path("out/jax-worlds"))
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rates = {
        "inside the learner": windows_per_second(emp.from_jax(gymnax.make(NAME)), args.seconds),
        "Gymnasium": windows_per_second(through_gymnasium(), args.seconds),
    }
    inside = rates["inside the learner"]
    found = {
        "windows a second": {
            name: {way: round(rate, 1) for way, rate in own.items()} for name, own in rates.items()
        },
        "times": {
            name: {way: round(inside[way] / rate, 1) for way, rate in own.items()}
            for name, own in rates.items()
        },
        "bare environment, steps a second": round(bare_steps_per_second()),
        **provenance(),
    }
    print(json.dumps(found, indent=1))
    (args.out / "jax-worlds.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
