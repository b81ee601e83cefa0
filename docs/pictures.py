"""Makes the pictures of the documentation (`make pictures`), from the library, the examples and
results/."""

import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
from PIL import Image

import empowerment as emp
from empowerment.figures.landscapes import draw_landscapes
from empowerment.figures.scenes import scenes

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
MAP = HERE / "my_map.txt"
WIDTH = 1000  # pixels; wider pictures are shrunk


def shrink(path: Path) -> None:
    """Few colours and no more pixels than a page shows: small files."""
    picture = Image.open(path).convert("RGB")
    if picture.width > WIDTH:
        picture = picture.resize(
            (WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS
        )
    picture.quantize(128).save(path, optimize=True)


def draw(name: str, landscapes, titles, shared: bool = False) -> None:
    figure = draw_landscapes(landscapes, titles, shared=shared)
    figure.savefig(PICTURES / f"{name}.png", dpi=100)


def concepts() -> None:
    rooms = emp.make("two-rooms")
    horizons = [1, 3, 5, 10]
    draw("horizons", [emp.exact(rooms, k) for k in horizons], [f"K = {k}" for k in horizons])
    slips = [0.0, 0.1, 0.3]
    draw(
        "noise",
        [emp.exact(emp.make("two-rooms", slip=s), 3) for s in slips],
        [f"slip {s}" for s in slips],
        True,
    )
    door = emp.make("key-door")
    draw(
        "key-door",
        [emp.exact(door, 5, states) for states in scenes(door).values()],
        list(scenes(door)),
        True,
    )
    draw("my-map", [emp.exact(emp.make(MAP), 5)], ["my_map.txt, K = 5"])


def sees() -> None:
    """Three worlds as the agent sees them."""
    frames = [
        np.asarray(w.observe(w.start))
        for w in map(emp.make, ("two-rooms", "key-door", "lava-maze"))
    ]
    side = max(max(f.shape[:2]) for f in frames)
    large = [np.kron(f, np.ones((300 // side,) * 2 + (1,), np.uint8)) for f in frames]
    tall = max(f.shape[0] for f in large)
    padded = [
        np.pad(f, ((0, tall - f.shape[0]), (0, 20), (0, 0)), constant_values=255) for f in large
    ]
    Image.fromarray(np.concatenate(padded, axis=1)).save(PICTURES / "sees.png")


def examples() -> None:
    for name, flag in {
        "frozen_lake": "--out",
        "own_world": "--out",
        "cleanrl_loop": "--out",
        "jax_ppo": "--out",
    }.items():
        script = HERE.parent / "examples" / f"{name}.py"
        subprocess.run([sys.executable, script, flag, PICTURES / f"{name}.png"], check=True)


def learned() -> None:
    """Measured by `empowerment reproduce static`, which takes minutes."""
    Image.open(HERE.parent / "results" / "static" / "static.png").save(PICTURES / "learned.png")


def measured() -> None:
    """Measured by `empowerment reproduce feedback` and by `benchmarks/data.py`."""
    for name in ("feedback", "data"):
        Image.open(HERE.parent / "results" / name / f"{name}.png").save(PICTURES / f"{name}.png")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for make in (concepts, sees, examples, learned, measured):
        make()
    for path in sorted(PICTURES.glob("*.png")):
        shrink(path)
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")
