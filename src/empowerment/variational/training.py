"""The loop of algorithm 1: act, learn, and between chunks of updates checkpoint and log."""

import contextlib
import dataclasses
import platform
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from .. import _version
from ..worlds.copies import Copies
from ..worlds.learnable import HostWorld
from ..worlds.registry import did_you_mean, rebuild
from ..worlds.world import World
from .checkpoint import RunDirectory, unflatten
from .estimator import Estimator
from .experience import Experience, experience
from .host import REUSE, Compiled, HostExperience
from .learner import Config, Info, Learner, State
from .sequence import Actions, Categorical, Gaussian, actions_of
from .tracking import Tracker

CHUNK = 100
"""Updates compiled together; checkpoints and metrics come between chunks."""


class Carry(NamedTuple):
    """Everything that a run needs to go on."""

    learner: State
    agents: Any
    key: Any


class Run(NamedTuple):
    """One world, one configuration."""

    learner: Learner | Compiled
    experience: Experience | HostExperience

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
        agents = self.experience.learned(agents, info.errors)  # pyright: ignore[reportArgumentType]
        return Carry(state, agents, key), info._replace(errors=info.errors.mean())


def train(
    world: World,
    horizon: int = 5,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    trackers: Sequence[Tracker] = (),
    **settings: Any,
) -> Estimator:
    """Learn empowerment by acting in a world; returns the same object as `emp.load`.

    `out` keeps the run in a directory, from which `resume=True` goes on: exactly as if it had not been interrupted,
    but for Gymnasium environments that cannot be put back into a state and are reset. `trackers` are told the metrics
    as they come (`emp.TensorBoard`, or three methods of one's own). `settings` are the fields of `Config`.
    """
    config = checked(world, horizon, settings)
    run = prepare(world, config)
    carry, facts = run.init(seed), _facts(world, config, seed)
    with contextlib.ExitStack() as stack:
        directory = None
        if out is not None:
            directory = RunDirectory(out)
            stack.enter_context(directory.locked())
            carry = _open(directory, run, carry, facts, resume)
        stack.enter_context(_tracked(trackers, facts))
        carry = _loop(run, carry, directory, progress, trackers)
    return Estimator(carry.learner.average, config, world)


def checked(world: World, horizon: int, settings: dict[str, Any]) -> Config:
    """The configuration of a run in this world; a ValueError says which setting does not fit."""
    _refuse_moves(world, settings)
    config = configure(horizon, usual(world) | settings)
    _refuse_beta(world, config)
    return config


def usual(world: World) -> dict[str, Any]:
    """Settings that suit the kind of world better than the general ones.

    Where chance decides, the best source is sparse, and uniform sequences after the warm-up would hold it back.
    """
    return {"uniform": 0.0} if world.chances > 1 else {}


def prepare(world: World, config: Config) -> Run:
    """A run of this world; where it acts on the host, the learner's halves are compiled one by one."""
    learner, where = Learner(config, actions_of(world)), _experience(world, config)
    return Run(Compiled(learner) if where.on_host else learner, where)


def load(path: str | Path) -> Estimator:
    """The estimator of a run directory, from its newest good checkpoint.

    A run on a world that only its program knows gives an estimator without a world: give `world=` where one is needed.
    """
    directory = RunDirectory(path)
    facts = directory.facts()
    world = rebuild(facts["world"])
    config = configure(facts["config"].pop("horizon"), facts["config"])
    found = directory.newest()
    if found is None:
        raise ValueError(f"run {str(path)!r} has no checkpoint yet; train it first")
    arrays, _, complaints = found
    for complaint in complaints:
        print(f"{complaint}; using the one before it", file=sys.stderr)
    learner = {name: array for name, array in arrays.items() if name.startswith("learner/")}
    state = unflatten({"learner": _blank(facts, world, config)}, learner, f"checkpoint of {str(path)!r}")
    return Estimator(state["learner"].average, config, world)


def _blank(facts: dict[str, Any], world: World | None, config: Config) -> State:
    """An untrained learner for the observations and actions of a run."""
    if world is not None:
        shape, actions = np.shape(world.observe(world.start)), actions_of(world)
    elif "observation" in facts:
        shape, actions = tuple(facts["observation"]), _actions(facts["actions"])
    else:
        raise ValueError("this run was trained on a world that only its program knows; train anew with this version")
    return Learner(config, actions).init(jnp.zeros((2, *shape)), key=jax.random.key(0))


def _actions(fact: int | dict[str, Any]) -> Actions:
    """What a run says of its actions: how many there are, or what kind of vectors."""
    return Gaussian(**fact) if isinstance(fact, dict) else Categorical(fact)


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


def _refuse_beta(world: World, config: Config) -> None:
    """Densities grow without limit as a distribution narrows, so that -H(a) must not be rewarded."""
    if world.continuous is not None and config.beta > 1:
        raise ValueError(
            f"beta={config.beta!r} has no optimum in world {world.name!r}, whose actions are continuous; give at most 1"
        )


def _refuse_moves(world: World, settings: dict[str, Any]) -> None:
    """Settings that move agents do not apply to environments that cannot be put into a state."""
    for name in ("windows", "restart", "revisit"):
        if name in settings and isinstance(world, HostWorld):
            raise ValueError(
                f"{name}={settings[name]!r} does not apply to environment {world.name!r}, which cannot be put into a "
                "state; leave it out"
            )


def _experience(world: World, config: Config) -> Experience | HostExperience:
    if isinstance(world, HostWorld):
        return HostExperience(world, config.batch)
    if world.on_host and world.continuous is not None:
        return HostExperience(Copies(world, -(-config.batch // REUSE), config.restart), config.batch)
    return experience(world, config.batch, config.windows, config.restart, config.revisit)


def _facts(world: World, config: Config, seed: int) -> dict[str, Any]:
    return {
        "world": world.spec(),
        "observation": list(_observation(world)),
        "actions": len(world.actions) if world.continuous is None else dataclasses.asdict(world.continuous),
        "config": dataclasses.asdict(config),
        "seed": seed,
        "versions": {
            "empowerment": _version.__version__,
            "python": platform.python_version(),
            "jax": jax.__version__,
            "numpy": np.__version__,
        },
    }


def _observation(world: World) -> tuple[int, ...]:
    """Shape of what the learner sees."""
    return world.shape if isinstance(world, HostWorld) else np.shape(world.observe(world.start))


@contextlib.contextmanager
def _tracked(trackers: Sequence[Tracker], facts: dict[str, Any]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for tracker in trackers:
            tracker.start(facts)
            stack.callback(tracker.finish)
        yield


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


def _loop(run: Run, carry: Carry, directory: RunDirectory | None, progress: bool, trackers: Sequence[Tracker]) -> Carry:
    chunk = partial(_chunk_on_host, run) if run.experience.on_host else jax.jit(partial(_chunk, run), static_argnums=1)
    total, done = run.learner.config.updates, int(carry.learner.updates)
    bar = tqdm(total=total, initial=done, unit="update", disable=not progress, file=sys.stderr)
    with bar:
        while done < total:
            length = min(CHUNK, total - done)
            carry, info = chunk(carry, length)
            done += length
            means = {name: float(np.mean(value)) for name, value in info._asdict().items()}
            _refuse_nonsense(means, done)
            if isinstance(run.experience, HostExperience):
                means["dropped"] = float(run.experience.dropped)
            if directory is not None:
                directory.log({"updates": done, **means})
                directory.save(done, carry)
            for tracker in trackers:
                tracker.log(done, means)
            bar.update(length)
            bar.set_postfix_str(f"bound {means['bound']:.3f} nats, source loss {means['source_loss']:.4f}")
    return carry


def _chunk(run: Run, carry: Carry, length: int) -> tuple[Carry, Info]:
    return jax.lax.scan(run.advance, carry, None, length=length)


def _chunk_on_host(run: Run, carry: Carry, length: int) -> tuple[Carry, Info]:
    """The same in Python: the world is stepped between compiled calls."""
    infos = []
    for _ in range(length):
        carry, info = run.advance(carry)
        infos.append(info)
    return carry, jax.tree.map(lambda *x: np.stack(x), *infos)


def _refuse_nonsense(means: dict[str, float], done: int) -> None:
    for name, value in means.items():
        if not np.isfinite(value):
            raise ValueError(
                f"{name} became {value} before update {done}; the last good checkpoint stands: "
                "resume with a lower learning rate, or check the observations"
            )
