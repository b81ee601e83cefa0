"""The settings of a training: what each means, its default and its range."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, TypeGuard, get_args

import numpy as np

from ..exact import check_feedback
from ..worlds.registry import did_you_mean
from ..worlds.world import World, check_world

LARGEST = {
    "horizon": 2**12,
    "updates": 10**8 - 1,
    "batch": 2**22,
    "features": 2**14,
    "hidden": 2**14,
    "layers": 2**6,
    "sequences": 2**20,
    "outcomes": 2**10,
}
"""Upper limits of settings; larger values are refused. Names of checkpoints have eight digits."""
LARGEST_SIZE = 2**22
"""Numbers in an observation, and actions."""
STOCHASTIC: dict[str, Any] = {"outcomes": 16, "updates": 8000}
"""Defaults for stochastic worlds. ln q is averaged over several outcomes of a sequence, since the
noise of one exceeds the differences that matter late in training. More updates are needed, since
the best source is sparse there and learned slowly.
"""
Preset = Literal["default", "paper"]
Optimiser = Literal["muon", "adam", "adagrad"]
Method = Literal["variational", "importance", "reparameterised", "learned-model"]
PAPER: dict[str, Any] = {
    "optimiser": "adagrad",
    "learning_rate": 0.02,
    "uniform": 0.0,
    "outcomes": 1,
    "layers": 2,
    "ema": 0.0,
}
"""Settings of the algorithm as printed."""


@dataclass(frozen=True)
class Config:
    """Everything that decides what is learned, except the world and the seed."""

    horizon: int | float = 5
    """Number of actions in a sequence, K; infinite with feedback and a discount only."""
    feedback: bool = False
    """Whether the agent sees where each action has led before it chooses the next."""
    discount: float = 1.0
    """With feedback: weight of what each further step adds, relative to the one before."""
    preset: Preset = "default"
    """`paper` is the algorithm as printed, for comparison: ψ by a squared error, each step sees
    only the previous action, no layer norm, no decoder prior, Adagrad from the first update on."""
    method: Method = "variational"
    """By acting only (section 4); or with a model (appendix B): importance sampling, or gradients
    through the world's own dynamics or through those of a network learned from steps of the world.
    """
    beta: float = 1.0
    """Inverse temperature of the constrained objective; 1 gives empowerment."""
    updates: int = 4000
    """Number of updates in all."""
    batch: int = 1024
    """Windows an update."""
    learning_rate: float = 0.012
    """Highest learning rate; it rises during the first tenth of the updates and falls linearly to
    zero."""
    optimiser: Optimiser = "muon"
    """Muon for matrices and Adam for the rest; or Adam; or Adagrad."""
    uniform: float = 0.7
    """Share of the updates until which some actions are drawn uniformly: all of them at first, so
    that the decoder is right before the source, then fewer and fewer."""
    outcomes: int = 1
    """Number of times each action sequence is played from its start, to average over randomness;
    16 by default in stochastic worlds whose state can be set."""
    features: int = 100
    """Size of the state representation."""
    hidden: int = 128
    """Width of the layers of decoder, source and ψ."""
    layers: int = 4
    """Rectified layers of decoder and source, at least two; ψ has two."""
    ema: float = 0.95
    """Decay of the exponential moving average of the weights, which the source is fitted to and
    which estimates are made with; 0 for none."""
    sequences: int = 1000
    """Sequences at each state for `method="importance"`, S; ten outcomes of each are drawn."""

    @property
    def as_printed(self) -> bool:
        """Whether this is the paper's algorithm."""
        return self.preset == "paper"

    @property
    def window(self) -> int:
        """Number of actions in a window: `horizon`, or 1 with feedback."""
        return 1 if self.feedback else int(self.horizon)


def make_config(
    world: World,
    horizon: int | float | np.integer,
    settings: dict[str, Any],
    resuming: bool = False,
) -> Config:
    """The configuration of a run in this world; a ValueError says which setting does not fit.

    Settings that would be ignored are refused, except when a run is resumed with those that it was
    started with.
    """
    check_world(world)
    preset = PAPER if settings.get("preset") == "paper" else {}
    config = configure(horizon, defaults_for(world, settings) | preset | settings)
    if config.feedback and world.continuous is not None:
        raise ValueError(f"feedback=True is for listed actions, and {world.name!r} has vectors")
    refuse_beta(config.beta, world.continuous is not None, f"world {world.name!r}")
    if not resuming:
        _refuse_ignored(world, config, settings)
    return config


def defaults_for(world: World, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Defaults that follow from what kind of world it is: here, whether a sequence can be played
    several times from its start, and not always with the same outcome. With feedback all outcomes
    are listed, and nothing is noisy."""
    settings = settings or {}
    sampled = settings.get("method", "variational") == "variational"
    several = _has_outcomes(world) and sampled and not settings.get("feedback")
    return STOCHASTIC if several else {}


def _has_outcomes(world: World) -> bool:
    """Whether sequences are numbered, can be played again from their start, and are random."""
    return world.settable and world.continuous is None and not world.deterministic


def configure(horizon: Any, settings: dict[str, Any]) -> Config:
    """A checked configuration."""
    fields = {field.name: field for field in dataclasses.fields(Config)}
    for name in settings:
        if name == "horizon":
            raise ValueError("horizon is no setting; give it after the world")
        if name not in fields:
            raise ValueError(
                f"setting {name!r} is unknown{did_you_mean(name, fields)}; give one of "
                f"{', '.join(sorted(fields))}"
            )
    values: dict[str, Any] = {name: field.default for name, field in fields.items()}
    values |= settings | {"horizon": math.inf if horizon == "inf" else horizon}
    _check_feedback(values)
    _check(values)
    whole: dict[str, Any] = {
        name: int(values[name]) for name in LARGEST if values[name] != math.inf
    }
    return Config(**(values | whole))


def _check_feedback(values: dict[str, Any]) -> None:
    if not isinstance(values["feedback"], bool):
        raise ValueError(f"feedback={values['feedback']!r} must be True or False")
    if not is_number(values["discount"]):
        raise ValueError(f"discount={values['discount']!r} must be a number")
    check_feedback(values["feedback"], values["discount"])
    if not values["feedback"]:
        return
    fixed = {"method": "variational", "preset": "default", "beta": 1.0}
    for name, only in fixed.items():
        if values[name] != only:
            raise ValueError(
                f"{name}={values[name]!r} does not go with feedback=True; leave it out"
            )


def _check(values: dict[str, Any]) -> None:
    for name, largest in LARGEST.items():
        if name == "horizon" and values[name] == math.inf and values["discount"] < 1:
            continue
        value, least = values[name], 2 if name == "layers" else 1
        if not is_whole(value, least, largest):
            raise ValueError(f"{name}={value!r} must be a whole number from {least} to {largest:,}")
    for name in ("beta", "learning_rate"):
        if not is_number(values[name]) or not 0 < values[name] < float("inf"):
            raise ValueError(f"{name}={values[name]!r} must be a positive number")
    if not is_number(values["ema"]) or not 0 <= values["ema"] < 1:
        raise ValueError(f"ema={values['ema']!r} must be at least 0 and below 1")
    if not is_number(values["uniform"]) or not 0 <= values["uniform"] <= 1:
        raise ValueError(f"uniform={values['uniform']!r} must lie between 0 and 1")
    for name, kind in {"preset": Preset, "optimiser": Optimiser, "method": Method}.items():
        known = get_args(kind)
        if values[name] not in known:
            hint = did_you_mean(str(values[name]), known)
            raise ValueError(
                f"{name}={values[name]!r} is unknown{hint}; give {' or '.join(map(repr, known))}"
            )


def is_whole(value: Any, least: int, most: int | None = None) -> TypeGuard[int]:
    """Whether it is a whole number of any kind within these bounds."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return least <= int(value) and (most is None or int(value) <= most)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def refuse_beta(beta: float, continuous: bool, where: str) -> None:
    """Densities grow without limit as a distribution narrows, so that -H(a) must not be
    rewarded."""
    if continuous and beta > 1:
        raise ValueError(
            f"beta={beta!r} has no optimum in {where}, where actions are continuous; give at most 1"
        )


def _refuse_ignored(world: World, config: Config, explicit: Collection[str]) -> None:
    """Refuse settings that were given and would be ignored in this kind of world, or with this
    method."""
    ignored: dict[str, str] = {}
    if config.feedback:
        for name in ("uniform", "outcomes"):
            ignored[name] = "does not apply with feedback=True; leave it out"
    if config.method != "importance":
        ignored["sequences"] = "is for method='importance'; give that, or leave it out"
    else:
        ignored["uniform"] = "does not apply to method='importance'; leave it out"
    if config.method != "variational":
        ignored["outcomes"] = f"does not apply to method={config.method!r}; leave it out"
    elif not _has_outcomes(world):
        ignored["outcomes"] = (
            "is for stochastic worlds with numbered actions whose state can be set, which "
            f"{world.name!r} is not; leave it out"
        )
    for name, why in ignored.items():
        if name in explicit:
            raise ValueError(f"{name}={getattr(config, name)!r} {why}")
