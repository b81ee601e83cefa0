"""A continuous world that is not ours: Gymnasium's pendulum, most empowered upright and slow.

Compared with the pendulum of Jung, Polani and Stone (2011), *Empowerment for continuous agent-environment systems*,
arXiv:1201.6583. Noise comes at the end of a window, as a kick. Noise before that, in the torque or in sensors that show
the start, would be stretched by the dynamics as much as what the torque does, or more.
"""

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure as Drawing

from .. import from_gymnasium
from .workshop import Figure, Finding, Statement, Workshop, all_at_least, all_at_most

if TYPE_CHECKING:
    from ..variational.estimator import Estimator

HORIZON, REPEAT, COPIES = 4, 2, 64
WINDOWS = 4
"""Windows in an episode, after which it is cut off, so that few begin in the steady swing that all end in."""
KICK = np.array([0.1, 0.5])
"""Standard deviations added to angle (rad) and speed (rad/s) at the end of every window."""
FASTEST = 8.0  # rad/s, the environment's own limit


class Swing(gymnasium.Wrapper):
    """The pendulum starts anywhere, each torque lasts `REPEAT` steps, and every `HORIZON` torques it is kicked."""

    torques = 0
    """Torques since the episode began."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.torques = 0
        return self.env.reset(seed=seed, options={"x_init": np.pi, "y_init": FASTEST})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        total, seen, terminated, truncated, info = 0.0, None, False, False, {}
        for _ in range(REPEAT):
            seen, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        self.torques += 1
        return self._kicked() if self.torques % HORIZON == 0 else seen, total, terminated, truncated, info

    def _kicked(self) -> np.ndarray:
        """What is seen after the kick."""
        pendulum: Any = self.env.unwrapped
        angle, speed = pendulum.state + KICK * self.np_random.standard_normal(2)
        pendulum.state = np.array([angle, np.clip(speed, -FASTEST, FASTEST)])
        return np.array([np.cos(angle), np.sin(angle), pendulum.state[1]], np.float32)


def make_swing() -> gymnasium.Env:
    return Swing(gymnasium.make("Pendulum-v1", max_episode_steps=HORIZON * REPEAT * WINDOWS))


def grid(angles: int = 41, speeds: int = 33) -> tuple[np.ndarray, np.ndarray]:
    """Angles from upright (rad) and speeds (rad/s) of a landscape."""
    return np.linspace(-np.pi, np.pi, angles), np.linspace(-FASTEST, FASTEST, speeds)


def landscape(estimator: "Estimator") -> np.ndarray:
    """Learned empowerment, `float64[speeds, angles]`."""
    angle, speed = np.meshgrid(*grid())
    seen = np.stack([np.cos(angle), np.sin(angle), speed], axis=-1).reshape(-1, 3).astype(np.float32)
    return estimator.empowerment(seen).reshape(angle.shape)


def make_pendulum(shop: Workshop) -> dict[str, Finding]:
    worlds = (from_gymnasium(make_swing, copies=COPIES) for _ in range(shop.seeds))
    found = [landscape(shop.train("pendulum", seed, world)) for seed, world in enumerate(worlds)]
    shop.draw(_drawn(found[0]), _CAPTION)
    angles, speeds = grid()
    tops = [np.unravel_index(nats.argmax(), nats.shape) for nats in found]
    upright, hanging = np.abs(angles) < 0.3, np.abs(angles) > np.pi - 0.3
    slow = np.abs(speeds) < 1.5
    gains = [nats[slow][:, upright].mean() - nats[slow][:, hanging].mean() for nats in found]
    rows = [
        [seed, float(angles[a]), float(speeds[s]), float(nats.max()), float(gain)]
        for seed, ((s, a), nats, gain) in enumerate(zip(tops, found, gains, strict=True))
    ]
    shop.table(["seed", "highest_angle_rad", "highest_speed_rad_s", "highest_nats", "upright_over_hanging_nats"], rows)
    return {
        "angle": Finding(None, [abs(float(angles[a])) for _, a in tops]),
        "speed": Finding(None, [abs(float(speeds[s])) for s, _ in tops]),
        "upright": Finding(None, [float(gain) for gain in gains]),
    }


_CAPTION = (
    f"Learned empowerment of Gymnasium's Pendulum-v1 over its state, K = {HORIZON} torques of {REPEAT * 0.05:g} s each "
    f"and a kick of {KICK[0]:g} rad and {KICK[1]:g} rad/s after them; upright is 0."
)


def _drawn(nats: np.ndarray) -> Drawing:
    drawing = Drawing(figsize=(5, 3.6), layout="constrained")
    ax = drawing.subplots()
    angles, speeds = grid()
    extent = (angles[0], angles[-1], speeds[0], speeds[-1])
    picture = ax.imshow(nats, origin="lower", extent=extent, aspect="auto", cmap="viridis")
    ax.set(xlabel="angle from upright (rad)", ylabel="speed (rad/s)")
    drawing.colorbar(picture, ax=ax, label="empowerment (nats)")
    return drawing


PENDULUM = Figure(
    "pendulum",
    ("pendulum",),
    make_pendulum,
    (
        Statement(
            "angle", "pendulum: most empowered upright", "the highest value lies within 0.6 rad of it", all_at_most(0.6)
        ),
        Statement("speed", "pendulum: and slow", "the highest value lies within 2.5 rad/s of rest", all_at_most(2.5)),
        Statement(
            "upright",
            "pendulum: upright and slow is more empowered than hanging and slow",
            "by at least 0.2 nats on average",
            all_at_least(0.2),
        ),
    ),
    horizon=HORIZON,
    seeds=3,
)
