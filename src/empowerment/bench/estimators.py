"""Estimators that the benchmark compares. One's own needs a name, `applies` and `fit`, and can be
passed to `run`.

`fit(task, seed)` returns a function from observations to nats, or a `Fitted`, which also says how
many steps of the environment were taken and how the values came about.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..capacity import capacity
from ..channel import rows_of
from ..worlds.memory import explored
from ..worlds.registry import did_you_mean
from ..worlds.world import take
from .channels import Channel
from .tasks import Task

Values = Callable[[np.ndarray], np.ndarray]
"""Observations to empowerment in nats, one for each."""
POINTS = 20
"""Times at which a training is looked at."""


class Fitted(NamedTuple):
    """What an estimator has learned of a task."""

    values: Values
    steps: int | None = None
    """Steps of the environment that were taken, where they were counted."""
    curve: list[tuple[float, np.ndarray]] = []  # noqa: RUF012 - never written to
    """Seconds of training, and the values of the task's observations then."""


@runtime_checkable
class Estimator(Protocol):
    """What the benchmark needs of an estimator."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str:
        """Where it was published."""
        ...

    def applies(self, task: Task) -> bool:
        """Whether it can be tried on this task at all."""
        ...

    def fit(self, task: Task, seed: int) -> "Fitted | Values":
        """Learn, or compute, the empowerment of what is seen in the task."""
        ...


@dataclass(frozen=True)
class Learned:
    """Variational information maximisation, as `emp.train` does it, or with another objective."""

    name: str
    source: str
    settings: dict[str, Any] = field(default_factory=dict)
    objective: str | None = None
    """Name of an objective of `bench.objectives`, in which the source stays uniform; None for the
    package's own."""

    def applies(self, task: Task) -> bool:
        if task.kind == "channel":
            return not self.settings
        if self.objective is None:
            return True
        if task.kind != "settable":
            return False
        world = task.world()
        return world.continuous is None and not world.on_host

    def fit(self, task: Task, seed: int) -> Fitted:
        if task.kind == "channel":
            return self._fit_channel(task.world(), seed)
        from ..variational.config import make_config
        from ..variational.estimator import Estimator as Trained
        from ..variational.training import _chunks, prepare
        from .objectives import OBJECTIVES

        begin, seen = time.perf_counter(), task.observations()
        world, steps = explored(task.world(), seed)
        run: Any = prepare(
            world, make_config(world, task.horizon, self.settings, resuming=True), seed
        )
        if self.objective is not None:
            run = run._replace(learner=run.learner._replace(objective=OBJECTIVES[self.objective]))
        carry, config, curve = run.init(seed), run.learner.config, []
        spent = time.perf_counter() - begin
        chunk, every = _chunks(run), max(config.updates // POINTS, 1)
        trained = Trained(carry.learner.average, config, world)
        for done in range(0, config.updates, every):
            begin = time.perf_counter()
            carry, _ = chunk(carry, min(every, config.updates - done))
            spent += time.perf_counter() - begin
            trained = Trained(carry.learner.average, config, world)
            curve.append((spent, trained.empowerment(seen)))
        if task.kind != "opaque" or not world.settable:
            steps += run.collector.steps_taken(config.updates, config.horizon)
        return Fitted(trained.empowerment, steps, curve)

    def _fit_channel(self, channel: Channel, seed: int) -> Fitted:
        from ..variational.information import maximise_information
        from ..variational.sequence import Gaussian

        source = (
            channel.inputs if channel.power is None else Gaussian(channel.inputs, channel.power)
        )
        found = maximise_information(channel.draw, source, seed=seed)
        return Fitted(partial(_constant, found.nats))


def _constant(nats: float, observations: np.ndarray) -> np.ndarray:
    return np.full(len(observations), nats)


class LookUp:
    """Values of a task's own observations, computed from a model: there is nothing to learn."""

    def __init__(self, observations: np.ndarray, nats: np.ndarray):
        self._known = {
            x.tobytes(): float(value) for x, value in zip(observations, nats, strict=True)
        }

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        return np.array([self._known[x.tobytes()] for x in observations])


def _enumerable(task: Task) -> bool:
    """Whether a task gives its dynamics away, with finitely many outcomes."""
    if task.kind != "settable" or task.exact_world is not None:
        return False
    return task.world().enumerable


@dataclass(frozen=True)
class UniformSource:
    """Mutual information of uniformly drawn sequences, computed exactly: what no choice of source
    gives.

    All sequences are listed where they are at most `most`; otherwise that many are drawn.
    """

    name: str = "uniform-source"
    source: str = "Klyubin, Polani and Nehaniv 2005, without the maximisation"
    most: int = 4096

    def applies(self, task: Task) -> bool:
        return _enumerable(task)

    def fit(self, task: Task, seed: int) -> Fitted:
        world, states, rng = task.world(), task.states(), np.random.default_rng(seed)
        count = len(world.actions)
        every = (
            np.indices((count,) * task.horizon).reshape(task.horizon, -1).T
            if count**task.horizon <= self.most
            else None
        )
        nats = []
        for i in range(len(task)):
            sequences = (
                rng.integers(count, size=(self.most, task.horizon)) if every is None else every
            )
            rows = rows_of(world, take(states, i), sequences)
            mean = rows.mean(0)
            own = (
                np.where(rows > 0, rows * np.log(np.where(rows > 0, rows, 1.0)), 0.0).sum(1).mean()
            )
            nats.append(own - float((mean[mean > 0] * np.log(mean[mean > 0])).sum()))
        return Fitted(LookUp(task.observations(), np.array(nats)))


@dataclass(frozen=True)
class SparseSampling:
    """Capacity of the channel of a few randomly drawn sequences."""

    name: str = "sparse-sampling"
    source: str = (
        "Salge, Glackin and Polani 2014, Changing the environment based on empowerment as "
        "intrinsic motivation"
    )
    sequences: int = 100

    def applies(self, task: Task) -> bool:
        return _enumerable(task)

    def fit(self, task: Task, seed: int) -> Fitted:
        world, states, rng = task.world(), task.states(), np.random.default_rng(seed)
        nats = []
        for i in range(len(task)):
            drawn = rng.integers(len(world.actions), size=(self.sequences, task.horizon))
            rows = rows_of(world, take(states, i), drawn)
            nats.append(capacity(rows / rows.sum(1, keepdims=True), tolerance=1e-6).nats)
        return Fitted(LookUp(task.observations(), np.array(nats)))


@dataclass(frozen=True)
class WaterFilling:
    """A Gaussian channel with water-filling, on the world's own dynamics linearised or on learned
    ones."""

    name: str
    source: str
    learned: bool

    def applies(self, task: Task) -> bool:
        # The truth of a task that is not certified is this very approximation.
        if task.kind != "settable" or "continuous" not in task.tags or not task.certified:
            return False
        return task.world().continuous.power is not None

    def fit(self, task: Task, seed: int) -> Fitted:
        from ..model_based.learned import learn_world
        from ..model_based.linearised import linearised

        world, transitions = task.world(), 2**14
        if not self.learned:
            return Fitted(LookUp(task.observations(), linearised(world, task.horizon).nats))
        model = learn_world(world, transitions=transitions, seed=seed)
        seen = task.observations()
        return Fitted(LookUp(seen, linearised(model, task.horizon, seen).nats), transitions)


UNIFORM = {"uniform": 0.0, "outcomes": 1}
CONTRASTIVE = {**UNIFORM, "batch": 256}
PAPER = (
    "Mohamed and Rezende 2015, Variational information maximisation for intrinsically motivated "
    "reinforcement learning"
)
ESTIMATORS: dict[str, Estimator] = {
    estimator.name: estimator
    for estimator in (
        Learned("ours", "this package, default settings"),
        Learned("paper", f"{PAPER}, as printed", {"preset": "paper"}),
        Learned(
            "uniform-decoder",
            "Barber and Agakov 2003, with uniformly drawn sequences",
            UNIFORM,
            "uniform",
        ),
        Learned(
            "contrastive",
            "van den Oord, Li and Vinyals 2018 (InfoNCE), uniform sequences",
            CONTRASTIVE,
            "contrastive",
        ),
        UniformSource(),
        SparseSampling(),
        WaterFilling(
            "water-filling", "Salge, Glackin and Polani 2013, linearised dynamics", learned=False
        ),
        WaterFilling("latent-water-filling", "Zhao et al. 2020, learned dynamics", learned=True),
    )
}


def estimator_named(name: str) -> Estimator:
    if name not in ESTIMATORS:
        raise ValueError(
            f"estimator {name!r} is unknown{did_you_mean(name, ESTIMATORS)}; give one of "
            f"{', '.join(ESTIMATORS)}"
        )
    return ESTIMATORS[name]
