"""The command line: parses, calls the library, prints. Each command is a dataclass whose fields are its flags."""

import contextlib
import inspect
import io
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional, arg, subcommand

from . import __version__, compare, exact, make, worlds

WorldName = Annotated[str, arg(metavar="WORLD")]
Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def say(message: str) -> None:
    """A message for the person: standard output is kept for results."""
    print(message, file=sys.stderr)


def show(result: dict[str, Any], as_json: bool, text: str) -> None:
    print(json.dumps(result) if as_json else text)


def options(slip: float | None, bricks: bool) -> dict[str, Any]:
    """What was given of a world's options."""
    return ({} if slip is None else {"slip": slip}) | ({"bricks": True} if bricks else {})


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
    bricks: Switch = False
    """Give the agent bricks."""
    out: Path | None = None
    """Directory for the landscape and its picture."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        world = make(self.world, **options(self.slip, self.bricks))
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


@dataclass(frozen=True)
class Train:
    """Learn empowerment of a world by acting in it, from what the agent sees.

    Examples:
      empowerment train two-rooms --out runs/two-rooms
      empowerment train my_map.txt --horizon 3 --updates 1000 --out runs/mine --seed 1
      empowerment train two-rooms --out runs/two-rooms --resume
    """

    world: Positional[WorldName]
    """Name of a built-in world, or the path of a map (.txt)."""
    out: Path
    """Directory of the run."""
    horizon: int = 5
    """Number of actions in a sequence, K."""
    slip: float | None = None
    """Probability that a random move replaces the chosen action."""
    bricks: Switch = False
    """Give the agent bricks."""
    seed: int = 0
    """Seed of everything random."""
    updates: int | None = None
    """Number of updates; more is more accurate."""
    resume: Switch = False
    """Go on with a run that was interrupted."""
    tensorboard: Switch = False
    """Write curves for TensorBoard into the run's directory."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        from .variational.training import train

        world = make(self.world, **options(self.slip, self.bricks))
        settings: dict[str, Any] = {} if self.updates is None else {"updates": self.updates}
        if self.tensorboard:
            from .variational.tracking import TensorBoard

            settings["trackers"] = [TensorBoard(self.out / "tensorboard")]
        land = train(world, self.horizon, self.seed, self.out, self.resume, **settings).landscape()
        result = {
            "run": str(self.out),
            "states": len(land),
            "mean": float(land.nats.mean()),
            "max": float(land.nats.max()),
        }
        text = f"{world.name}: learned empowerment has mean {result['mean']:.4f} and maximum {result['max']:.4f} nats"
        show(result, self.json, f"{text}; see 'empowerment check {self.out}'")


@dataclass(frozen=True)
class Check:
    """Compare what a run has learned with exact empowerment; exit 1 where the bound is broken.

    Examples:
      empowerment check runs/two-rooms
      empowerment check runs/two-rooms --json
    """

    run_directory: Positional[Annotated[Path, arg(metavar="RUN")]]
    """Directory of a run."""
    samples: int = 1000
    """Sequences drawn at each state for the bound."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        from .variational.training import load

        estimator = load(self.run_directory)
        learned = estimator.landscape()
        assert estimator.world is not None  # load refuses a run without one
        truth = exact(estimator.world, estimator.config.horizon, learned.states, progress=True)
        fit, bound = compare(learned, truth), estimator.bound(states=learned.states, samples=self.samples)
        broken = int((bound.nats - truth.upper > 5 * bound.error + 1e-6).sum())
        result = {
            "run": str(self.run_directory),
            "states": len(learned),
            **{name: getattr(fit, name) for name in ("pearson", "r2", "bias", "max_error", "argmax_agrees")},
            "bound_mean": float(bound.nats.mean()),
            "bound_broken": broken,
        }
        held = "holds at every state" if not broken else f"is BROKEN at {broken} states"
        text = f"{fit}\nbound {result['bound_mean']:.4f} nats on average; it {held} (five standard errors)"
        show(result, self.json, text)
        if broken:
            raise SystemExit(1)


@dataclass(frozen=True)
class Act:
    """Act on empowerment: learned where a run is given, exact where a world is.

    Examples:
      empowerment act lava-maze --behaviour greedy --steps 60 --out out/maze
      empowerment act runs/key-door --behaviour planning --gamma 0.97 --start 5 2
    """

    run_or_world: Positional[Annotated[str, arg(metavar="RUN|WORLD")]]
    """Directory of a run, name of a built-in world, or the path of a map (.txt)."""
    behaviour: str = "greedy"
    """greedy, model-free, planning, q-learning, look-ahead, shaping, source or random."""
    steps: int = 100
    """Number of actions to take; the episode ends earlier where the agent dies."""
    horizon: int = 5
    """Number of actions in a sequence, K, of exact empowerment; a run has its own."""
    slip: float | None = None
    """Probability that a random move replaces the chosen action, where a world is given."""
    bricks: Switch = False
    """Give the agent bricks, where a map is given."""
    gamma: float = 0.95
    """Discount of planning, Q-learning, look-ahead and shaping."""
    start: tuple[int, int] | None = None
    """Row and column to start at; by default where the map says."""
    goal: tuple[int, int] | None = None
    """Row and column that the shaped task is to reach; by default the most empowered place."""
    seed: int = 0
    """Decides ties, chance and experience."""
    every: int | None = None
    """Steps between the pictures of the filmstrip; by default close together at first."""
    out: Path | None = None
    """Directory for the episode (JSON), its filmstrip and its video."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        from .behaviour import at_place, run_episode
        from .behaviour.named import make_behaviour

        setting = self._setting()
        start = None if self.start is None else at_place(setting.world, self.start)
        episode = run_episode(setting.world, make_behaviour(self.behaviour, setting), self.steps, self.seed, start)
        result = episode.summary()
        if self.out is not None:
            from .figures.episode import save_episode
            from .report import save_playback

            save_episode(setting.world, episode, self.out, self.every)
            title = f"{setting.world.name}, {self.behaviour}"
            save_playback(setting.world, episode, self.out / "playback.json", title, self.behaviour)
            say(f"wrote the episode, its filmstrip and its video to {self.out}")
        end = f"{episode.empowerment[-1]:.4f} nats" + (f" at {result['path'][-1]}" if result["path"] else "")
        room = "" if episode.reachable_cells is None else f", {episode.reachable_cells} cells within reach"
        fate = "alive" if episode.alive else "ended"
        text = f"{setting.world.name}, {self.behaviour}: {fate} after {episode.steps} steps, {end}{room}"
        show(result, self.json, text)

    def _setting(self) -> Any:
        from .behaviour import exact_source, exact_value, learned_source, learned_value
        from .behaviour.named import Setting

        rest = {"gamma": self.gamma, "goal": self.goal, "seed": self.seed}
        if not Path(self.run_or_world).is_dir():
            world = make(self.run_or_world, **options(self.slip, self.bricks))
            return Setting(world, exact_value(world, self.horizon), exact_source(world, self.horizon), **rest)
        if self.slip is not None or self.bricks:
            raise ValueError("slip and bricks are the world's, and a run has its own world; leave them out")
        from .variational.training import load

        estimator = load(self.run_or_world)
        world = estimator.world
        assert world is not None  # load refuses runs whose world only their program knows
        return Setting(world, learned_value(world, estimator), learned_source(world, estimator), **rest)


@dataclass(frozen=True)
class Reproduce:
    """Reproduce a figure of the paper: pictures, numbers, claims and a report; exit 1 where a claim is not shown.

    Examples:
      empowerment reproduce static --out out/static
      empowerment reproduce all --quick
    """

    figure: Positional[Annotated[str, arg(metavar="FIGURE")]]
    """static, tree, boxes, key-door, lava-corridor, lava-maze, predator-prey, pendulum, behaviours, complexity,
    or all."""
    out: Path = Path("out")
    """Directory for everything that is made; what is there already is not made again."""
    seeds: int | None = None
    """Trainings of each world; by default each figure's own."""
    quick: Switch = False
    """Few updates: every figure, but not the final numbers."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        from .figures.reproduce import reproduce

        claims = reproduce(self.figure, self.out, self.seeds, self.quick, say)
        lines = [f"{'shown    ' if c.shown else 'NOT shown'}  {c.claim} [{c.criterion}]" for c in claims]
        result = {"report": str(self.out / "report.html"), "shown": sum(c.shown for c in claims), "claims": len(claims)}
        show(result, self.json, "\n".join([*lines, f"report: {result['report']}"]))
        if result["shown"] < result["claims"]:
            raise SystemExit(1)


@dataclass(frozen=True)
class Report:
    """Build a page from the runs, figures, episodes and claims in a directory.

    Examples:
      empowerment report runs
    """

    directory: Positional[Annotated[Path, arg(metavar="DIR")]]
    """Directory that holds them, at any depth."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        from .report import build_report

        path = build_report(self.directory, say)
        show({"report": str(path), "bytes": path.stat().st_size}, self.json, f"report: {path}")


COMMANDS = {
    "worlds": Worlds,
    "exact": Exact,
    "train": Train,
    "check": Check,
    "act": Act,
    "reproduce": Reproduce,
    "report": Report,
}


def parse(args: list[str]) -> Any:
    """The chosen command; bad flags end with one sentence and exit 2."""
    union: Any = None
    for name, command in COMMANDS.items():
        one = Annotated[command, subcommand(name, prefix_name=False, description=inspect.getdoc(command))]
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
