"""Predator and prey (section 5.3): two spheres that roll inside four walls, simulated by MuJoCo on
the host.

The agent is pushed by a bounded force, with noise; the predator drives towards the agent and is a
little slower. When they touch, the agent is put back at rest at a random place. A primitive action
lasts `SUBSTEPS` steps of the simulation, and the predator chooses its force once for each.
"""

import os
from functools import cached_property
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .world import Continuous, Layout, World, namespace

SUBSTEPS = 10
FORCE = 1.0  # newtons; with the model's drag of 1 N s/m the agent reaches 1 m/s
ARENA, RADIUS, MASS = 1.5, 0.1, 0.25  # metres from the middle to a wall, metres, kilograms
INERTIA = 0.4 * MASS * RADIUS**2
ROOM = ARENA - RADIUS
SIDE = 15
"""Places of the agent along each wall in a landscape."""
SAFE = 0.8
"""Metres from the predator that a caught agent is put at least, where its random place or the
opposite one allows."""
FASTEST = 50.0
"""Metres a second, and metres: a simulation beyond it has diverged."""
PIXELS = 256


class Bodies(NamedTuple):
    """State: place, velocity and angular momentum of both, each as `float32[..., 7]`, and what the
    last step did."""

    agent: Any
    """x, y (m), their velocities (m/s) and three angular momenta (kg m²/s)"""
    predator: Any
    caught: Any
    """`bool[...]`: the predator touched the agent in the last step"""
    diverged: Any
    """`bool[...]`: the simulation failed; nothing after it means anything"""


class PredatorPrey(World):
    """Continuous states and actions in a physics simulation. `noise` is the standard deviation of
    what is added to each component of the agent's force, as a share of the largest; `speed` the
    predator's highest speed over the agent's."""

    name = "predator-prey"
    actions = ("force x", "force y")
    continuous = Continuous(2)
    outcomes, noise = None, 4
    on_host = True
    terminal_is_failure = True
    layout = Layout((SIDE, SIDE), np.zeros((SIDE, SIDE), bool))

    def __init__(
        self,
        noise: float = 0.25,
        speed: float = 0.75,
        model: str | os.PathLike[str] | None = None,
        view: str = "above",
    ):
        if not 0 < noise < np.inf:
            raise ValueError(
                f"noise={noise!r} must be a positive number: without noise empowerment is infinite"
            )
        if not 0 <= speed < 1:
            raise ValueError(
                f"speed={speed!r} must lie between 0 and 1, so that the agent can get away"
            )
        if view not in ("above", "3d"):
            raise ValueError(f"view={view!r} is unknown; give 'above' or '3d'")
        self.spread, self.speed, self.view = noise, speed, view
        self._model = None if model is None else os.fspath(model)
        if model is not None:
            _ = self._simulator  # a bad file is refused at once
        self.start = at_rest(np.array([-0.7, 0.0]), np.zeros(2))

    @cached_property
    def _simulator(self) -> "Simulator":
        return Simulator(self._model)

    def __getstate__(self) -> dict[str, Any]:
        """For other processes, each of which simulates on its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_simulator"}

    def step(self, state: Bodies, action: Any, outcome: Any) -> Bodies:
        """One primitive action for every state of a batch, on all cores; NaN or too large a force
        is refused."""
        states = Bodies(*(np.asarray(x) for x in state))
        force, draw = check_forces(action), np.asarray(outcome, np.float64)
        shape = np.broadcast_shapes(states.caught.shape, force.shape[:-1], draw.shape[:-1])
        flat = [_rows(x, shape) for x in states]
        force, draw = _rows(force, shape), _rows(draw, shape)
        pushed = FORCE * (force + self.spread * draw[:, :2])
        ends, closest, broken = self._simulator.run(
            flat[0], flat[1], pushed, self._chase(flat[0], flat[1])
        )
        agent, predator = (
            np.where(broken[:, None], old, new) for old, new in zip(flat[:2], ends, strict=True)
        )
        caught = (closest < 2 * RADIUS) & ~broken
        agent = np.where(caught[:, None], _put_back(predator, draw[:, 2:]), agent)
        parts = (agent.astype(np.float32), predator.astype(np.float32), caught, broken | flat[3])
        return Bodies(*(x.reshape(shape + x.shape[1:]) for x in parts))

    def _chase(self, agent: np.ndarray, predator: np.ndarray) -> np.ndarray:
        """The predator's force: straight towards the agent."""
        way = agent[:, :2] - predator[:, :2]
        return (
            FORCE * self.speed * way / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-9)
        )

    def observe(self, state: Bodies) -> Any:
        """All of the state; angular momentum as the speed of the sphere's surface, so that all
        sizes are alike."""
        xp = namespace(state.agent, state.predator)
        scale = np.array([1, 1, 1, 1, *[RADIUS / INERTIA] * 3], np.float32)
        return xp.concatenate([state.agent * scale, state.predator * scale], axis=-1).astype(
            np.float32
        )

    def states(self) -> Bodies:
        """The agent everywhere, the predator in the middle, both at rest."""
        return self.around(np.zeros(2))

    def around(self, predator: np.ndarray) -> Bodies:
        """The agent everywhere, the predator here, both at rest."""
        axis = np.linspace(-ROOM, ROOM, SIDE)
        places = np.stack(np.meshgrid(axis, axis[::-1]), axis=-1).reshape(-1, 2)
        return at_rest(places, np.broadcast_to(predator, places.shape))

    def shifted(self, states: Bodies, offset: np.ndarray) -> Bodies:
        """The same with the agent elsewhere, but inside the walls."""
        agent = np.array(states.agent)
        agent[..., :2] = np.clip(agent[..., :2] + offset, -ROOM, ROOM)
        return states._replace(agent=agent)

    def scatter(self, count: int, rng: np.random.Generator) -> Bodies:
        """Both anywhere, at rest: where learning begins."""
        return at_rest(*rng.uniform(-ROOM, ROOM, (2, count, 2)))

    def locate(self, states: Bodies) -> np.ndarray:
        """The cell of the landscape that the agent is in."""
        x, y = np.moveaxis(np.asarray(states.agent)[..., :2], -1, 0)
        cells = np.stack([(ROOM - y), (x + ROOM)], axis=-1) / (2 * ROOM) * (SIDE - 1)
        return np.clip(np.rint(cells), 0, SIDE - 1).astype(np.int64)

    def terminal(self, state: Bodies) -> Any:
        return state.diverged

    def picture(self, state: Bodies) -> np.ndarray:
        """`uint8[256, 256, 3]` from above, without any graphics driver, or in 3D with a headless
        one."""
        if self.view == "3d":
            return self._simulator.photograph(np.asarray(state.agent), np.asarray(state.predator))
        axis = np.linspace(-ARENA, ARENA, PIXELS)
        x, y = np.meshgrid(axis, axis[::-1])
        image = np.full((PIXELS, PIXELS, 3), 235, np.uint8)
        for body, colour in ((state.agent, (50, 100, 230)), (state.predator, (215, 50, 50))):
            image[(x - body[0]) ** 2 + (y - body[1]) ** 2 <= RADIUS**2] = colour
        return image

    def spec(self) -> dict[str, Any] | None:
        """None with a model of one's own: a run names no file, since whoever loads it may not know
        what that is."""
        if self._model is not None:
            return None
        return {"kind": self.name, "noise": self.spread, "speed": self.speed, "model": None}


def at_rest(agent: np.ndarray, predator: np.ndarray) -> Bodies:
    """Both at these places, not moving."""
    still = [
        np.concatenate([x, np.zeros((*x.shape[:-1], 5))], axis=-1).astype(np.float32)
        for x in (agent, predator)
    ]
    return Bodies(*still, *np.zeros((2, *np.shape(agent)[:-1]), bool))


def check_forces(action: Any) -> np.ndarray:
    """Forces as float64; a ValueError where one is no number between -1 and 1."""
    force = np.asarray(action, np.float64)
    if force.shape[-1:] != (2,) or not np.all(np.abs(force) <= 1 + 1e-6):  # NaN compares as false
        bad = (
            force
            if force.shape[-1:] != (2,)
            else force[~np.all(np.abs(force) <= 1 + 1e-6, axis=-1)][0]
        )
        raise ValueError(f"action {bad.tolist()} is no force; give two numbers between -1 and 1")
    return force


def _rows(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A batch of any leading shape as one of rows."""
    inner = x.shape[-1:] if x.dtype != bool else ()
    return np.broadcast_to(x, shape + inner).reshape(prod(shape), *inner)


def _put_back(predator: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """At rest at a random place, or opposite to it where the predator is too near."""
    from scipy.special import ndtr

    place = ROOM * (2 * ndtr(draw) - 1)
    near = np.linalg.norm(place - predator[:, :2], axis=1) < SAFE
    return np.concatenate(
        [np.where(near[:, None], -place, place), np.zeros((len(place), 5))], axis=1
    )


class Simulator:
    """A MuJoCo model of two rolling spheres, run for many states at once."""

    def __init__(self, path: str | None = None):
        self._mujoco = require_mujoco()
        mujoco = self._mujoco
        text = (files("empowerment.worlds") / "models" / "predator_prey.xml").read_text()
        if path is not None:
            if not Path(path).is_file():
                raise ValueError(
                    f"model={path!r} does not exist; give the path of a MuJoCo model (.xml)"
                )
            text = Path(path).read_text(errors="replace")
        try:
            self.model = mujoco.MjModel.from_xml_string(text)
        except ValueError as error:
            first = str(error).strip().splitlines()[0]
            raise ValueError(
                f"model={path!r} is not a model that MuJoCo reads ({first}); mend the file"
            ) from None
        if (self.model.nq, self.model.nv) != (14, 12):
            raise ValueError(
                f"model={path!r} has {self.model.nq} coordinates; give two bodies with slide "
                "joints "
                "along x, y and z and a ball joint each"
            )
        self._threads = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        self._data = [mujoco.MjData(self.model) for _ in range(self._threads)]
        self._pool = mujoco.rollout.Rollout(nthread=self._threads)
        self._camera: Any = None

    def run(
        self, agent: np.ndarray, predator: np.ndarray, push: np.ndarray, chase: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray]:
        """The two bodies after one action, their smallest distance on the way, and where the
        simulation diverged."""
        mujoco = self._mujoco
        size = mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        first = np.zeros((len(agent), size))
        first[:, 1:27] = np.concatenate(
            [_coordinates(agent), _coordinates(predator), _speeds(agent), _speeds(predator)], 1
        )
        forces = np.zeros((len(agent), SUBSTEPS, 12))
        forces[:, :, 0:2], forces[:, :, 6:8] = push[:, None], chase[:, None]
        kind = mujoco.mjtState.mjSTATE_QFRC_APPLIED
        path, _ = self._pool.rollout(self.model, self._data, first, forces, control_spec=kind)
        path = path[:, :, 1:27]
        broken = ~np.all(
            np.abs(path) < FASTEST / RADIUS, axis=(1, 2)
        )  # angular velocities are speeds over the radius
        path = np.where(broken[:, None, None], 0.0, path)
        closest = np.linalg.norm(path[:, :, 0:2] - path[:, :, 7:9], axis=-1).min(axis=1)
        end = path[:, -1]
        return (
            (_body(end[:, 0:7], end[:, 14:20]), _body(end[:, 7:14], end[:, 20:26])),
            closest,
            broken,
        )

    def photograph(self, agent: np.ndarray, predator: np.ndarray) -> np.ndarray:
        """A picture in 3D; needs a headless OpenGL."""
        mujoco, data = self._mujoco, self._data[0]
        if self._camera is None:
            try:
                self._camera = mujoco.Renderer(self.model, PIXELS, PIXELS)
            except Exception as error:
                raise ValueError(
                    f"pictures in 3D need a headless OpenGL ({type(error).__name__}); install "
                    "libegl1 and set "
                    "MUJOCO_GL=egl, or install libosmesa6 and set MUJOCO_GL=osmesa, or use "
                    "view='above'"
                ) from None
        data.qpos[:] = np.concatenate([_coordinates(agent[None]), _coordinates(predator[None])], 1)[
            0
        ]
        mujoco.mj_forward(self.model, data)
        self._camera.update_scene(data, camera="above")
        return self._camera.render()


def require_mujoco() -> Any:
    try:
        import mujoco
        import mujoco.rollout
    except ImportError:
        raise ValueError(
            "world 'predator-prey' needs MuJoCo; install it with: pip install \".[mujoco]\" in the "
            "clone"
        ) from None
    return mujoco


def _coordinates(body: np.ndarray) -> np.ndarray:
    """Slides x, y and z, and an orientation, which does not matter for a sphere."""
    rest = np.broadcast_to([0.0, 1.0, 0.0, 0.0, 0.0], (len(body), 5))
    return np.concatenate([body[:, :2], rest], axis=1)


def _speeds(body: np.ndarray) -> np.ndarray:
    return np.concatenate([body[:, 2:4], np.zeros((len(body), 1)), body[:, 4:] / INERTIA], axis=1)


def _body(place: np.ndarray, speed: np.ndarray) -> np.ndarray:
    """Place, velocity and angular momentum; MuJoCo's angular velocities are in the sphere's own
    axes."""
    spin = speed[:, 3:] + 2 * np.cross(
        place[:, 4:], np.cross(place[:, 4:], speed[:, 3:]) + place[:, 3:4] * speed[:, 3:]
    )
    return np.concatenate([place[:, :2], speed[:, :2], INERTIA * spin], axis=1)
