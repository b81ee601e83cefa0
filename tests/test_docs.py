"""The documentation is true: its code runs, its messages exist, its commands parse, and it builds
strictly."""

import ast
import doctest
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from functools import partial
from pathlib import Path

import jax
import pytest

import empowerment as emp
from empowerment import cli
from empowerment import cli_bench as bench

ROOT = Path(__file__).parent.parent
SOURCE = Path(emp.__file__).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TINY = {
    "updates": 2,
    "batch": 16,
    "hidden": 8,
    "features": 10,
    "layers": 2,
    "ema": 0.0,
    "optimiser": "adam",
    "progress": False,
}

pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").is_dir(), reason="the documentation is not part of the package"
)


def blocks(page, language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [block for kind, block in fenced if kind == language]


def messages():
    """Every string of the program, with … for what is filled in."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [x.value if isinstance(x, ast.Constant) else "…" for x in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_messages_that_help_is_given_for_exist():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    keys = re.findall(r"^### `(.*)`$", page, re.MULTILINE)
    known = [" ".join(message.split()) for message in messages()]
    assert len(keys) > 20
    missing = [key for key in keys if not any(key in message for message in known)]
    assert not missing


def test_words_are_those_that_a_reader_knows():
    """docs/words.txt lists the words that are avoided, with what to write instead."""
    lines = (ROOT / "docs" / "words.txt").read_text().splitlines()
    avoided = [line.split("|")[0].strip() for line in lines if line[0] != "#"]
    assert len(avoided) > 5
    texts = {page.name: page.read_text() for page in PAGES}
    texts |= {str(path): path.read_text() for path in SOURCE.rglob("*.py")}
    found = [
        (name, word)
        for name, text in texts.items()
        for word in avoided
        if re.search(rf"\b{word}\b", " ".join(text.split()), re.IGNORECASE)
    ]
    assert not found


class Recorder(types.ModuleType):
    """Stands in for a tracking library: remembers the names that were called."""

    def __init__(self, name):
        super().__init__(name)
        self.called = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **options: self.called.append(name) or self


@pytest.fixture
def quick_compilation():
    """Most of the time here goes into compiling programs that run for an instant."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def test_the_map_of_the_page_is_the_file():
    page = (ROOT / "docs" / "getting-started.md").read_text()
    assert f"```\n{(ROOT / 'docs' / 'my_map.txt').read_text().strip()}\n```" in page


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.stem)
def test_code_of_the_pages_runs(page, tmp_path, monkeypatch, quick_compilation):
    """In order, as a reader would, but with few updates."""
    shutil.copy(ROOT / "docs" / "my_map.txt", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(emp, "train", partial(emp.train, **TINY), raising=False)
    few = {"updates": 2, "batch": 16, "decoder": 12, "samples": 16}
    monkeypatch.setattr(
        emp, "maximise_information", partial(emp.maximise_information, **few), raising=False
    )
    trackers = {name: Recorder(name) for name in ("wandb", "mlflow")}
    for name, module in trackers.items():
        monkeypatch.setitem(sys.modules, name, module)
    space = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), space)
    if page.stem == "tracking":
        assert [trackers["wandb"].called[i] for i in (0, -1)] == ["init", "finish"]
        assert [trackers["mlflow"].called[i] for i in (0, -1)] == ["start_run", "end_run"]


def test_commands_of_the_pages_parse(monkeypatch):
    """Every command line shown exists as shown; nothing is run."""
    monkeypatch.setattr(cli, "say", lambda message: pytest.fail(message))
    commands = {
        line.split("#")[0].strip()
        for page in PAGES
        for block in blocks(page, "")
        for line in block.splitlines()
        if line.startswith("empowerment ")
    }
    assert len(commands) > 15
    for kind in [*cli.COMMANDS.values(), *bench.COMMANDS.values()]:
        monkeypatch.setattr(kind, "run", lambda self: None, raising=False)
    for command in commands:
        cli.main(shlex.split(command)[1:])


@pytest.mark.parametrize(
    "path", [p for p in sorted(SOURCE.rglob("*.py")) if ">>> " in p.read_text()], ids=str
)
def test_examples_in_docstrings(path):
    name = ".".join(("empowerment", *path.relative_to(SOURCE).with_suffix("").parts))
    result = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.attempted > 0
    assert result.failed == 0


def test_every_public_name_is_in_the_reference():
    pages = "".join(p.read_text() for p in (ROOT / "docs" / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: [\w.]+\.(\w+)$", pages, re.MULTILINE))
    assert set(emp.__all__) - {"__version__"} <= shown


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 12
    outside = [
        (p.name, x)
        for p in pages
        for x in re.findall(r'<(?:script|link|img)[^>]*"https?://[^"]*', p.read_text())
    ]
    assert not outside
    search_from_disk(tmp_path)


def search_from_disk(site):
    """Pages opened without a server find what is in them."""
    api, browser = pytest.importorskip("playwright.sync_api"), shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium")
    with api.sync_playwright() as play:
        chromium = play.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu"], timeout=180_000
        )
        page = chromium.new_page()
        page.set_default_timeout(120_000)
        page.goto((site / "index.html").as_uri())
        page.locator("input.md-search__input").click()
        page.keyboard.type("capacity", delay=20)
        page.locator(".md-search-result__link[href*='capacity']").first.wait_for()
        chromium.close()
