"""Empowerment: how many distinguishable futures an agent can bring about.

The public face and nothing else. What needs JAX is imported on first use, so that importing the
package is quick and starts no device.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .capacity import Capacity, blahut_arimoto, capacity
from .exact import exact
from .landscape import Comparison, Landscape, compare
from .worlds.data import from_data
from .worlds.make import make
from .worlds.registration import register as _register
from .worlds.registry import worlds
from .worlds.table import from_transitions
from .worlds.third_party import from_gymnasium

if TYPE_CHECKING:
    from . import bench
    from .reward import EmpowermentReward, EmpowermentVectorReward
    from .variational.estimator import Estimator
    from .variational.information import Information, maximise_information
    from .variational.online import Online
    from .variational.seeds import train_seeds
    from .variational.sequence import Categorical, Gaussian
    from .variational.tracking import TensorBoard
    from .variational.training import load, train
    from .worlds.jax_world import from_jax

_LAZY = {
    "EmpowermentReward": ".reward",
    "EmpowermentVectorReward": ".reward",
    "Categorical": ".variational.sequence",
    "Estimator": ".variational.estimator",
    "Online": ".variational.online",
    "Gaussian": ".variational.sequence",
    "Information": ".variational.information",
    "TensorBoard": ".variational.tracking",
    "from_jax": ".worlds.jax_world",
    "load": ".variational.training",
    "maximise_information": ".variational.information",
    "train": ".variational.training",
    "train_seeds": ".variational.seeds",
}

__all__ = [
    "Capacity",
    "Categorical",
    "Comparison",
    "EmpowermentReward",
    "EmpowermentVectorReward",
    "Estimator",
    "Gaussian",
    "Information",
    "Landscape",
    "Online",
    "TensorBoard",
    "__version__",
    "bench",
    "blahut_arimoto",
    "capacity",
    "compare",
    "exact",
    "from_data",
    "from_gymnasium",
    "from_jax",
    "from_transitions",
    "load",
    "make",
    "maximise_information",
    "train",
    "train_seeds",
    "worlds",
]


def __getattr__(name: str) -> Any:
    if name == "bench":
        return import_module(".bench", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module 'empowerment' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)


_register()
