"""Everything that can be set in a training: what it means, what it usually is, and what it may be."""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, TypeGuard, get_args

import numpy as np

from ..worlds.learnable import HostWorld
from ..worlds.registry import did_you_mean
from ..worlds.world import World, check_world
from .sequence import MOST_COMPONENTS, Prefix

LARGEST = {
    "horizon": 2**12,
    "updates": 10**8 - 1,
    "batch": 2**22,
    "windows": 2**12,
    "features": 2**14,
    "hidden": 2**14,
    "layers": 2**6,
    "sequences": 2**20,
    "draws": 2**20,
    "ends": 2**10,
    "components": MOST_COMPONENTS,
}
"""Sizes beyond which a setting is a mistake; checkpoints are named by eight digits."""
LARGEST_SIZE = 2**22
"""Numbers in an observation, and actions."""
RAMP = 0.1
"""Share of the updates over which learning rates rise, where layers are standardised."""
COMPONENTS = 8
"""Normal distributions that a bounded number is drawn from one of."""
NOISY: dict[str, Any] = {
    "bayes": True,
    "updates": 16_000,
    "batch": 1024,
    "warm_up": 0.15,
    "uniform": 0.06,
    "uniform_until": 0.6,
    "layers": 4,
    "standardise": True,
    "average": 0.98,
    "learning_rate": 0.012,
}
"""What is usual where chance decides."""
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "prefix": "previous",
        "optimiser": "adagrad",
        "learning_rate": 0.02,
        "warm_up": 0.0,
        "uniform": 0.0,
        "bayes": False,
        "ends": 1,
        "layers": 2,
        "average": 0.0,
        "ramp": 0.0,
        "standardise": False,
        "psi_loss": "squared",
    }
}
"""Settings by name. `paper`: the algorithm as printed, for comparison; a step sees the previous action only, everything
is learned by Adagrad from the first update on, and sequences come from the source alone."""
Optimiser = Literal["muon", "adam", "adagrad"]
PsiLoss = Literal["exponential", "squared"]
Method = Literal["variational", "importance", "reparameterised"]
ModelKind = Literal["own", "learned"]


@dataclass(frozen=True)
class Config:
    """Everything that settles what is learned, but for the world and the seed."""

    horizon: int = 5
    """Number of actions in a sequence, K."""
    beta: float = 1.0
    """Inverse temperature of the constrained objective."""
    updates: int = 3000
    """Number of updates in all."""
    warm_up: float = 0.2
    """Share of the updates during which all sequences are drawn uniformly, so that the decoder is right first."""
    uniform: float = 0.5
    """Share of sequences still drawn uniformly after the warm-up, or with `bayes` of single actions (0.06 in worlds
    with slip); it falls to zero ..."""
    uniform_until: float = 0.7
    """... at this share of the updates, so that the source forgets no end state while it settles."""
    batch: int = 2048
    """Windows an update."""
    ends: int | None = None
    """How often each sequence is played from where it starts, so that chance averages out in what the source is fitted
    to; by default 16 where chance decides and the world can be tabulated, else 1."""
    bayes: bool = False
    """Whether the decoder's logits are added to those of the source, as Bayes' rule does, so that it need not follow
    the source (true in worlds with slip)."""
    windows: int | None = None
    """Windows that an agent plays in a row within an update, in worlds too large to tabulate; by default 1, or 4 where
    actions are continuous or the world runs on the host."""
    restart: float | None = None
    """Probability that an agent starts anew before an update; by default 0.1, 0.5 in worlds that change for good or run
    on the host and are large, and 1 in other worlds too large to tabulate (some agents walk greedily there) and where
    sequences of a tabulated world have several ends."""
    revisit: float | None = None
    """Probability that an agent goes back to where a window with a large error started, if it does not start anew; by
    default 0.6, 0.2 or 0 in these kinds of worlds."""
    walk: bool | None = None
    """Whether, in grid worlds too large to tabulate, agents start where something is about to happen and some walk
    greedily; by default they do. Otherwise half start anew as the world does, or where random play led."""
    psi_loss: PsiLoss | None = None
    """What fits ψ: an exponential loss, whose minimum is ln Z of the decoder, or the squared error of source and ψ, as
    in the paper; by default the first, except where chance decides and only one outcome of a sequence is known."""
    features: int = 100
    """Size of the state representation."""
    hidden: int = 128
    """Width of the layers of decoder, source and psi."""
    layers: int = 2
    """Rectified layers of decoder and source, two or more, four in worlds with slip; psi has the paper's two."""
    prefix: Prefix = "whole"
    """What a step sees of the sequence before it: the whole prefix, or the previous action (as printed)."""
    optimiser: Optimiser = "muon"
    """Muon for matrices and Adam for the rest; or Adam; or Adagrad, as in the paper."""
    learning_rate: float = 4e-3
    """First learning rate; it falls linearly to zero."""
    ramp: float | None = None
    """Share of the updates over which the rate first rises; by default 0.1 if layers are standardised, else none."""
    standardise: bool | None = None
    """Whether colours are whitened and all layers standardised, so that none falls silent; by default in worlds whose
    pictures are too many to be tabulated."""
    components: int | None = None
    """Normal distributions, squashed, that each number of a bounded continuous action is drawn from one of; by default
    8, since the best source has few different actions there, or 1 with method="reparameterised", as in the paper."""
    method: Method = "variational"
    """By acting only (section 4), or with a model (appendix B): importance sampling, or gradients through dynamics."""
    model: ModelKind = "own"
    """Which dynamics gradients go through: the world's own, or those of a network learned from experience."""
    sequences: int = 1000
    """Sequences at each state for importance sampling, S."""
    draws: int = 10
    """End states of each of them, J."""
    average: float = 0.0
    """Decay of the running average of the weights that estimates are made with; 0 for no averaging."""


OPEN = frozenset(field.name for field in dataclasses.fields(Config) if field.default is None)
"""Settings that may be None: what is usual in the kind of world."""


def checked(world: World, horizon: int | np.integer, settings: dict[str, Any], resuming: bool = False) -> Config:
    """The configuration of a run in this world; a ValueError says which setting does not fit.

    A run that is resumed is told what it was begun with, be it ignored or not.
    """
    check_world(world)
    own, preset = split_preset(settings)
    config = configure(horizon, usual(world, own.get("method", "variational")) | preset | own)
    refuse_beta(config.beta, world.continuous is not None, f"world {world.name!r}")
    if not resuming:
        _refuse_ignored(world, config, given(own))
    return config


def split_preset(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was set one by one, and what a preset sets where it is named."""
    own = dict(settings)
    preset = own.pop("preset", None)
    if preset is None:
        return own, {}
    if preset not in PRESETS:
        raise ValueError(
            f"preset={preset!r} is unknown{did_you_mean(str(preset), PRESETS)}; give {' or '.join(map(repr, PRESETS))}"
        )
    return own, PRESETS[preset]


def given(settings: dict[str, Any]) -> dict[str, Any]:
    """Without those that None leaves open."""
    return {name: value for name, value in settings.items() if value is not None or name not in OPEN}


def usual(world: World, method: Any = "variational") -> dict[str, Any]:
    """Settings that suit the kind of world better than the general ones.

    Where chance decides, the best source is sparse: many uniform sequences after the warm-up would hold it back, none
    would let the decoder forget what is rare, and a decoder that had to learn the source's odds anew would lag behind
    it. What is still to be learned late is smaller than what a decoder is wrong by, so that it is given more layers,
    more and larger steps, and an average to be read from.
    """
    if world.chances <= 1:
        return {}
    if method != "variational" or world.continuous is not None:
        return {"uniform": 0.0}
    return NOISY


def settled(config: Config, many_pictures: bool, averaged: bool = False) -> Config:
    """What is left open depends on whether pictures are too many for all to be seen in every update: the first
    gradients are then mostly noise, and layers could fall silent; and on whether ln q is `averaged` over the outcomes
    of each sequence, or there is only one."""
    psi_loss = config.psi_loss or ("exponential" if averaged else "squared")
    standardise = many_pictures if config.standardise is None else config.standardise
    ramp = (RAMP if standardise else 0.0) if config.ramp is None else config.ramp
    several = 1 if config.method == "reparameterised" else COMPONENTS
    components = several if config.components is None else config.components
    return dataclasses.replace(config, standardise=standardise, ramp=ramp, components=components, psi_loss=psi_loss)


def configure(horizon: int | np.integer, settings: dict[str, Any]) -> Config:
    """A checked configuration."""
    fields = {field.name: field for field in dataclasses.fields(Config)}
    for name in settings:
        if name == "horizon":
            raise ValueError("horizon is no setting; give it after the world")
        if name not in fields:
            raise ValueError(
                f"setting {name!r} is unknown{did_you_mean(name, fields)}; give one of {', '.join(sorted(fields))}"
            )
    values: dict[str, Any] = {name: field.default for name, field in fields.items()} | settings | {"horizon": horizon}
    _check(values)
    whole: dict[str, Any] = {name: int(values[name]) for name in LARGEST if values[name] is not None}
    return Config(**(values | whole))


def _check(values: dict[str, Any]) -> None:
    values = given(values)
    for name, largest in LARGEST.items():
        value, least = values.get(name, 1), 2 if name == "layers" else 1
        if not is_whole(value, least, largest):
            raise ValueError(f"{name}={value!r} must be a whole number from {least} to {largest:,}")
    for name in ("beta", "learning_rate"):
        if not is_number(values[name]) or not 0 < values[name] < float("inf"):
            raise ValueError(f"{name}={values[name]!r} must be a positive number")
    if not is_number(values["average"]) or not 0 <= values["average"] < 1:
        raise ValueError(f"average={values['average']!r} must be at least 0 and below 1")
    for name in ("warm_up", "uniform", "uniform_until", "restart", "revisit", "ramp"):
        value = values.get(name, 0)
        if not is_number(value) or not 0 <= value <= 1:
            raise ValueError(f"{name}={value!r} must lie between 0 and 1")
    for name in ("standardise", "walk", "bayes"):
        if not isinstance(values.get(name, False), bool):
            raise ValueError(f"{name}={values[name]!r} must be true or false")
    kinds = {"prefix": Prefix, "optimiser": Optimiser, "psi_loss": PsiLoss, "method": Method, "model": ModelKind}
    for name, kind in kinds.items():
        known = get_args(kind)
        if name in values and values[name] not in known:
            hint = did_you_mean(str(values[name]), known)
            raise ValueError(f"{name}={values[name]!r} is unknown{hint}; give {' or '.join(map(repr, known))}")
    if values["model"] != "own" and values["method"] != "reparameterised":
        raise ValueError(
            f"model={values['model']!r} is for gradients through it; give method='reparameterised', or leave it out"
        )
    if values["method"] == "reparameterised" and values.get("components", 1) != 1:
        raise ValueError(
            f"components={values['components']!r} cannot be differentiated through; leave it out with "
            "method='reparameterised'"
        )


def is_whole(value: Any, least: int, most: int | None = None) -> TypeGuard[int]:
    """Whether it is a whole number of any kind within these bounds."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return least <= int(value) and (most is None or int(value) <= most)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def refuse_beta(beta: float, continuous: bool, where: str) -> None:
    """Densities grow without limit as a distribution narrows, so that -H(a) must not be rewarded."""
    if continuous and beta > 1:
        raise ValueError(f"beta={beta!r} has no optimum in {where}, where actions are continuous; give at most 1")


def _refuse_ignored(world: World, config: Config, told: Collection[str]) -> None:
    """Refuse settings that were told and would be ignored in this kind of world, or with this method."""
    kind, here = world.continuous, f"does not apply to world {world.name!r}; leave it out"
    moves, ignored = ("windows", "restart", "revisit", "walk", "ends"), {}
    if world.on_host or kind is not None:
        ignored["walk"] = here
    if kind is not None:
        ignored["bayes"] = f"is for listed actions, which those of world {world.name!r} are not; leave it out"
    if world.deterministic and config.ends != 1:
        ignored["ends"] = f"is for worlds where chance decides, which {world.name!r} is not; leave it out"
    if world.on_host and kind is not None:
        ignored |= {"windows": here, "revisit": here, "ends": here}
    if (kind is None or kind.power is not None) and config.components != 1:
        ignored["components"] = (
            f"is for bounded numbers, which the actions of world {world.name!r} are not; leave it out"
        )
    if config.uniform == 0:
        ignored["uniform_until"] = (
            "says until when a share of sequences is uniform, which is 0 here; give uniform= as well"
        )
    if config.method == "importance":
        away = "does not apply to method='importance'; leave it out"
        ignored |= dict.fromkeys((*moves, "warm_up", "uniform", "uniform_until"), away)
    else:
        away = "is for method='importance'; give that, or leave it out"
        ignored |= dict.fromkeys(("sequences", "draws"), away)
    if config.method != "variational":
        ignored |= dict.fromkeys(("ends", "bayes"), f"does not apply to method={config.method!r}; leave it out")
    if isinstance(world, HostWorld):
        stuck = f"does not apply to environment {world.name!r}, which cannot be put into a state; leave it out"
        ignored |= dict.fromkeys(moves, stuck)
    for name, why in ignored.items():
        if name in told:
            raise ValueError(f"{name}={getattr(config, name)!r} {why}")


def refuse_windows(world: World, config: Config, windows: int, tabulated: bool, told: Collection[str]) -> None:
    """The same for windows in a row, and for a batch that they do not make up, once it is known who plays them."""
    for name in ("windows", "walk"):
        if tabulated and name in told:
            raise ValueError(
                f"{name}={getattr(config, name)!r} is for worlds too large to tabulate, which {world.name!r} is not; "
                "leave it out"
            )
    if config.batch % windows and ("batch" in told or "windows" in told):
        raise ValueError(
            f"batch={config.batch} is no multiple of the {windows} windows that an agent plays in a row; give one, or "
            "other windows"
        )


def refuse_revisits(config: Config, restart: float, told: Collection[str]) -> None:
    """The same for going back to errors, once it is known how many start anew."""
    if "revisit" in told and config.revisit and restart == 1:
        raise ValueError(f"revisit={config.revisit!r} has no effect where all start anew; give restart= below 1 too")
