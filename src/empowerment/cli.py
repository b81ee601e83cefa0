"""The command line: parses, calls the library, prints. Each command is one dataclass whose fields are its flags."""

import contextlib
import io
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import FlagConversionOff, Positional, arg, subcommand

from . import __version__, exact, make, worlds

WorldName = Annotated[str, arg(metavar="WORLD")]
Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def say(message: str) -> None:
    """A message for the person: standard output is kept for results."""
    print(message, file=sys.stderr)


def show(result: dict[str, Any], as_json: bool, text: str) -> None:
    print(json.dumps(result) if as_json else text)


def options(slip: float | None) -> dict[str, Any]:
    return {} if slip is None else {"slip": slip}


@dataclass(frozen=True)
class Worlds:
    """List the built-in worlds, or draw them.

    Examples:
      empowerment worlds
      empowerment worlds --out pictures
    """

    out: Path | None = None
    """Directory to draw each world into, as a PNG picture."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        from .figures.worlds import draw_world

        rows = [(name, make(name)) for name in worlds()]
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            for name, world in rows:
                draw_world(world, self.out / f"{name}.png")
            say(f"wrote {len(rows)} pictures to {self.out}")
        result = {name: {"actions": list(world.actions)} for name, world in rows}
        show(result, self.json, "\n".join(f"{n:15}{len(w.actions)} actions: {', '.join(w.actions)}" for n, w in rows))


@dataclass(frozen=True)
class Exact:
    """Exact, certified empowerment of every place of a world.

    Examples:
      empowerment exact two-rooms --horizon 5
      empowerment exact my_map.txt --horizon 3 --slip 0.1 --out out/my_map
    """

    world: Positional[WorldName]
    """Name of a built-in world, or the path of a map (.txt)."""
    horizon: int = 5
    """Number of actions in a sequence, K."""
    slip: float | None = None
    """Probability that a random move replaces the chosen action."""
    out: Path | None = None
    """Directory for the landscape and its picture."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        world = make(self.world, **options(self.slip))
        land = exact(world, self.horizon, progress=True)
        if self.out is not None:
            from .figures.landscapes import save_landscape

            save_landscape(land, self.out)
            say(f"wrote the landscape and its picture to {self.out}")
        best = int(land.nats.argmax())
        result = {
            "world": world.name,
            "horizon": self.horizon,
            "states": len(land.nats),
            "mean": float(land.nats.mean()),
            "min": float(land.nats.min()),
            "max": float(land.nats.max()),
            "gap": float((land.upper - land.lower).max()),
            "argmax": [int(i) for i in land.positions[best]] if land.positions is not None else best,
            "nats": [float(x) for x in land.nats],
        }
        text = (
            f"{world.name}, K = {self.horizon}: {result['states']} states, empowerment from {result['min']:.4f} to "
            f"{result['max']:.4f} nats (mean {result['mean']:.4f}), certified to {result['gap']:.1e} nats; "
            f"highest at {result['argmax']}"
        )
        show(result, self.json, text)


COMMANDS = {"worlds": Worlds, "exact": Exact}


def parse(args: list[str]) -> Any:
    """The chosen command; bad flags end with one sentence and exit 2."""
    union: Any = None
    for name, command in COMMANDS.items():
        one = Annotated[command, subcommand(name, prefix_name=False)]
        union = one if union is None else union | one
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                union,
                prog="empowerment",
                args=args,
                description="Empowerment: how many distinguishable futures an agent can bring about.",
            )
    except SystemExit as stop:
        if stop.code:
            fail(_sentence(complaint.getvalue(), args))
        raise


def _sentence(panel: str, args: list[str]) -> str:
    """One sentence from the parser's panel."""
    lines = [re.sub(r"[\u2500-\u257f]", " ", line).strip() for line in panel.splitlines()]
    words = [line for line in lines if line and line != "Parsing error"]
    text = " ".join(words).split("For full helptext")[0].strip()
    command = args[0] if args and args[0] in COMMANDS else ""
    return f"{text or 'the command line is not understood'}; see 'empowerment {command}{' ' * bool(command)}--help'"


def fail(sentence: str) -> None:
    say(f"empowerment: {sentence}")
    raise SystemExit(2)


def main(args: list[str] | None = None) -> None:
    """Run one command. Bad input: one sentence on standard error and exit 2."""
    args = sys.argv[1:] if args is None else args
    if args == ["--version"]:
        print(__version__)
        return
    command = parse(args or ["--help"])
    try:
        command.run()
    except (ValueError, OSError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        say("empowerment: interrupted")
        raise SystemExit(130) from None
