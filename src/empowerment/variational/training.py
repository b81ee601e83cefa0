"""The loop of algorithm 1: act, learn, and between chunks of updates checkpoint and log."""

import dataclasses
import platform
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm import tqdm

from .. import _version
from ..worlds.registry import did_you_mean, rebuild
from ..worlds.world import World
from .checkpoint import RunDirectory, unflatten
from .estimator import Estimator
from .experience import Experience, experience
from .learner import Config, Info, Learner, State
from .sequence import Categorical

CHUNK = 100
"""Updates compiled together; checkpoints and metrics come between chunks."""


class Carry(NamedTuple):
    """Everything that a run needs to go on."""

    learner: State
    agents: Any
    key: Any


class Run(NamedTuple):
    """One world, one configuration."""

    learner: Learner
    experience: Experience

    def init(self, seed: int) -> Carry:
        keys = jax.random.split(jax.random.key(seed), 4)
        state = self.learner.init(self.experience.sample_frames(keys[0]), key=keys[1])
        return Carry(state, self.experience.init(keys[2]), keys[3])

    def advance(self, carry: Carry, _: Any = None) -> tuple[Carry, Info]:
        """Act and learn once."""
        key, now = jax.random.split(carry.key)
        choose = partial(self.learner.choose, carry.learner)
        agents, batch = self.experience.collect(carry.agents, choose, key=now)
        state, info = self.learner.update(carry.learner, batch)
        return Carry(state, agents._replace(errors=info.errors), key), info._replace(errors=info.errors.mean())


def train(
    world: World,
    horizon: int = 5,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **settings: Any,
) -> Estimator:
    """Learn empowerment by acting in a world; returns the same object as `emp.load`.

    `out` keeps the run in a directory, from which `resume=True` goes on. `settings` are the fields of `Config`.
    """
    config = configure(horizon, settings)
    run = Run(Learner(config, Categorical(len(world.actions))), _experience(world, config))
    carry = run.init(seed)
    if out is None:
        carry = _loop(run, carry, None, progress)
        return Estimator(carry.learner.average, config, world)
    directory = RunDirectory(out)
    with directory.locked():
        carry = _open(directory, run, carry, _facts(world, config, seed), resume)
        carry = _loop(run, carry, directory, progress)
    return Estimator(carry.learner.average, config, world)


def load(path: str | Path) -> Estimator:
    """The estimator of a run directory, from its newest good checkpoint."""
    directory = RunDirectory(path)
    facts = directory.facts()
    world = rebuild(facts["world"])
    if world is None:
        raise ValueError(f"run {str(path)!r} was trained on a world that only its program knows; train it there")
    config = configure(facts["config"].pop("horizon"), facts["config"])
    run = Run(Learner(config, Categorical(len(world.actions))), _experience(world, config))
    found = directory.newest()
    if found is None:
        raise ValueError(f"run {str(path)!r} has no checkpoint yet; train it first")
    arrays, _, complaints = found
    for complaint in complaints:
        print(f"{complaint}; using the one before it", file=sys.stderr)
    carry = unflatten(run.init(facts["seed"]), arrays, f"checkpoint of {str(path)!r}")
    return Estimator(carry.learner.average, config, world)


def configure(horizon: int, settings: dict[str, Any]) -> Config:
    """A checked configuration."""
    fields = {field.name: field for field in dataclasses.fields(Config)}
    for name in settings:
        if name not in fields or name == "horizon":
            raise ValueError(
                f"setting {name!r} is unknown{did_you_mean(name, fields)}; give one of {', '.join(sorted(fields))}"
            )
    values: dict[str, Any] = {name: field.default for name, field in fields.items()} | settings | {"horizon": horizon}
    _check(values)
    return Config(**values)


def _check(values: dict[str, Any]) -> None:
    for name in ("horizon", "updates", "batch", "windows", "features", "hidden"):
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value!r} must be a whole number of 1 or more")
    for name in ("beta", "learning_rate", "muon_rate"):
        if not 0 < values[name] < float("inf"):
            raise ValueError(f"{name}={values[name]!r} must be a positive number")
    for name in ("warm_up", "uniform", "uniform_until", "restart", "revisit", "average"):
        if not 0 <= values[name] <= 1:
            raise ValueError(f"{name}={values[name]!r} must lie between 0 and 1")
    for name, known in {"prefix": ("whole", "previous"), "optimiser": ("muon", "adam", "adagrad")}.items():
        if values[name] not in known:
            raise ValueError(f"{name}={values[name]!r} is unknown; give {' or '.join(map(repr, known))}")


def _experience(world: World, config: Config) -> Experience:
    return experience(world, config.batch, config.windows, config.restart, config.revisit)


def _facts(world: World, config: Config, seed: int) -> dict[str, Any]:
    return {
        "world": world.spec(),
        "config": dataclasses.asdict(config),
        "seed": seed,
        "versions": {
            "empowerment": _version.__version__,
            "python": platform.python_version(),
            "jax": jax.__version__,
            "numpy": np.__version__,
        },
    }


def _open(directory: RunDirectory, run: Run, carry: Carry, facts: dict[str, Any], resume: bool) -> Carry:
    """Begin a run directory, or go on from its newest good checkpoint."""
    if not directory.exists:
        directory.create(facts)
        return carry
    if not resume:
        raise ValueError(
            f"{str(directory.path)!r} holds a run already; go on with resume (--resume), or choose another out (--out)"
        )
    old = directory.facts()
    for name in ("world", "config", "seed"):
        if old.get(name) != facts[name]:
            raise ValueError(f"{str(directory.path)!r} was begun with another {name}; give the same, or another out")
    found = directory.newest()
    if found is None:
        directory.truncate_metrics(0)
        return carry
    arrays, state, complaints = found
    for complaint in complaints:
        print(f"{complaint}; going on from the one before it", file=sys.stderr)
    directory.truncate_metrics(state["metrics"])
    return unflatten(carry, arrays, f"checkpoint of {str(directory.path)!r}")


def _loop(run: Run, carry: Carry, directory: RunDirectory | None, progress: bool) -> Carry:
    chunk = jax.jit(partial(_chunk, run), static_argnums=1)
    total, done = run.learner.config.updates, int(carry.learner.updates)
    bar = tqdm(total=total, initial=done, unit="update", disable=not progress, file=sys.stderr)
    with bar:
        while done < total:
            length = min(CHUNK, total - done)
            carry, info = chunk(carry, length)
            done += length
            means = {name: float(np.mean(value)) for name, value in info._asdict().items()}
            _refuse_nonsense(means, done)
            if directory is not None:
                directory.log({"updates": done, **means})
                directory.save(done, carry)
            bar.update(length)
            bar.set_postfix_str(f"bound {means['bound']:.3f} nats, source loss {means['source_loss']:.4f}")
    return carry


def _chunk(run: Run, carry: Carry, length: int) -> tuple[Carry, Info]:
    return jax.lax.scan(run.advance, carry, None, length=length)


def _refuse_nonsense(means: dict[str, float], done: int) -> None:
    for name, value in means.items():
        if not np.isfinite(value):
            raise ValueError(
                f"{name} became {value} before update {done}; the last good checkpoint stands: "
                "resume with a lower learning rate, or check the observations"
            )
