"""Bad input, made by a fuzzer that is guided by which lines of the package it reaches (atheris,
libFuzzer).

    pip install atheris
    python benchmarks/fuzz.py --cases 1000000 --out results/robustness

Anything but a ValueError of one line (for the command line: exit 0 or 2 with one line) stops it, as
does a case that takes five seconds or 2 GiB. Each target runs in a process of its own, with its
share of the cases.
"""

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SHARES = {
    "maps": 0.4,
    "settings": 0.5,
    "descriptions": 0.05,
    "checkpoints": 0.03,
    "channels": 0.018,
    "commands": 0.002,
}
RUN = Path(__file__).parents[1] / "tests" / "variational" / "runs" / "format-1"
COMMANDS = [
    "exact",
    "train",
    "check",
    "act",
    "worlds",
    "report",
    "reproduce",
    "two-rooms",
    "tree",
    "greedy",
]
FLAGS = [
    "horizon",
    "slip",
    "out",
    "json",
    "seed",
    "updates",
    "resume",
    "bricks",
    "goal",
    "every",
    "samples",
    "help",
]
VALUES = [
    "0",
    "1",
    "-1",
    "5",
    "0.5",
    "nan",
    "inf",
    "1e400",
    "9" * 30,
    "/",
    "--",
    "=",
    "--horizon=2",
    "--slip=0.1",
]
WORDS = COMMANDS + [f"--{flag}" for flag in FLAGS] + VALUES


def value(data: Any, depth: int = 0) -> Any:
    """Anything that JSON can say, and a little more."""
    kind = data.ConsumeIntInRange(0, 9 if depth < 2 else 7)
    if kind == 0:
        return data.ConsumeInt(8)
    if kind == 1:
        return data.ConsumeFloat()
    if kind == 2:
        return data.ConsumeUnicodeNoSurrogates(8)
    if kind in (3, 4):
        return data.ConsumeIntInRange(-2, 300)
    if kind == 5:
        return data.PickValueInList(
            [None, True, False, 10**30, "muon", "adam", "whole", 0.5, 1e300, ""]
        )
    if kind in (6, 7):
        return data.ConsumeProbability()
    items = [value(data, depth + 1) for _ in range(data.ConsumeIntInRange(0, 3))]
    return items if kind == 8 else {str(i): item for i, item in enumerate(items)}


def one_line(function: Any, *args: Any) -> Any:
    """The result, or None where the input was refused in one sentence."""
    try:
        return function(*args)
    except ValueError as error:
        if len(str(error).splitlines()) != 1:
            raise RuntimeError(f"not one line: {error}") from error
        return None


def maps(data: Any) -> None:
    import numpy as np

    from empowerment.worlds.grid import GridWorld, Map

    slip, bricks = data.ConsumeFloat(), data.ConsumeBool()
    if data.ConsumeBool():
        text = data.ConsumeUnicodeNoSurrogates(300)
    else:
        width = data.ConsumeIntInRange(1, 8)
        cells = "".join("#.bkdla"[byte % 7] for byte in data.ConsumeBytes(64))
        text = "\n".join(cells[i : i + width] for i in range(0, len(cells), width))
    drawn = one_line(Map.parse, text, "map")
    world = one_line(GridWorld, drawn, slip, bricks) if drawn is not None else None
    if world is not None:
        actions = np.arange(len(world.actions), dtype=np.int32)
        world.observe(world.step(world.start, actions, np.int32(0)))


def settings(data: Any) -> None:
    import dataclasses

    from empowerment.variational.config import Config, configure

    names = [field.name for field in dataclasses.fields(Config)] + ["hiden", ""]
    chosen = {data.PickValueInList(names): value(data) for _ in range(data.ConsumeIntInRange(0, 4))}
    one_line(configure, value(data), chosen)


def descriptions(data: Any) -> None:
    from empowerment.variational.checkpoint import RunDirectory, _digest_of_facts
    from empowerment.variational.training import _described

    path = Path(os.environ["FUZZED"]) / "run.json"
    if data.ConsumeIntInRange(0, 3) == 0:
        path.write_bytes(data.ConsumeBytes(400))
    else:
        facts = json.loads((RUN / "run.json").read_text())
        del facts["sha256"]
        for _ in range(data.ConsumeIntInRange(1, 3)):
            where = data.PickValueInList([facts, facts["config"], facts["world"]])
            if isinstance(where, dict) and where:
                where[data.PickValueInList(sorted(where))] = value(data)
            if not isinstance(facts["config"], dict) or not isinstance(facts["world"], dict):
                break
        path.write_text(json.dumps({**facts, "sha256": _digest_of_facts(facts)}))
    directory = RunDirectory(path.parent)
    found = one_line(directory.facts)
    if found is not None:
        one_line(_described, directory, found)


def checkpoints(data: Any) -> None:
    from empowerment.variational.checkpoint import RunDirectory

    path = Path(os.environ["FUZZED"]) / "checkpoints" / "00000020.safetensors"
    good = bytearray((RUN / "checkpoints" / path.name).read_bytes())
    for _ in range(data.ConsumeIntInRange(1, 6)):
        at = data.ConsumeIntInRange(0, len(good) - 1)
        good[at : at + data.ConsumeIntInRange(0, 4)] = data.ConsumeBytes(
            data.ConsumeIntInRange(0, 6)
        )
        good = good or bytearray(b"x")
    path.write_bytes(bytes(good) if data.ConsumeIntInRange(0, 3) else data.ConsumeBytes(300))
    directory = RunDirectory(path.parents[1])
    directory._identity = json.loads((RUN / "run.json").read_text())["sha256"]
    one_line(directory.read, path)


def channels(data: Any) -> None:
    import numpy as np

    from empowerment.capacity import capacity

    rows, columns = data.ConsumeIntInRange(0, 5), data.ConsumeIntInRange(0, 5)
    raw = data.ConsumeBool()
    entries = [
        data.ConsumeFloat() if raw else data.ConsumeIntInRange(0, 4) / 4
        for _ in range(rows * columns)
    ]
    matrix = np.array(entries, float).reshape(rows, columns)
    if data.ConsumeBool() and not raw and rows and columns and (matrix.sum(1) > 0).all():
        matrix = matrix / matrix.sum(1, keepdims=True)
    beta = data.PickValueInList([1.0, 0.5, 1e-6, 1.5, 0.0, -1.0, float("nan"), float("inf")])
    with np.errstate(all="ignore"):
        found = one_line(
            capacity, matrix, beta, data.PickValueInList([1e-9, 1e-6, 0.0, float("nan")])
        )
    # Beyond beta = 1 the result is a fixed point of the paper's iteration, and even equal rows have
    # one below zero.
    least = -1e-12 if beta <= 1 else -np.inf
    if found is not None and not (least <= found.lower <= found.upper < np.inf):
        raise RuntimeError(f"{found} of {matrix.tolist()}")


def commands(data: Any) -> None:
    from empowerment.cli import parse

    count = data.ConsumeIntInRange(0, 6)
    args = [
        data.PickValueInList(WORDS)
        if data.ConsumeIntInRange(0, 4)
        else data.ConsumeUnicodeNoSurrogates(6)
        for _ in range(count)
    ]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            parse(args)
    except SystemExit as stop:
        if stop.code not in (None, 0) and (
            stop.code != 2 or len(said.getvalue().strip().splitlines()) != 1
        ):
            raise RuntimeError(f"{args}: exit {stop.code}, {said.getvalue()!r}") from None


TARGETS = {
    function.__name__: function
    for function in (maps, settings, descriptions, checkpoints, channels, commands)
}


def fuzz(name: str, cases: int) -> None:
    """One target; libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["empowerment"]):
        import empowerment.capacity
        import empowerment.cli
        import empowerment.variational.training  # noqa: F401
    flags = [
        f"-runs={cases}",
        "-timeout=5",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-seed=1",
        "-max_len=512",
    ]
    atheris.Setup(
        [sys.argv[0], *flags], lambda data: TARGETS[name](atheris.FuzzedDataProvider(data))
    )
    atheris.Fuzz()


def measure(name: str, cases: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        shutil.copytree(RUN, Path(directory) / "run")
        environment = {**os.environ, "FUZZED": str(Path(directory) / "run")}
        args = [sys.executable, os.path.abspath(__file__), "--target", name, "--cases", str(cases)]
        done = subprocess.run(
            args, env=environment, cwd=directory, capture_output=True, text=True, errors="replace"
        )
        crash = next(
            (path.read_bytes().hex() for path in Path(directory).glob("*-*") if path.is_file()),
            None,
        )
    memory = [int(x) for x in re.findall(r"rss: (\d+)Mb", done.stderr)] or [0]
    stats = dict(re.findall(r"stat::(\w+): +(\d+)", done.stderr))
    result = {
        "cases": int(stats.get("number_of_executed_units", 0)),
        "slowest_seconds": int(stats.get("slowest_unit_time_sec", -1)),
        "first_mebibytes": memory[0],
        "peak_mebibytes": int(stats.get("peak_rss_mb", -1)),
        "crash": crash,
    }
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.target:
        return fuzz(args.target, args.cases)
    results = {}
    for name, share in SHARES.items():
        if args.only in (None, name):
            results[name] = measure(name, max(1, round(args.cases * share)))
            print(name, json.dumps(results[name]), flush=True)
            if args.out:
                args.out.mkdir(parents=True, exist_ok=True)
                total = sum(result["cases"] for result in results.values())
                text = json.dumps({"cases": total, "targets": results}, indent=1)
                (args.out / "fuzzing.json").write_text(text + "\n")
    return None


if __name__ == "__main__":
    main()
