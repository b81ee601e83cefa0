"""Strict while testing: types and shapes are checked, warnings are errors, no display is used."""

import os
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
# Many tests compile the same programs; most of the suite's time would go there.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Programs that run for a second need not be optimised for long.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")

from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook("empowerment", "beartype.beartype")

settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")
