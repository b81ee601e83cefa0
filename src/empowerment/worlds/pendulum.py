"""A pendulum turned by a torque and by noise: smooth, small and not linear, so that a model can be
differentiated."""

from typing import Any, NamedTuple

import numpy as np

from .world import Continuous, World, namespace

SIDE = 13
"""Angles shown, from hanging to hanging again."""


class PendulumState(NamedTuple):
    """Angle from upright and angular velocity, `float32[..., 1]` each."""

    angle: Any
    velocity: Any


class Pendulum(World):
    """ω' = ω + Δ (gravity sin θ + torque a) + noise, θ' = θ + Δ ω' + noise; cos θ, sin θ and ω are
    seen.

    The torque is bounded in mean power or, with `power=None`, lies between -1 and 1.
    """

    outcomes = None
    noise = 2

    def __init__(
        self,
        disturbance: float = 0.05,
        power: float | None = 1.0,
        torque: float = 2.0,
        step: float = 0.1,
    ):
        _check(disturbance, power, torque, step)
        self.name, self._settings = "pendulum", (disturbance, power, torque, step)
        self.actions = ("torque",)
        self.continuous = Continuous(1, power)
        self.start = PendulumState(*np.full((2, 1), [[np.pi], [0.0]], np.float32))

    def step(self, state: PendulumState, action: Any, outcome: Any) -> PendulumState:
        disturbance, _, torque, step = self._settings
        xp = namespace(state.angle, action)
        push = 10.0 * xp.sin(state.angle) + torque * action
        velocity = state.velocity + step * push + disturbance * outcome[..., :1]
        return PendulumState(
            state.angle + step * velocity + disturbance * outcome[..., 1:], velocity
        )

    def observe(self, state: PendulumState) -> Any:
        xp = namespace(state.angle, state.velocity)
        seen = [xp.cos(state.angle), xp.sin(state.angle), state.velocity]
        return xp.concatenate(seen, axis=-1).astype(np.float32)

    def states(self) -> PendulumState:
        """All around, at rest."""
        angles = np.linspace(-np.pi, np.pi, SIDE, dtype=np.float32)[:, None]
        return PendulumState(angles, np.zeros_like(angles))

    def terminal(self, state: PendulumState) -> Any:
        return namespace(state.angle).zeros(state.angle.shape[:-1], bool)

    def spec(self) -> dict[str, Any]:
        return {
            "kind": "pendulum",
            **dict(zip(("disturbance", "power", "torque", "step"), self._settings, strict=True)),
        }


def _check(disturbance: float, power: float | None, torque: float, step: float) -> None:
    for name, value in {"disturbance": disturbance, "torque": torque, "step": step}.items():
        if not 0 < value < np.inf:
            raise ValueError(f"{name}={value!r} must be a positive number")
    if power is not None and not 0 < power < np.inf:
        raise ValueError(
            f"power={power!r} must be a positive number, or None for torques between -1 and 1"
        )
