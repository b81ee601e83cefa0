"""The command line: parses, calls the library, prints. Each command is a dataclass whose fields are
its flags."""

import contextlib
import inspect
import io
import math
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional, arg, subcommand

from . import Landscape, __version__, compare, exact, make, worlds
from .console import Switch, explain, explain_os, say, show
from .exact import check_feedback, has_exact
from .files import refuse_unwritable
from .variational.config import STOCHASTIC, Config
from .worlds.world import World

WorldName = Annotated[str, arg(metavar="WORLD")]
Slip = Annotated[float | None, arg(metavar="FLOAT", help_behavior_hint="(default: 0)")]
Directory = Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")]
Horizon = int | Literal["inf"]
Discount = Annotated[float, arg(metavar="FLOAT")]
Copies = Annotated[int | None, arg(metavar="INT", help_behavior_hint="")]
Wrap = Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")]
Place = Annotated[tuple[int, int] | None, arg(metavar="ROW COLUMN", help_behavior_hint="")]
UPDATES = f"(default: {Config.updates}; {STOCHASTIC['updates']} where chance decides)"
BATCH = f"(default: {Config.batch})"


def report_impossible(estimator: Any, land: Any) -> int:
    """How many estimates no source could have, and a message where there are any."""
    count = int(estimator.impossible(land.nats).sum())
    if count:
        say(
            f"{count} of {len(land)} estimates are impossible (below 0, or above (K ln N)/β): "
            "train longer"
        )
    return count


def make_world(command: Any, name: str) -> World:
    """The world that a command names, with what was given of its options."""
    return make(name, **options(command))


def steps_of(horizon: int | str) -> int | float:
    """The horizon that was typed."""
    return math.inf if horizon == "inf" else int(horizon)


def feedback_of(command: Any) -> dict[str, Any]:
    """What was given of feedback; nothing without it."""
    check_feedback(command.feedback, command.discount)
    if not command.feedback and command.horizon == "inf":
        raise ValueError("an infinite horizon needs --feedback and a --discount below 1")
    return {"feedback": True, "discount": command.discount} if command.feedback else {}


def options(command: Any) -> dict[str, Any]:
    """What was given of a world's options."""
    given = {name: getattr(command, name) for name in ("slip", "bricks", "copies", "wrap")}
    return {
        name: value for name, value in given.items() if value is not None and value is not False
    }


@dataclass(frozen=True)
class Worlds:
    """List the built-in worlds, or draw them.

    Examples:
      empowerment worlds
      empowerment worlds --out pictures
    """

    out: Directory = None
    """Directory to draw each world into, as a PNG picture."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        from .figures.worlds import draw_world

        rows = [(name, make(name)) for name in worlds()]
        if self.out is not None:
            refuse_unwritable(self.out)
            self.out.mkdir(parents=True, exist_ok=True)
            for name, world in rows:
                draw_world(world, self.out / f"{name}.png")
            say(f"wrote {len(rows)} pictures to {self.out}")
        result = {name: {"actions": list(world.actions)} for name, world in rows}
        show(
            result,
            self.json,
            "\n".join(f"{n:15}{len(w.actions)} actions: {', '.join(w.actions)}" for n, w in rows),
        )


@dataclass(frozen=True)
class Exact:
    """Exact, certified empowerment of every place of a world.

    Examples:
      empowerment exact two-rooms --horizon 5
      empowerment exact my_map.txt --horizon 3 --slip 0.1 --out out/my_map
      empowerment exact my_map.txt --horizon 6 --out out/my_map --part 0/8
      empowerment exact gym:FrozenLake-v1 --horizon 3
      empowerment exact windy-bridge --horizon inf --feedback --discount 0.95
    """

    world: Positional[WorldName]
    """Name of a built-in world, path of a map (.txt), or gym:ID."""
    horizon: Horizon = 5
    """Number of actions in a sequence, K; inf with --feedback and a --discount below 1."""
    feedback: Switch = False
    """Let the agent see where each action has led before it chooses the next."""
    discount: Discount = 1.0
    """Weight of each further step, with feedback; --horizon inf needs one below 1."""
    slip: Slip = None
    """Probability that a random move replaces the chosen action."""
    bricks: Switch = False
    """Give the agent bricks."""
    copies: Copies = None
    """Act in so many copies of a Gymnasium environment, even if it reveals its dynamics."""
    wrap: Wrap = None
    """Wrappers of an environment: minigrid-rgb, minigrid-full, atari, flatten, key:NAME."""
    out: Directory = None
    """Directory for the landscape and its picture."""
    processes: int = 1
    """Processes of this machine to divide the states among."""
    part: Annotated[str | None, arg(metavar="I/N", help_behavior_hint="")] = None
    """I/N: only the I-th part (from 0) of N, as one task of a job array; the last of them writes
    the landscape."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        world = make_world(self, self.world)
        if self.out is not None:
            refuse_unwritable(self.out)
            self._refuse_other(world, self.out / "landscape.safetensors")
        land = self._part(world) if self.part is not None else self._whole(world)
        if land is not None:
            self._show(world, land)

    def _refuse_other(self, world: World, path: Path) -> None:
        """Refuse to write over a landscape of another world or horizon."""
        there = Landscape.load(path) if path.is_file() else None
        if there is not None and (
            (there.world, there.horizon, there.spec, there.feedback, there.discount)
        ) != (world.name, steps_of(self.horizon), world.spec(), self.feedback, self.discount):
            raise ValueError(
                f"{str(self.out)!r} holds the landscape of {there.world!r}, K = {there.horizon}, "
                "with another map, "
                "slip or horizon than this one; choose another directory (--out)"
            )

    def _whole(self, world: World) -> Landscape:
        horizon, given = steps_of(self.horizon), feedback_of(self)
        if self.processes == 1:
            return exact(world, horizon, progress=True, **given)
        if given:
            raise ValueError("feedback is worked out in one process; leave --processes out")
        from .parts import exact_in_processes

        return exact_in_processes(world, int(horizon), processes=self.processes)

    def _part(self, world: World) -> Landscape | None:
        from .parts import exact_part, read_part, save_part

        if self.out is None:
            raise ValueError(f"part={self.part!r} needs a directory to keep parts in; give --out")
        if self.processes != 1:
            raise ValueError(
                f"processes={self.processes} does not go with part={self.part!r}, a process of its "
                "own"
            )
        if feedback_of(self) or self.horizon == "inf":
            raise ValueError("feedback is worked out as a whole; leave --part out")
        part, parts = read_part(self.part or "")
        land = exact_part(world, int(self.horizon), None, part, parts=parts)
        whole = save_part(world, land, self.out, part, parts)
        if whole is None:
            result = {
                "world": world.name,
                "horizon": self.horizon,
                "part": self.part,
                "states": len(land),
            }
            show(
                result,
                self.json,
                f"{world.name}: part {self.part} is done; the last part to be done joins them all",
            )
        return whole

    def _show(self, world: World, land: Landscape) -> None:
        if self.out is not None:
            from .figures.landscapes import save_landscape

            save_landscape(land, self.out)
            say(f"wrote the landscape and its picture to {self.out}")
        best = int(land.nats.argmax())
        result = {
            "world": world.name,
            "horizon": self.horizon,
            "feedback": self.feedback,
            "discount": self.discount,
            "slip": self.slip or 0.0,
            "version": __version__,
            "states": len(land.nats),
            "mean": float(land.nats.mean()),
            "min": float(land.nats.min()),
            "max": float(land.nats.max()),
            "gap": float((land.upper - land.lower).max()),
            "argmax": [int(i) for i in land.positions[best]]
            if land.positions is not None
            else best,
            "positions": None if land.positions is None else land.positions.tolist(),
            "nats": [float(x) for x in land.nats],
        }
        text = (
            f"{world.name}, K = {self.horizon}{', with feedback' * self.feedback}: "
            f"{result['states']} states, empowerment from "
            f"{result['min']:.4f} to "
            f"{result['max']:.4f} nats (mean {result['mean']:.4f}), certified to "
            f"{result['gap']:.1e} nats; "
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
      empowerment train point-mass --horizon 3 --out runs/mass --method reparameterised
      empowerment train two-rooms --out runs/rooms --seeds 8
      empowerment train lava-maze --out runs/maze --processes 2
      empowerment train gym:MiniGrid-DoorKey-6x6-v0 --wrap minigrid-rgb --copies 16 --out runs/door
    """

    world: Positional[WorldName]
    """Name of a built-in world, path of a map (.txt), or gym:ID."""
    out: Path
    """Directory of the run."""
    horizon: Horizon = 5
    """Number of actions in a sequence, K; inf with --feedback and a --discount below 1."""
    feedback: Switch = False
    """Let the agent see where each action has led before it chooses the next."""
    discount: Discount = 1.0
    """Weight of each further step, with feedback; --horizon inf needs one below 1."""
    slip: Slip = None
    """Probability that a random move replaces the chosen action."""
    bricks: Switch = False
    """Give the agent bricks."""
    copies: Copies = None
    """Act in so many copies of a Gymnasium environment, even if it reveals its dynamics."""
    wrap: Wrap = None
    """Wrappers of an environment: minigrid-rgb, minigrid-full, atari, flatten, key:NAME."""
    seed: int = 0
    """Seed of everything random."""
    seeds: int = 1
    """Train so many seeds side by side, from --seed on, each in a directory of its own in --out."""
    updates: Annotated[int | None, arg(metavar="INT", help_behavior_hint=UPDATES)] = None
    """Number of updates; more is more accurate."""
    method: Annotated[
        str | None, arg(metavar="NAME", help_behavior_hint="(default: variational)")
    ] = None
    """variational (by acting only), or with a model: importance, reparameterised, learned-model."""
    preset: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="(default: default)")] = (
        None
    )
    """paper: the algorithm as printed, for comparison."""
    resume: Switch = False
    """Resume a run that was interrupted."""
    tensorboard: Switch = False
    """Write curves for TensorBoard into the run's directory."""
    batch: Annotated[int | None, arg(metavar="INT", help_behavior_hint=BATCH)] = None
    """Windows an update, over all processes together."""
    processes: int = 1
    """Processes of this machine to spread the learning over; GPUs need none, a single process uses
    all it sees."""
    coordinator: Annotated[str | None, arg(metavar="HOST:PORT", help_behavior_hint="")] = None
    """HOST:PORT of process 0, to learn on several machines; or 'auto' in a SLURM, Kubernetes or MPI
    job."""
    process_id: Annotated[int | None, arg(metavar="INT", help_behavior_hint="")] = None
    """Number of this process, from 0, where a coordinator is given."""
    process_count: Annotated[int | None, arg(metavar="INT", help_behavior_hint="")] = None
    """Number of processes in all, where a coordinator is given."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        from .processes import launch, together

        if self.seeds != 1:
            self._train_seeds()
        elif self.processes != 1:
            if self._numbered():
                raise ValueError(
                    "processes are of this machine only, a coordinator is for several; give one of "
                    "them"
                )
            raise SystemExit(launch(["train", *self._words()], self.processes))
        else:
            with together(self.coordinator, self.process_id, self.process_count):
                self._train()

    def _numbered(self) -> bool:
        """Whether this is to be one of several processes that were started one by one."""
        return any(x is not None for x in (self.coordinator, self.process_id, self.process_count))

    def _words(self) -> list[str]:
        """This command as it was typed, except what says how many processes there are."""
        words = [self.world]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value not in (None, False) and field.name != "processes":
                words += [f"--{field.name.replace('_', '-')}"] + (
                    [] if value is True else [str(value)]
                )
        return words

    def _settings(self) -> dict[str, Any]:
        given = {
            "updates": self.updates,
            "batch": self.batch,
            "method": self.method,
            "preset": self.preset,
        }
        given = {name: value for name, value in given.items() if value is not None}
        return given | feedback_of(self)

    def _train_seeds(self) -> None:
        from .variational.seeds import run_of, train_seeds

        if self.seeds < 1 or self.processes != 1 or self._numbered() or self.tensorboard:
            raise ValueError(
                f"seeds={self.seeds} are trained side by side, 1 or more, each in one process and "
                "without TensorBoard; "
                "leave the other flags out"
            )
        world = make_world(self, self.world)
        seeds = range(self.seed, self.seed + self.seeds)
        learned = train_seeds(
            world, steps_of(self.horizon), seeds, self.out, self.resume, **self._settings()
        )
        runs = [str(run_of(self.out, seed)) for seed in seeds]
        lands = [estimator.landscape() for estimator in learned]
        means = [float(land.nats.mean()) for land in lands]
        impossible = [report_impossible(*pair) for pair in zip(learned, lands, strict=True)]
        text = "\n".join(
            f"{run}: mean {mean:.4f} nats" for run, mean in zip(runs, means, strict=True)
        )
        show({"runs": runs, "means": means, "impossible": impossible}, self.json, text)

    def _train(self) -> None:
        from .variational.devices import leads
        from .variational.training import train

        world = make_world(self, self.world)
        settings = self._settings()
        if self.tensorboard:
            from .variational.tracking import TensorBoard

            settings["trackers"] = [TensorBoard(self.out / "tensorboard")]
        estimator = train(
            world, steps_of(self.horizon), self.seed, self.out, self.resume, **settings
        )
        if not leads():
            return
        if estimator.world is None or not estimator.world.settable:
            self._say_unlisted(world)
            return
        land = estimator.landscape()
        result = {
            "run": str(self.out),
            "states": len(land),
            "mean": float(land.nats.mean()),
            "max": float(land.nats.max()),
            "impossible": report_impossible(estimator, land),
        }
        text = (
            f"{world.name}: learned empowerment has mean {result['mean']:.4f} and maximum "
            f"{result['max']:.4f} nats"
        )
        show(
            result,
            self.json,
            text + (f"; see 'empowerment check {self.out}'" if has_exact(estimator.world) else ""),
        )

    def _say_unlisted(self, world: World) -> None:
        """Where observations do not repeat, there is no list of states to report on."""
        result = {"run": str(self.out), "states": None}
        text = (
            f"{world.name}: observations hardly repeat, or do not tell the state, so that there "
            f"is no landscape; use emp.load({str(self.out)!r}).empowerment(observations)"
        )
        show(result, self.json, text)


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
        if estimator.config.beta != 1:
            raise ValueError(
                f"run {str(self.run_directory)!r} has beta={estimator.config.beta}, and exact "
                "empowerment is that of "
                "beta=1; compare it with emp.capacity(..., beta=)"
            )
        learned = estimator.landscape()
        assert estimator.world is not None  # landscape refuses a run without one
        config = estimator.config
        given = {"feedback": config.feedback, "discount": config.discount, "progress": True}
        truth = exact(estimator.world, config.horizon, learned.states, **given)
        fit, bound = (
            compare(learned, truth),
            estimator.bound(states=learned.states, samples=self.samples),
        )
        broken = int(bound.breaks(truth.upper).sum())
        result = {
            "run": str(self.run_directory),
            "states": len(learned),
            **{
                name: getattr(fit, name)
                for name in ("pearson", "r2", "bias", "max_error", "argmax_agrees")
            },
            "bound_mean": float(bound.nats.mean()),
            "bound_broken": broken,
            "impossible": report_impossible(estimator, learned),
        }
        held = "holds at every state" if not broken else f"is BROKEN at {broken} states"
        text = (
            f"{fit}\nbound {result['bound_mean']:.4f} nats on average; it {held} (five standard "
            "errors)"
        )
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
    """Directory of a run, name of a built-in world, path of a map (.txt), or gym:ID."""
    behaviour: str = "greedy"
    """greedy, model-free, planning, q-learning, look-ahead, shaping, source or random."""
    steps: int = 100
    """Number of actions to take; the episode ends earlier where the agent dies."""
    horizon: Horizon = 5
    """Number of actions in a sequence, K, of exact empowerment; a run has its own."""
    feedback: Switch = False
    """Let the agent see where each action has led before it chooses the next."""
    discount: Discount = 1.0
    """Weight of each further step, with feedback; --horizon inf needs one below 1."""
    slip: Slip = None
    """Probability that a random move replaces the chosen action, where a world is given."""
    bricks: Switch = False
    """Give the agent bricks, where a map is given."""
    copies: Copies = None
    """Act in so many copies of a Gymnasium environment, even if it reveals its dynamics."""
    wrap: Wrap = None
    """Wrappers of an environment: minigrid-rgb, minigrid-full, atari, flatten, key:NAME."""
    gamma: float = 0.95
    """Discount of planning, Q-learning, look-ahead and shaping."""
    start: Place = None
    """Row and column to start at; by default where the map says."""
    goal: Place = None
    """Row and column that the shaped task is to reach; by default the most empowered place."""
    seed: int = 0
    """Decides ties, chance and experience."""
    every: Annotated[int | None, arg(metavar="INT", help_behavior_hint="")] = None
    """Steps between the pictures of the filmstrip; by default close together at first."""
    out: Directory = None
    """Directory for the episode (JSON), its filmstrip and its video."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        from .behaviour import at_place, run_episode
        from .behaviour.named import make_behaviour

        if self.out is not None:
            refuse_unwritable(self.out)
        setting = self._setting()
        start = None if self.start is None else at_place(setting.world, self.start)
        episode = run_episode(
            setting.world, make_behaviour(self.behaviour, setting), self.steps, self.seed, start
        )
        result = episode.summary()
        if self.out is not None:
            from .figures.episode import save_episode
            from .report import save_playback

            save_episode(setting.world, episode, self.out, self.every)
            title = f"{setting.world.name}, {self.behaviour}"
            save_playback(setting.world, episode, self.out / "playback.json", title, self.behaviour)
            say(f"wrote the episode, its filmstrip and its video to {self.out}")
        end = f"{episode.empowerment[-1]:.4f} nats" + (
            f" at {result['path'][-1]}" if result["path"] else ""
        )
        room = (
            ""
            if episode.reachable_cells is None
            else f", {episode.reachable_cells} cells within reach"
        )
        fate = "alive" if episode.alive else "ended"
        text = (
            f"{setting.world.name}, {self.behaviour}: {fate} after {episode.steps} steps, "
            f"{end}{room}"
        )
        show(result, self.json, text)

    def _setting(self) -> Any:
        from .behaviour import (
            exact_source,
            exact_value,
            feedback_source,
            learned_source,
            learned_value,
        )
        from .behaviour.named import Setting

        rest = {"gamma": self.gamma, "goal": self.goal, "seed": self.seed}
        if not self._is_run():
            world = make_world(self, self.run_or_world)
            horizon, given = steps_of(self.horizon), feedback_of(self)
            if given:
                draw = feedback_source(world, horizon, self.discount)
                return Setting(world, exact_value(world, horizon, **given), draw, **rest)
            horizon = int(horizon)
            return Setting(world, exact_value(world, horizon), exact_source(world, horizon), **rest)
        if feedback_of(self):
            raise ValueError("feedback is of exact empowerment, and this is a run; leave it out")
        if options(self):
            raise ValueError(
                f"{' and '.join(options(self))} are the world's, and a run has its own world; "
                "leave them out"
            )
        from .variational.training import load

        estimator = load(self.run_or_world)
        world = estimator.world
        if world is None:
            raise ValueError(
                f"run {self.run_or_world!r} does not know its world, only its program does; use "
                "emp.load there"
            )
        return Setting(
            world, learned_value(world, estimator), learned_source(world, estimator), **rest
        )

    def _is_run(self) -> bool:
        """A directory; one that has the name of a world only if it holds a run."""
        path = Path(self.run_or_world)
        return path.is_dir() and (
            (path / "run.json").is_file() or self.run_or_world not in worlds()
        )


@dataclass(frozen=True)
class Reproduce:
    """Reproduce a figure of the paper: pictures, numbers, claims and a report; exit 1 where a claim
    is not shown.

    Examples:
      empowerment reproduce static --out out/static
      empowerment reproduce all --quick
    """

    figure: Positional[Annotated[str, arg(metavar="FIGURE")]]
    """static, tree, boxes, key-door, lava-corridor, lava-maze, predator-prey, pendulum, behaviours,
    complexity, feedback, or all."""
    out: Path = Path("out")
    """Directory for everything that is made; what is there already is not made again."""
    seeds: Annotated[int | None, arg(metavar="INT", help_behavior_hint="")] = None
    """Trainings of each world; by default each figure's own."""
    quick: Switch = False
    """Few updates: every figure, but not the final numbers."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        from .figures.reproduce import reproduce

        refuse_unwritable(self.out)
        claims = reproduce(self.figure, self.out, self.seeds, self.quick, say)
        lines = [
            f"{'shown    ' if c.shown else 'NOT shown'}  {c.claim} [{c.criterion}]" for c in claims
        ]
        result = {
            "report": str(self.out / "report.html"),
            "shown": sum(c.shown for c in claims),
            "claims": len(claims),
        }
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


@dataclass(frozen=True)
class Bench:
    """The benchmark of certified tasks: list, verify, run, score.

    Examples:
      empowerment bench list
      empowerment bench run --set core --seeds 3 --out bench
      empowerment bench --help
    """

    action: Positional[Annotated[str, arg(metavar="list|verify|run|score")]]
    """What to do; each has a help of its own: empowerment bench run --help."""


COMMANDS = {
    "worlds": Worlds,
    "exact": Exact,
    "train": Train,
    "check": Check,
    "act": Act,
    "reproduce": Reproduce,
    "report": Report,
    "bench": Bench,
}


def parse(args: list[str]) -> Any:
    """The chosen command; bad flags end with one sentence and exit 2."""
    if args[:1] != ["bench"]:
        return _parse(
            args,
            COMMANDS,
            "empowerment",
            "Empowerment: how many distinguishable futures an agent can bring about.",
        )
    from .cli_bench import COMMANDS as BENCH

    return _parse(
        args[1:] or ["--help"], BENCH, "empowerment bench", "The benchmark of certified tasks."
    )


def _parse(args: list[str], commands: dict[str, Any], program: str, description: str) -> Any:
    union: Any = None
    for name, command in commands.items():
        one = Annotated[
            command, subcommand(name, prefix_name=False, description=inspect.getdoc(command))
        ]
        union = one if union is None else union | one
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(union, prog=program, args=args, description=description)
    except SystemExit as stop:
        if stop.code:
            fail(explain(complaint.getvalue(), args, commands, program))
        raise


def fail(sentence: str) -> None:
    say(f"empowerment: {sentence}")
    raise SystemExit(2)


def main(args: list[str] | None = None) -> None:
    """Run one command. Bad input: one sentence on standard error and exit 2."""
    args = sys.argv[1:] if args is None else args
    if args == ["--version"]:
        print(__version__)
        return
    try:
        parse(args or ["--help"]).run()
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(explain_os(error))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" not in str(
            error
        ):  # JAX's word for it
            raise
        fail(
            "memory ran out; give a smaller world, horizon or batch (--batch), or use a larger "
            "machine"
        )
    except KeyboardInterrupt:
        say(
            "empowerment: interrupted; what was written stands, and a training continues with "
            "--resume"
        )
        raise SystemExit(130) from None
