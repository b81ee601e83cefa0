"""The loop of algorithm 1: act, learn, and between chunks of updates checkpoint and log."""

import contextlib
import dataclasses
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from tqdm import tqdm

from .. import _version
from ..files import refuse_unwritable
from ..limits import refuse_beyond
from ..worlds.copies import Copies
from ..worlds.memory import explored, from_arrays, to_arrays
from ..worlds.registry import rebuild
from ..worlds.world import Continuous, World, check_world
from .checkpoint import RunDirectory
from .closed_loop import closed_loop_loss
from .collect import ArchiveCollector, archive
from .compiled import keep_compiled
from .config import LARGEST_SIZE, Config, configure, is_number, make_config
from .devices import (
    REPLICATED,
    all_devices,
    by_leader,
    from_leader,
    gathered,
    leads,
    local,
    naming_losses,
    place,
    refuse_fork,
    shardings,
    tree_from_leader,
)
from .estimator import Estimator
from .host import KEPT, REUSE, Compiled, StreamCollector
from .keys import check_seed, seed_key
from .learner import Info, Learner, LearnerPolicy, State, exponential_psi, squared_psi
from .sequence import Actions, Categorical, actions_for, components_for, vectors
from .soundness import checked_sample, refuse_nonsense
from .tracking import Tracker
from .trees import digest, unflatten

CHUNK = 100
"""Updates between checkpoints and lines of metrics."""
RESTART = 0.5
"""How often a copy of a simulation restarts from a random state between windows."""
STRIDE = 10
"""Updates that are compiled together: so often the display moves."""


class Carry(NamedTuple):
    """Everything that a run needs to resume."""

    learner: State
    agents: Any
    key: Any


class Run(NamedTuple):
    """One world, one configuration."""

    learner: Learner | Compiled
    collector: Any
    """Where batches come from: a collector, or another with the same methods."""

    @property
    def placement(self) -> Any:
        """Where everything carried on is: parameters on every device, agents divided among them."""
        if self.learner.mesh is None:
            return None
        return shardings(self.learner.mesh, Carry(REPLICATED, self.collector.placement, REPLICATED))  # pyright: ignore[reportArgumentType]

    def init(self, seed: int) -> Carry:
        sample_key, model_key, agents_key, key = jax.random.split(seed_key(seed, "train"), 4)
        sample = checked_sample(self.collector.sample_frames(sample_key))
        # One program: to compile each of its operations by itself takes several times as long.
        state = jax.jit(lambda sample, key: self.learner.init(sample, key=key))(sample, model_key)
        return Carry(state, self.collector.init(agents_key), key)

    def advance(self, carry: Carry, _: Any = None) -> tuple[Carry, Info]:
        """Act and learn once."""
        key, now = jax.random.split(carry.key)
        agents, batch = self.collector.collect(
            carry.agents, LearnerPolicy(self.learner, carry.learner), key=now
        )
        state, info = self.learner.update(carry.learner, batch)
        agents = self.collector.feedback(agents, info.errors)
        return Carry(state, agents, key), info._replace(errors=info.errors.mean())


def train(
    world: World,
    horizon: int | float | np.integer = 5,
    seed: int | np.integer = 0,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    trackers: Sequence[Tracker] = (),
    **settings: Any,
) -> Estimator:
    """Learn empowerment by acting in a world, on all devices; returns the same object as
    `emp.load`.

    `out` keeps the run in a directory, from which `resume=True` continues: exactly as if it had
    not been interrupted, except for Gymnasium environments, which cannot be put back into a
    state and are reset, and for predator-prey, whose copies restart. `trackers` get the metrics
    as they come (`emp.TensorBoard`, or three methods of one's own). `settings` are the fields of
    `Config`; one that would be ignored in this world is refused. `preset="paper"` is the
    algorithm as printed, for comparison.
    """
    if resume and out is None:
        raise ValueError(
            "resume=True continues the run in a directory; give out= as well, or leave it out"
        )
    check_seed(seed)
    seed = int(seed)
    # Whatever can be refused is refused before anything is created.
    resuming = bool(from_leader(np.asarray(bool(by_leader(lambda: _begun(out, resume))))))
    check_world(world)
    played = _played(world, seed, RunDirectory(cast(Any, out)) if resuming else None, progress)
    run = prepare(played, make_config(played, horizon, settings, resuming), seed, all_devices())
    config = run.learner.config
    carry = run.init(seed)
    facts = _facts(world, config, seed, carry.learner.model.representation.pixels)
    memory = to_arrays(played)
    facts["memory"] = digest(memory, "") if memory else None
    with contextlib.ExitStack() as stack:
        directory = None if out is None else by_leader(lambda: _claimed(out, resume, stack))
        if out is not None:
            opened = by_leader(lambda: _restored(cast(RunDirectory, directory), carry, facts))
            carry = tree_from_leader(opened or carry)
        trackers = trackers if leads() else ()
        stack.enter_context(_tracked(trackers, facts))
        if out is not None and not resuming:
            by_leader(lambda: cast(RunDirectory, directory).create(facts, memory))
        carry = learn(run, place(carry, run.placement), directory, progress and leads(), trackers)
    return Estimator(local(carry.learner.average), config, played)


def _played(world: World, seed: int, directory: RunDirectory | None, progress: bool) -> World:
    """What windows are played in: the world or, where it can only be acted in and its observations
    repeat, the table of what was seen, which a run that is resumed has kept."""
    if world.settable or jax.process_count() > 1:
        return world
    if directory is None:
        return explored(world, seed, progress).world
    kept = directory.memory()
    return world if kept is None else from_arrays(kept, world.name, world.actions)


def prepare(world: World, config: Config, seed: int = 0, mesh: Mesh | None = None) -> Run:
    """A run of this world; where it acts on the host, the learner's halves are compiled one by
    one."""
    refuse_fork()
    keep_compiled()
    learner: Learner
    if config.method == "variational":
        where = _collector(world, config, mesh)
        known = world.deterministic or where.outcomes > 1
        objective = exponential_psi if known and not config.as_printed else squared_psi
        if config.feedback:
            objective = partial(closed_loop_loss, known)
        learner = Learner(config, actions_for(world, config), objective, where.mesh)
        _refuse_uneven(config.batch, learner.mesh)
        _refuse_large(world, learner, where.tabulated)
    else:
        from ..model_based.methods import prepare_with_model

        if jax.process_count() > 1:
            raise ValueError(
                f"method={config.method!r} learns in one process; leave the others out"
            )
        learner, where = prepare_with_model(world, config, seed)
    return Run(Compiled(learner) if where.on_host else learner, where)


def load(path: str | Path) -> Estimator:
    """The estimator of a run directory, from its newest good checkpoint.

    A run on a world that only its program knows gives an estimator without a world: give `world=`
    where one is needed.
    """
    refuse_fork()
    keep_compiled()
    directory = RunDirectory(path)
    facts = directory.facts()
    world, config = _described(directory, facts)
    found = directory.newest()
    if found is None:
        raise ValueError(f"run {str(path)!r} has no checkpoint yet; train it first")
    arrays, _, complaints = found
    for complaint in complaints:
        print(f"{complaint}; using the one before it", file=sys.stderr)
    memory = directory.memory()
    if world is None and memory is not None:
        world = from_arrays(memory, facts["identity"]["name"])
    learner = {name: array for name, array in arrays.items() if name.startswith("learner/")}
    state = unflatten(
        {"learner": _blank(facts, world, config)}, learner, f"checkpoint of {str(path)!r}"
    )
    return Estimator(state["learner"].average, config, world)


def _described(directory: RunDirectory, facts: dict[str, Any]) -> tuple[World | None, Config]:
    """World and configuration of a run; its description may come from anywhere, so anything may be
    wrong with it."""
    try:
        settings = dict(facts["config"])
        return rebuild(facts["world"]), configure(settings.pop("horizon"), settings)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{str(directory.path / 'run.json')!r} describes no training ({type(error).__name__}: "
            f"{error}); "
            "train again, or restore the file"
        ) from None


def _blank(facts: dict[str, Any], world: World | None, config: Config) -> State:
    """Shapes of a learner for the observations and actions of a run; nothing is allocated."""
    shape, dtype = _seen(facts.get("observation"))
    if world is not None:
        actions = actions_for(world, config)
    else:
        actions = _actions(facts.get("actions"), components_for(config))
    learner, sample = Learner(config, actions), jax.ShapeDtypeStruct((2, *shape), dtype)
    return jax.eval_shape(lambda sample: learner.init(sample, key=jax.random.key(0)), sample)


def _seen(fact: Any) -> tuple[tuple[int, ...], str]:
    """What a run says of the shape and the type of its observations."""
    shape, dtype = (
        (fact.get("shape"), fact.get("dtype")) if isinstance(fact, dict) else (None, None)
    )
    if not isinstance(shape, list) or len(shape) not in (1, 3) or not all(map(_is_size, shape)):
        raise ValueError(f"run.json has observations of shape {shape!r}; restore the file")
    if dtype not in ("uint8", "float32"):
        raise ValueError(f"run.json has observations of type {dtype!r}; restore the file")
    return tuple(shape), dtype


def _actions(fact: Any, components: int | None) -> Actions:
    """What a run says of its actions: how many there are, or what kind of vectors."""
    size, power = (fact.get("size"), fact.get("power")) if isinstance(fact, dict) else (fact, None)
    if not _is_size(size) or not (power is None or (is_number(power) and 0 < power < float("inf"))):
        raise ValueError(f"run.json has actions {fact!r}; restore the file")
    return (
        vectors(Continuous(size, power), components)
        if isinstance(fact, dict)
        else Categorical(size)
    )


def _is_size(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST_SIZE


def _refuse_uneven(batch: int, mesh: Mesh | None) -> None:
    """Every device has as many windows as any other."""
    if mesh is not None and batch % mesh.size:
        raise ValueError(
            f"batch={batch} does not divide evenly among {mesh.size} devices; give a multiple of "
            f"{mesh.size}"
        )


def _refuse_large(world: World, learner: Learner, tabulated: bool) -> None:
    """A ValueError where the frames of a batch and the networks would not fit into the memory,
    before they are made.

    Frames are counted three times (as they are painted, kept and read), those of a replay buffer in
    addition; parameters eight times (average, two moments, gradient, and what is in between).
    """
    shape, batch = world.observation_shape, learner.config.batch
    size = 1 if len(shape) == 3 else 4  # pixels are bytes, all else is float32
    held = 0 if tabulated else 2 * batch / jax.process_count() * (3 + KEPT * (not world.settable))
    sample = jax.ShapeDtypeStruct((2, *shape), jnp.float32)
    state = jax.eval_shape(lambda x: learner.init(x, key=jax.random.key(0)), sample)
    parameters = sum(np.prod(x.shape, dtype=float) for x in jax.tree.leaves(state.model))
    refuse_beyond(
        held * np.prod(shape, dtype=float) * size + 8 * 4 * parameters,
        f"training on world {world.name!r}, with {batch:,} windows an update and observations of "
        f"{' x '.join(map(str, shape))} numbers,",
        f"give a smaller batch (batch={max(batch // 8, 1)}), fewer features or a smaller world",
    )


def _collector(
    world: World, config: Config, mesh: Mesh | None = None
) -> ArchiveCollector | StreamCollector:
    if not world.settable:
        return StreamCollector(cast(Any, world), config.batch, mesh)
    if world.on_host and world.continuous is not None:
        copies = -(-config.batch // (REUSE * jax.process_count()))
        return StreamCollector(Copies(world, copies, RESTART), config.batch, mesh)
    return archive(world, config, mesh)


def _facts(world: World, config: Config, seed: int, pixels: bool) -> dict[str, Any]:
    return {
        "world": world.spec(),
        "identity": _identity(world),
        "observation": {
            "shape": list(world.observation_shape),
            "dtype": "uint8" if pixels else "float32",
        },
        "actions": len(world.actions)
        if world.continuous is None
        else dataclasses.asdict(world.continuous),
        "config": dataclasses.asdict(config)
        | ({"horizon": "inf"} if np.isinf(config.horizon) else {}),
        "seed": seed,
        "versions": {
            "empowerment": _version.__version__,
            "python": platform.python_version(),
            "jax": jax.__version__,
            "numpy": np.__version__,
        },
    }


def _identity(world: World) -> dict[str, str] | None:
    """What tells a world from others where only its program can make it; of other programs no more
    than the name."""
    if world.spec() is not None:
        return None
    table = world.table()
    return {"name": world.name} | ({"table": digest(table, "")} if table else {})


@contextlib.contextmanager
def _tracked(trackers: Sequence[Tracker], facts: dict[str, Any]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for tracker in trackers:
            tracker.start(facts)
            stack.callback(tracker.finish)
        yield


def _begun(out: str | Path | None, resume: bool) -> bool:
    """Whether there is a run to resume; a ValueError where nothing can be written, or a run is
    there already."""
    if out is None:
        return False
    refuse_unwritable(Path(out))
    directory = RunDirectory(out)
    refuse_existing(directory, resume)
    return directory.exists


def _claimed(out: str | Path, resume: bool, stack: contextlib.ExitStack) -> RunDirectory:
    """The run directory, ours until the stack is left."""
    directory = RunDirectory(out)
    stack.enter_context(directory.locked())
    refuse_existing(directory, resume)
    return directory


def refuse_existing(directory: RunDirectory, resume: bool) -> None:
    if directory.exists and not resume:
        raise ValueError(
            f"{str(directory.path)!r} holds a run already; continue with resume (--resume), or "
            "choose another out (--out)"
        )


def _restored(directory: RunDirectory, carry: Carry, facts: dict[str, Any]) -> Carry:
    """What a run resumes from: its newest good checkpoint, or `carry` where there is none."""
    if not directory.exists:
        return carry
    old = directory.facts()
    _described(directory, old)  # before anything in it is relied upon
    other = [
        name
        for name in ("world", "identity", "memory", "config", "seed")
        if old.get(name) != facts[name]
    ]
    if other:
        was, now = old["config"], facts["config"]
        changed = ", ".join(f"{name}={was[name]!r}" for name in was if was[name] != now[name])
        what = (
            f"config ({changed})" if other[0] == "config" else other[0].replace("identity", "world")
        )
        raise ValueError(
            f"{str(directory.path)!r} was begun with another {what}; give the same, or another out"
        )
    found = directory.newest(metrics=True)
    if found is None:
        directory.tidy(0, 0)
        return carry
    arrays, state, complaints = found
    for complaint in complaints:
        print(f"{complaint}; going on from the one before it", file=sys.stderr)
    restored = unflatten(carry, arrays, f"checkpoint of {str(directory.path)!r}")
    missing = not directory.metrics.exists()
    directory.tidy(state["metrics"], state["updates"])
    if missing:
        print(f"{str(directory.metrics)!r} is missing; its curves start again", file=sys.stderr)
        directory.save(
            state["updates"], restored
        )  # which no longer counts on the lines that are gone
    return restored


def learn(
    run: Run,
    carry: Carry,
    directory: RunDirectory | None = None,
    progress: bool = False,
    trackers: Sequence[Tracker] = (),
) -> Carry:
    """All updates that are left, in chunks."""
    total, done, dropped = run.learner.config.updates, int(carry.learner.updates), 0
    bar = tqdm(total=total, initial=done, unit="update", disable=not progress, file=sys.stderr)

    def made(count: int) -> None:
        bar.set_description_str("", refresh=False)
        bar.update(count)

    chunk = _chunks(run, made)
    with bar:
        if done < total:
            bar.set_description_str("compiling")
        while done < total:
            length = min(CHUNK, total - done)
            with naming_losses():
                after, info = chunk(carry, length)
                refuse_nonsense(run, chunk, carry, after, info)
                whole = gathered(run.learner.mesh, after)
            carry, done = after, done + length
            means = {name: float(np.mean(value)) for name, value in info._asdict().items()}
            if isinstance(run.collector, StreamCollector):
                means["dropped"] = float(run.collector.dropped - dropped)
                dropped = run.collector.dropped
            if directory is not None:
                directory.log({"updates": done, **means})
                directory.save(done, whole)
            for tracker in trackers:
                tracker.log(done, means)
            bar.set_postfix_str(
                f"bound {means['bound']:.3f} nats, source loss {means['source_loss']:.4f}"
            )
    return carry


def _chunks(
    run: Run, done: Callable[[int], object] = lambda count: None
) -> Callable[[Carry, int], tuple[Carry, Info]]:
    """A function that makes so many updates and calls `done` as they are made."""
    some = _program(run)

    def chunk(carry: Carry, length: int) -> tuple[Carry, Info]:
        infos = []
        for made in range(0, length, STRIDE):
            count = min(STRIDE, length - made)
            carry, info = some(carry, count)
            infos.append(jax.tree.map(np.asarray, info))  # waits for it
            done(count)
        return carry, jax.tree.map(lambda *x: np.concatenate(x), *infos)

    return chunk


def _program(run: Run) -> Callable[[Carry, int], tuple[Carry, Info]]:
    """So many updates at once, compiled where the world can be."""
    if run.collector.on_host:
        return partial(_updates_on_host, run)
    where = (
        None if run.placement is None else (run.placement, shardings(run.learner.mesh, REPLICATED))
    )
    return jax.jit(partial(_updates, run), static_argnums=1, out_shardings=where)


def _updates(run: Run, carry: Carry, length: int) -> tuple[Carry, Info]:
    """So many updates as one compiled program."""
    return jax.lax.scan(run.advance, carry, None, length=length)


def _updates_on_host(run: Run, carry: Carry, length: int) -> tuple[Carry, Info]:
    """The same in Python: the world is stepped between compiled calls."""
    infos = []
    for _ in range(length):
        carry, info = run.advance(carry)
        infos.append(info)
    return carry, jax.tree.map(lambda *x: np.stack(x), *infos)
