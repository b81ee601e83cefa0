"""Mutation testing: one operator, comparison or constant of the exact code is changed; do the tests
notice?

    python benchmarks/mutation.py --sample 60 --out results/robustness

Mutants are drawn at random from each file (`--sample 0` takes them all), each in a copy of the
package, in a process forked after the slow imports. A mutant is killed by the first test that
fails, or by taking ten times as much of the processor as the unchanged code. Survivors are listed
with their line, to be explained or to get a test.
"""

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGETS = {
    "objective.py": ("variational/objective.py", ["tests/variational/test_objective.py"]),
    "channel.py": ("channel.py", ["tests/test_channel.py", "tests/test_exact.py"]),
    "exact.py": ("exact.py", ["tests/test_exact.py", "tests/test_channel.py"]),
    "capacity.py": ("capacity.py", ["tests/test_capacity.py"]),
    "interior_point.py": ("interior_point.py", ["tests/test_capacity.py"]),
    "grid.py": (
        "worlds/grid.py",
        ["tests/worlds/test_grid.py", "tests/test_exact.py", "-k", "not numpy_and_jax"],
    ),
}
SWAPS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


def changes(node: ast.AST) -> list[ast.AST]:
    """What may stand in the place of a node."""
    out: list[ast.AST] = []
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        out.append(_with(node, op=SWAPS[type(node.op)]()))
    if isinstance(node, ast.Compare):
        for i in range(len(node.ops)):
            ops = [SWAPS[type(op)]() if i == j else op for j, op in enumerate(node.ops)]
            out.append(_with(node, ops=ops))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        out.append(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        out.append(_with(node, value=not node.value))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        out.append(
            _with(node, value=node.value + 1 if isinstance(node.value, int) else node.value * 2 + 1)
        )
    return out


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


class Finder(ast.NodeVisitor):
    """Nodes that can be changed, except for messages and types, which no test is to repeat."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, ast.AST]] = []

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.JoinedStr | ast.Raise):
            return
        self.found += [(node, new) for new in changes(node)]
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child)


class Replacer(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST):
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def mutants(source: str) -> list[tuple[int, str, str]]:
    """Line, description and source of every mutant."""
    count, out = len(_found(source)), []
    for i in range(count):
        tree = ast.parse(source)
        old, new = _found(source, tree)[i]
        said = f"{ast.unparse(old)}  ->  {ast.unparse(new)}"
        out.append((old.lineno, said, ast.unparse(Replacer(old, new).visit(tree))))
    return out


def _found(source: str, tree: ast.AST | None = None) -> list[tuple[ast.AST, ast.AST]]:
    finder = Finder()
    finder.visit(ast.parse(source) if tree is None else tree)
    return finder.found


def survives(package: Path, tests: list[str], seconds: float) -> tuple[bool, float]:
    """Whether all tests pass on the package of a directory, within this time of the processor, and
    the time taken."""
    process = os.fork()
    if process == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1,) * 2)
        signal.alarm(20 * int(seconds) + 20)  # a mutant may also wait for ever
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        sys.path.insert(0, str(package))
        import pytest

        paths = [str(ROOT / test) if test.startswith("tests/") else test for test in tests]
        early = [
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
        ]  # hypothesis was imported before the fork
        os._exit(
            int(
                pytest.main(
                    ["-x", "-q", "-p", "no:cacheprovider", *early, "--rootdir", str(ROOT), *paths]
                )
            )
        )
    _, status, used = os.wait4(process, 0)
    return status == 0, used.ru_utime + used.ru_stime


def measure(name: str, sample: int, directory: Path) -> dict:
    relative, tests = TARGETS[name]
    file = directory / "empowerment" / relative
    source = file.read_text()
    passed, seconds = survives(directory, tests, 3600)
    if not passed:
        raise SystemExit(f"{tests} fail on the unchanged {relative}")
    every = mutants(source)
    chosen = random.Random(0).sample(every, min(sample or len(every), len(every)))
    survivors = []
    for line, said, text in chosen:
        file.write_text(text)
        if survives(directory, tests, 10 * seconds)[0]:
            survivors.append({"line": line, "change": said})
    file.write_text(source)
    killed = len(chosen) - len(survivors)
    return {"mutants": len(every), "tried": len(chosen), "killed": killed, "survivors": survivors}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--out", type=Path, default=Path("results/robustness"))
    args = parser.parse_args()
    sys.dont_write_bytecode = True
    with contextlib.suppress(ImportError):  # slow imports, once
        import hypothesis  # noqa: F401
        import jax.numpy  # noqa: F401
        import pytest  # noqa: F401
        import scipy.sparse
        import scipy.special  # noqa: F401
    path = args.out / "mutation.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(
            ROOT / "src", name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
        for target in TARGETS if args.only is None else [args.only]:
            results[target] = measure(target, args.sample, Path(name))
            counts = {key: value for key, value in results[target].items() if key != "survivors"}
            print(target, json.dumps(counts), flush=True)
            args.out.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
