"""What is handed out is whole: the distributions build, pass their checks, and work without the
repository."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from empowerment import __version__

ROOT = Path(__file__).parent.parent
USE = """
from pathlib import Path
import empowerment as emp
from empowerment.figures.landscapes import save_landscape
from empowerment.report import build_report
assert Path(emp.__file__).is_relative_to(Path.cwd()), emp.__file__
assert all(len(emp.exact(emp.make(name), 1)) for name in emp.worlds() if name not in ("predator-prey", "pendulum"))
chase = emp.make("predator-prey")
assert not chase.step(chase.start, [0.0, 0.0], [0.0] * 4).diverged
save_landscape(emp.exact(emp.make("two-rooms"), 1), Path("out"))
print(build_report(Path("out"), lambda message: None).stat().st_size)
"""


def run(*command, cwd=ROOT, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The source distribution, and the wheel that is built from it."""
    pytest.importorskip("build")
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("not in the repository")
    directory = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", directory)
    return directory


def test_distributions_pass_their_checks(dist):
    pytest.importorskip("twine")
    out = run("-m", "twine", "check", "--strict", *dist.iterdir())
    assert out.count("PASSED") == 2


def test_the_source_distribution_has_everything(dist):
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "src/empowerment/py.typed",
        "tests/conftest.py",
        "docs/index.md",
        "mkdocs.yml",
        "LICENSE",
        "CHANGELOG.md",
    }
    assert wanted <= names
    assert not [name for name in names if name.startswith(("results/", ".ci/", "site/"))]


def test_the_wheel_works_without_the_repository(dist, tmp_path):
    with zipfile.ZipFile(next(dist.glob(f"empowerment-{__version__}-py3-none-any.whl"))) as archive:
        archive.extractall(tmp_path)
    assert (tmp_path / "empowerment" / "py.typed").is_file()
    assert not (tmp_path / "tests").exists()
    assert int(run("-c", USE, cwd=tmp_path, PYTHONPATH=str(tmp_path))) > 10_000
