"""Compiled programs are kept between runs, where the user wants it."""

import os
import subprocess
import sys
import time

import jax

from empowerment.variational import compiled

SCRIPT = """
import empowerment as emp

emp.train(emp.make("two-rooms"), 2, updates=10, batch=64, progress=False)
"""


def train(cache):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | {
        compiled.SWITCH: str(cache)
    }
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, env=environment, timeout=300)


def test_a_second_training_takes_what_the_first_has_compiled(tmp_path):
    train(tmp_path)
    kept = {path.name for path in tmp_path.rglob("jit__updates*-cache")}
    assert kept
    train(tmp_path)
    assert {path.name for path in tmp_path.rglob("jit__updates*-cache")} == kept, (
        "not compiled again"
    )


def test_it_can_be_switched_off(tmp_path, monkeypatch):
    before = jax.config.jax_compilation_cache_dir
    try:
        jax.config.update("jax_compilation_cache_dir", None)
        monkeypatch.setenv(compiled.SWITCH, "off")
        compiled.keep_compiled()
        assert jax.config.jax_compilation_cache_dir is None
        monkeypatch.setenv(compiled.SWITCH, str(tmp_path / "mine"))
        compiled.keep_compiled()
        assert jax.config.jax_compilation_cache_dir.startswith(str(tmp_path / "mine"))
        assert os.stat(jax.config.jax_compilation_cache_dir).st_mode & 0o077 == 0
        monkeypatch.setenv(compiled.SWITCH, str(tmp_path / "other"))
        compiled.keep_compiled()  # one that is set already stays
        assert jax.config.jax_compilation_cache_dir.startswith(str(tmp_path / "mine"))
        jax.config.update("jax_compilation_cache_dir", None)
        (tmp_path / "file").write_text("")
        monkeypatch.setenv(compiled.SWITCH, str(tmp_path / "file"))
        compiled.keep_compiled()  # nowhere to write: done without
        assert jax.config.jax_compilation_cache_dir is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_the_oldest_programs_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "LARGEST", 25)
    for age, name in enumerate(["new", "older", "oldest"]):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (time.time() - age, time.time() - age))
    compiled._trim(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "older"}
