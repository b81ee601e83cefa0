"""A continuous world that is not ours: Gymnasium's pendulum, most empowered upright and slow.

Compared with the pendulum of Jung, Polani and Stone (2011), *Empowerment for continuous
agent-environment systems*, arXiv:1201.6583. Noise comes at the end of a window, as a kick. Noise
before that, in the torque or in sensors that show the start, would be stretched by the dynamics as
much as what the torque does, or more.
"""

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure as Drawing

from .. import from_gymnasium
from ..gaussian import gaussian_gains, water_filling
from .workshop import Figure, Finding, Statement, Workshop, all_at_least, all_at_most

if TYPE_CHECKING:
    from ..variational.estimator import Estimator

HORIZON, REPEAT, COPIES = 4, 2, 64
WINDOWS = 4
"""Windows in an episode, after which it is cut off, so that few begin in the steady swing that all
end in."""
KICK = np.array([0.1, 0.5])
"""Standard deviations added to angle (rad) and speed (rad/s) at the end of every window."""
FASTEST = 8.0  # rad/s, the environment's own limit


class Swing(gymnasium.Wrapper):
    """The pendulum starts anywhere, each torque lasts `REPEAT` steps, and every `HORIZON` torques
    it is kicked."""

    torques = 0
    """Torques since the episode began."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
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
        return (
            self._kicked() if self.torques % HORIZON == 0 else seen,
            total,
            terminated,
            truncated,
            info,
        )

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


def linearised() -> np.ndarray:
    """The same by water-filling, with the pendulum linearised along its way without torque,
    `float64[speeds, angles]`.

    Torques have the power of evenly drawn ones there, instead of bounds.
    """
    angles, speeds = grid()
    angle, speed = (x.ravel() for x in np.meshgrid(angles, speeds))
    pushes = [
        (_swung(angle, speed, one) - _swung(angle, speed, -one)) / 2 for one in np.eye(HORIZON)
    ]
    matrices, noise = np.stack(pushes, axis=-1), np.diag(KICK**2)
    nats = [water_filling(gaussian_gains(matrix, noise), HORIZON / 3)[0] for matrix in matrices]
    return np.reshape(nats, (len(speeds), len(angles)))


def _swung(angle: np.ndarray, speed: np.ndarray, torques: np.ndarray) -> np.ndarray:
    """Angle and speed after a sequence of torques between -1 and 1, by the environment's equations,
    `[n, 2]`."""
    for torque in np.repeat(torques, REPEAT):
        speed = np.clip(speed + (15 * np.sin(angle) + 3 * 2 * torque) * 0.05, -FASTEST, FASTEST)
        angle = angle + speed * 0.05
    return np.stack([angle, speed], axis=-1)


def landscape(estimator: "Estimator") -> np.ndarray:
    """Learned empowerment, `float64[speeds, angles]`."""
    angle, speed = np.meshgrid(*grid())
    seen = (
        np.stack([np.cos(angle), np.sin(angle), speed], axis=-1).reshape(-1, 3).astype(np.float32)
    )
    return estimator.empowerment(seen).reshape(angle.shape)


def make_pendulum(shop: Workshop) -> dict[str, Finding]:
    worlds = (from_gymnasium(make_swing, copies=COPIES) for _ in range(shop.seeds))
    found = [landscape(shop.train("pendulum", seed, world)) for seed, world in enumerate(worlds)]
    truth, (angles, speeds) = linearised(), grid()
    shop.draw(_drawn({"linearised": truth, "learned": found[0]}), _CAPTION)
    tops = [np.unravel_index(nats.argmax(), nats.shape) for nats in found]
    short = [float(nats.max() - nats[len(speeds) // 2, len(angles) // 2]) for nats in found]
    fits = [float(np.corrcoef(nats.ravel(), truth.ravel())[0, 1]) for nats in found]
    upright, hanging = np.abs(angles) < 0.3, np.abs(angles) > np.pi - 0.3
    slow = np.abs(speeds) < 1.5
    gains = [float(nats[slow][:, upright].mean() - nats[slow][:, hanging].mean()) for nats in found]
    rows = [
        [seed, float(angles[a]), float(speeds[s]), float(nats.max()), below, gain, fit]
        for seed, ((s, a), nats, below, gain, fit) in enumerate(
            zip(tops, found, short, gains, fits, strict=True)
        )
    ]
    header = [
        "highest_angle_rad",
        "highest_speed_rad_s",
        "highest_nats",
        "upright_at_rest_below_it_nats",
    ]
    shop.table(["seed", *header, "upright_over_hanging_nats", "pearson_with_linearised"], rows)
    return {
        "highest": Finding(float(truth.max() - truth[len(speeds) // 2, len(angles) // 2]), short),
        "upright": Finding(
            float(truth[slow][:, upright].mean() - truth[slow][:, hanging].mean()), gains
        ),
        "fit": Finding(None, fits),
    }


_CAPTION = (
    "Empowerment of Gymnasium's Pendulum-v1 over its state, by linearised dynamics and learned, "
    f"K = {HORIZON} torques of {REPEAT * 0.05:g} s each, with a kick of {KICK[0]:g} rad and "
    f"{KICK[1]:g} rad/s after "
    "them; upright is 0."
)


def _drawn(lands: dict[str, np.ndarray]) -> Drawing:
    drawing = Drawing(figsize=(4.6 * len(lands), 3.6), layout="constrained")
    angles, speeds = grid()
    extent = (angles[0], angles[-1], speeds[0], speeds[-1])
    for ax, (title, nats) in zip(drawing.subplots(1, len(lands)), lands.items(), strict=True):
        picture = ax.imshow(nats, origin="lower", extent=extent, aspect="auto", cmap="viridis")
        ax.set(xlabel="angle from upright (rad)", ylabel="speed (rad/s)", title=title)
        drawing.colorbar(picture, ax=ax, label="empowerment (nats)")
    return drawing


PENDULUM = Figure(
    "pendulum",
    ("pendulum",),
    make_pendulum,
    (
        Statement(
            "highest",
            "pendulum: most empowered upright and at rest, as are the states that are about to "
            "come there",
            "nowhere is the value higher by more than 0.06 nats",
            all_at_most(0.06),
        ),
        Statement(
            "fit",
            "pendulum: learned values follow those of the linearised dynamics",
            "Pearson >= 0.9 over angles and speeds",
            all_at_least(0.9),
        ),
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
