"""Recompute every certificate, and check a sample of states by an independent slow path.

The slow path shares no code with the exact part: it walks every action sequence step by step, with
a dictionary of where it leads, and runs plain Blahut-Arimoto; where actions are continuous, it
optimises the allocation of power by a general optimiser.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..worlds.world import State, World, identify, leaves, take
from .certificates import Truth, digest, stored, world_digest
from .channels import ANTENNAS, POWER, Channel, spike_matrix
from .tasks import Task

AGREEING, ROUGHLY = 1e-8, 1e-6
"""Nats by which a recomputed value may differ from the stored one, since machines round
differently: of worlds that are enumerated, and of continuous ones."""
SLOW_GAP = 1e-6
"""Nats at which the slow path stops."""
SAMPLE = 3
"""States of each task that the slow path looks at."""
MOST_SEQUENCES = 20_000
"""Action sequences that the slow path walks where chance decides."""
APPROXIMATE = 1e-3
"""Nats within which the slow path must agree with a truth that is not certified."""


class Verdict(NamedTuple):
    task: str
    problem: str | None
    """What is wrong, or None."""


def verify(tasks: Sequence[Task], sample: int = SAMPLE) -> Iterator[Verdict]:
    """Check the tasks one after the other."""
    for task in tasks:
        try:
            problem = _problem(task, sample)
        except ValueError as error:
            problem = str(error)
        yield Verdict(task.name, problem)


def fingerprint(task: Task) -> str:
    """Checksum of a task's world: what is seen in its states. Numbers are rounded, since machines
    differ in them."""
    seen = task.observations()
    return digest(seen if seen.dtype == np.uint8 else seen.astype(np.float64).round(4) + 0.0)


def _problem(task: Task, sample: int) -> str | None:
    truth = stored(task.name, task.version)
    if fingerprint(task) != world_digest(task.name):
        return (
            "its world is not the one whose values were stored: a map or an environment has changed"
        )
    now = task.compute()
    within = (
        APPROXIMATE if not task.certified else ROUGHLY if "continuous" in task.tags else AGREEING
    )
    for name in ("nats", "lower", "upper"):
        was, found = getattr(truth, name), getattr(now, name)
        if was.shape != found.shape or not np.allclose(
            was, found, rtol=0, atol=within, equal_nan=True
        ):
            return f"its stored {name} are not what is computed now"
    return _slowly(task, truth, sample)


def _slowly(task: Task, truth: Truth, sample: int) -> str | None:
    """The first of some states whose value the slow path does not confirm."""
    chosen = np.random.default_rng(0).choice(
        len(truth.nats), min(sample, len(truth.nats)), replace=False
    )
    for i in chosen:
        lower, upper = slow_value(task, int(i))
        low, high = (
            (truth.lower[i], truth.upper[i])
            if task.certified
            else truth.nats[i] + np.array([-APPROXIMATE, APPROXIMATE])
        )
        if not (low <= upper + SLOW_GAP and high >= lower - SLOW_GAP):
            return (
                f"state {i} is worth {lower:.6f} to {upper:.6f} by plain enumeration, not "
                f"{truth.nats[i]:.6f}"
            )
    return None


def slow_value(task: Task, i: int) -> tuple[float, float]:
    """Bounds of the empowerment of state number i, in nats, by the slow path."""
    if task.kind == "channel":
        return _slow_channel(task.world())
    world = task.landscape_world()
    state = take(task.states(), slice(i, i + 1))
    if world.continuous is not None:
        return _slow_continuous(world, state, task.horizon)
    if world.deterministic:
        nats = float(np.log(_count(world, state, task.horizon)))
        return nats, nats
    if len(world.actions) ** task.horizon > MOST_SEQUENCES:
        raise ValueError(
            f"it has more than {MOST_SEQUENCES:,} sequences, too many for the independent check"
        )
    return blahut_arimoto(_rows(world, state, task.horizon))


def _count(world: World, state: State, horizon: int) -> int:
    """How many states K actions can end in: a set of them, grown one step at a time."""
    reached = {identify(state).tolist()[0]: state}
    for _ in range(horizon):
        after: dict[Any, State] = {}
        for one in reached.values():
            for action in range(len(world.actions)):
                end = world.step(one, np.array([action]), np.zeros(1, np.int64))
                after[identify(end).tolist()[0]] = end
        reached = after
    return len(reached)


def _rows(world: World, state: State, horizon: int) -> np.ndarray:
    """p(s'|a) of every action sequence, a row each."""
    known: dict[tuple[Any, int], list[tuple[Any, float]]] = {}
    states: dict[Any, State] = {identify(state).tolist()[0]: state}

    def follow(name: Any, action: int) -> list[tuple[Any, float]]:
        if (name, action) not in known:
            odds = np.asarray(world.probabilities(states[name], np.array([action])))[0]
            ends = []
            for c in np.flatnonzero(odds):
                end = world.step(states[name], np.array([action]), np.array([c]))
                states.setdefault(identify(end).tolist()[0], end)
                ends.append((identify(end).tolist()[0], float(odds[c])))
            known[name, action] = ends
        return known[name, action]

    rows: list[dict[Any, float]] = [{next(iter(states)): 1.0}]
    for _ in range(horizon):
        longer = []
        for row in rows:
            for action in range(len(world.actions)):
                after: dict[Any, float] = {}
                for name, p in row.items():
                    for end, q in follow(name, action):
                        after[end] = after.get(end, 0.0) + p * q
                longer.append(after)
        rows = longer
    columns = {name: j for j, name in enumerate({name for row in rows for name in row})}
    matrix = np.zeros((len(rows), len(columns)))
    for i, row in enumerate(rows):
        for name, p in row.items():
            matrix[i, columns[name]] = p
    return np.unique(matrix.round(15), axis=0)


def blahut_arimoto(
    matrix: np.ndarray, gap: float = SLOW_GAP, most: int = 200_000
) -> tuple[float, float]:
    """Lower and upper bounds of a capacity by the textbook's iteration, in nats."""
    matrix = matrix / matrix.sum(1, keepdims=True)
    source = np.full(len(matrix), 1 / len(matrix))
    own = np.where(matrix > 0, matrix * np.log(np.where(matrix > 0, matrix, 1.0)), 0.0).sum(1)
    lower, upper = 0.0, np.inf
    for _ in range(most):
        output = np.maximum(source @ matrix, 1e-300)
        divergence = own - matrix @ np.log(output)
        lower, upper = float(np.log(source @ np.exp(divergence))), float(divergence.max())
        if upper - lower < gap:
            break
        source = source * np.exp(divergence - divergence.max())
        source /= source.sum()
    return lower, upper


def _slow_channel(channel: Channel) -> tuple[float, float]:
    if channel.inputs == 24:
        return blahut_arimoto(spike_matrix())
    if channel.power is not None:
        matrix = ANTENNAS.astype(float) if channel.inputs == 2 else np.eye(1)
        return _allocated(matrix, np.eye(len(matrix)), POWER)
    erasing = channel.truth()[0] > 0.4
    return blahut_arimoto(
        np.array([[0.7, 0, 0.3], [0, 0.7, 0.3]]) if erasing else np.array([[0.9, 0.1], [0.1, 0.9]])
    )


def _slow_continuous(world: World, state: State, horizon: int) -> tuple[float, float]:
    """By differences of the end state, exact where the world is linear."""
    assert world.continuous is not None
    size, power = world.continuous.size, world.continuous.power
    if power is None:  # one force between -1 and 1: coarser than the certificate, from below
        noise = float((world.spec() or {})["noise"])
        forces, edges = np.linspace(-1, 1, 41), np.linspace(-1 - 6 * noise, 1 + 6 * noise, 400)
        density = np.exp(-0.5 * ((edges[None] - forces[:, None]) / noise) ** 2)
        lower, upper = blahut_arimoto(density, 1e-4)
        return lower - 2e-3, upper + 2e-3
    inputs, noises = horizon * size, horizon * world.noise
    wide = np.eye(inputs + noises) * 1e-2

    def end(numbers: np.ndarray) -> np.ndarray:
        now = type(state)(*(np.asarray(x, np.float64) for x in state))
        for k in range(horizon):
            action = numbers[None, k * size : (k + 1) * size]
            outcome = numbers[None, inputs + k * world.noise : inputs + (k + 1) * world.noise]
            now = world.step(now, action, outcome)
        return np.concatenate([np.ravel(x) for x in leaves(now)])

    slopes = np.stack([(end(h) - end(-h)) / (2 * h.sum()) for h in wide], axis=1)
    by_action, by_noise = slopes[:, :inputs], slopes[:, inputs:]
    return _allocated(by_action, by_noise @ by_noise.T, horizon * power)


def _allocated(matrix: np.ndarray, covariance: np.ndarray, power: float) -> tuple[float, float]:
    """½ ln det(I + W Q Wᵀ) with W = L⁻¹ G, maximised over Q ≥ 0 of this trace, Q = power * B Bᵀ /
    |B|², numerically."""
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), matrix)
    n = matrix.shape[1]

    def negative(numbers: np.ndarray) -> float:
        root = numbers.reshape(n, n)
        spread = power * root @ root.T / max(float((root**2).sum()), 1e-12)
        return -0.5 * float(
            np.linalg.slogdet(np.eye(len(whitened)) + whitened @ spread @ whitened.T)[1]
        )

    best = -min(
        minimize(negative, start.ravel(), tol=1e-12).fun
        for start in (np.eye(n), np.triu(np.ones((n, n))))
    )
    return best - 1e-5, best + 1e-5
