"""Strict while testing: types and shapes are checked, warnings are errors, no display is used."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")

from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook("empowerment", "beartype.beartype")

settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")
