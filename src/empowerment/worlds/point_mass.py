"""A point mass on a spring, pushed by a force and by noise: a linear world whose empowerment has a
closed form."""

from typing import Any, NamedTuple

import numpy as np

from .world import Continuous, World, namespace

SIDE = 9
"""Positions shown along each axis."""


class PointState(NamedTuple):
    """Position and velocity, `float32[..., dimensions]` each."""

    position: Any
    velocity: Any


SMALLEST = 1e-6
"""Noise whose square still differs from zero beside other numbers."""


class PointMass(World):
    """v' = (1 - damping) v - stiffness x + a + noise, x' = x + v' + noise; position and velocity
    are seen.

    The force is bounded in mean power or, with `power=None`, each of its components lies between -1
    and 1. Without noise no force would be lost, and empowerment would be infinite.
    """

    outcomes = None

    def __init__(
        self,
        noise: float = 0.3,
        dimensions: int = 1,
        power: float | None = 1.0,
        damping: float = 0.3,
        stiffness: float = 0.1,
    ):
        _check(noise, dimensions, power, damping, stiffness)
        self.name, self._settings = "point-mass", (noise, dimensions, power, damping, stiffness)
        self.actions = tuple(f"force {axis}" for axis in "xy"[:dimensions])
        self.continuous, self.power = Continuous(dimensions, power), power
        self.noise = 2 * dimensions
        self.start = PointState(*np.zeros((2, dimensions), np.float32))

    def step(self, state: PointState, action: Any, outcome: Any) -> PointState:
        noise, dimensions, _, damping, stiffness = self._settings
        pushed = action + noise * outcome[..., :dimensions]
        velocity = (1 - damping) * state.velocity - stiffness * state.position + pushed
        return PointState(state.position + velocity + noise * outcome[..., dimensions:], velocity)

    def matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same as s' = A s + B a + e with s = (position, velocity) and the covariance of e:
        what is exact."""
        noise, dimensions, _, damping, stiffness = self._settings
        eye = np.eye(dimensions)
        carried = np.kron([[1 - stiffness, 1 - damping], [-stiffness, 1 - damping]], eye)
        return (
            carried,
            np.kron([[1.0], [1.0]], eye),
            noise**2 * np.kron([[2.0, 1.0], [1.0, 1.0]], eye),
        )

    def observe(self, state: PointState) -> Any:
        xp = namespace(state.position, state.velocity)
        return xp.concatenate([state.position, state.velocity], axis=-1).astype(np.float32)

    def states(self) -> PointState:
        """Positions on a grid, at rest."""
        axes = [np.linspace(-2, 2, SIDE, dtype=np.float32)] * len(self.actions)
        positions = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(
            -1, len(self.actions)
        )
        return PointState(positions, np.zeros_like(positions))

    def terminal(self, state: PointState) -> Any:
        return namespace(state.position).zeros(state.position.shape[:-1], bool)

    def spec(self) -> dict[str, Any]:
        names = ("noise", "dimensions", "power", "damping", "stiffness")
        return {"kind": "point-mass", **dict(zip(names, self._settings, strict=True))}


def _check(
    noise: float, dimensions: int, power: float | None, damping: float, stiffness: float
) -> None:
    if not 0 < noise < np.inf:
        raise ValueError(
            f"noise={noise!r} must be a positive number: without noise empowerment is infinite"
        )
    if not SMALLEST <= noise <= 1 / SMALLEST:
        raise ValueError(f"noise={noise!r} must lie between {SMALLEST:g} and {1 / SMALLEST:g}")
    if dimensions not in (1, 2):
        raise ValueError(f"dimensions={dimensions!r} must be 1 or 2")
    if power is not None and not 0 < power < np.inf:
        raise ValueError(
            f"power={power!r} must be a positive number, or None for forces between -1 and 1"
        )
    for name, value in {"damping": damping, "stiffness": stiffness}.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name}={value!r} must lie between 0 and 1")
