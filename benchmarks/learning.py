"""Learning speed, side by side in one run.

    python benchmarks/learning.py [--out DIR] [--quick]

(a) windows per second, against a plain PyTorch implementation of the same network (each window's
    two frames are encoded, Adam) at its best batch size, on a static world and on a box world: of
    the whole of algorithm 1 (sequences are drawn from the source and played by the vectorised
    NumPy engine), and of its learning step alone on windows that cost nothing. Ours is always the
    whole, with the default batch and with larger ones;
(b) the share of the machine's matrix-product rate that the compiled update reaches, of large
    worlds too little: a loop whose length is known only while it runs is counted once;
(c) seconds to R² = 0.90 and 0.99 in two-rooms;
(d) how the cost of an update grows with the horizon K and with the image side D, beside exact
    enumeration's sequences.

Needs PyTorch (the CPU build is enough) for (a); the other parts run without it.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import empowerment as emp
from empowerment.variational import training
from empowerment.variational.collect import ArchiveCollector
from empowerment.variational.estimator import Estimator
from empowerment.variational.learner import Learner, exponential_psi
from empowerment.variational.sequence import Categorical
from empowerment.worlds.grid import GridWorld, Map
from empowerment.worlds.world import leaves, take

BATCHES = (64, 128, 256, 512, 1024, 2048)
LARGER = (4096, 8192)
"""Batches of ours beside the default one."""


def build(world, tabulated=True, horizon=5, **settings):
    config = training.configure(horizon, settings)
    if tabulated:
        return training.prepare(world, config)
    starts = world.states()
    count = len(leaves(starts)[0])
    where = ArchiveCollector(world, None, starts, jnp.full(count, 1 / count), config.batch)
    return training.Run(Learner(config, Categorical(len(world.actions)), exponential_psi), where)


def updates_per_second(run, seconds=6.0, length=20):
    """After the warm-up, when sequences come from the source: over both halves of a training, since
    large worlds begin with simpler starts, of which more look the same."""
    chunk = jax.jit(partial(training._updates, run), static_argnums=1)
    spent = []
    for share in (0.3, 0.8):
        carry = run.init(0)
        there = carry.learner._replace(
            updates=jnp.asarray(int(share * run.learner.config.updates), jnp.int32)
        )
        carry = jax.block_until_ready(chunk(carry._replace(learner=there), length)[0])
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds / 2:
            carry = jax.block_until_ready(chunk(carry, length)[0])
            done += length
        spent.append((time.perf_counter() - start) / done)
    return len(spent) / sum(spent)


def flops(run):
    """Floating-point operations of one update, as counted by XLA."""
    carry = run.init(0)
    cost = jax.jit(run.advance).lower(carry).compile().cost_analysis()
    return float((cost[0] if isinstance(cost, list) else cost)["flops"])


def matmul_rate(size=2048, seconds=2.0):
    x = jnp.ones((size, size))
    product = jax.jit(lambda a: a @ a)
    product(x).block_until_ready()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        product(x).block_until_ready()
        done += 1
    return 2 * size**3 * done / (time.perf_counter() - start)


def torch_rate(world, batch, acting, horizon=5, hidden=128, seconds=6.0):
    """Windows per second of plain PyTorch: encode x and x', decoder, source, psi, backward, Adam.

    With `acting`, sequences are drawn from the source and played; else windows are random and cost
    nothing.
    """
    import torch
    from torch import nn

    torch.set_num_threads(2)
    actions = len(world.actions)

    class Head(nn.Module):
        def __init__(self, features):
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(features + horizon * actions + horizon, hidden),
                nn.ReLU(),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
                nn.Linear(hidden, actions),
            )

        def logits(self, features, sequence, k):
            prefix = nn.functional.one_hot(sequence, actions).float()
            prefix[:, k:] = 0
            step = torch.zeros(len(features), horizon)
            step[:, k] = 1
            return self.net(torch.cat([features, prefix.flatten(1), step], 1))

        def log_prob(self, features, sequence):
            losses = [
                nn.functional.cross_entropy(
                    self.logits(features, sequence, k), sequence[:, k], reduction="none"
                )
                for k in range(horizon)
            ]
            return -sum(losses)

        @torch.no_grad()
        def sample(self, features):
            sequence = torch.zeros(len(features), horizon, dtype=torch.int64)
            for k in range(horizon):
                odds = torch.softmax(self.logits(features, sequence, k), 1)
                sequence[:, k] = torch.multinomial(odds, 1)[:, 0]
            return sequence

    shape = np.shape(world.observe(world.start))
    encoder = nn.Sequential(
        nn.Conv2d(3, 10, 4), nn.ReLU(), nn.Conv2d(10, 10, 3, 2), nn.ReLU(), nn.Flatten()
    )
    width = encoder(torch.zeros(1, 3, *shape[:2])).shape[1]
    encoder = nn.Sequential(encoder, nn.Linear(width, 100), nn.ReLU())
    decoder, source = Head(200), Head(100)
    psi = nn.Sequential(
        nn.Linear(100, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 1),
    )
    parts = [encoder, decoder, source, psi]
    adam = torch.optim.Adam([p for part in parts for p in part.parameters()], 1e-3)

    def seen(states):
        return torch.from_numpy(
            np.asarray(world.observe(states)).astype(np.float32).transpose(0, 3, 1, 2) / 255
        )

    starts = world.states()
    count = len(leaves(starts)[0])
    agents = take(starts, np.random.default_rng(0).integers(count, size=batch))
    frames = seen(starts)
    done, start = 0, None
    while start is None or time.perf_counter() - start < seconds:
        if acting:
            x = seen(agents)
            with torch.no_grad():
                sequence = source.sample(encoder(x))
            for k in range(horizon):
                agents = world.step(agents, sequence[:, k].numpy(), np.int64(0))
            y = seen(agents)
        else:
            x, y = (frames[torch.randint(len(frames), (batch,))] for _ in range(2))
            sequence = torch.randint(actions, (batch, horizon))
        s, t = encoder(x), encoder(y)
        log_q = decoder.log_prob(torch.cat([s, t], 1), sequence)
        error = log_q.detach() - source.log_prob(s, sequence) - psi(s)[:, 0]
        loss = -log_q.mean() + (error**2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        if start is None:
            start = time.perf_counter()
        else:
            done += batch
    return done / (time.perf_counter() - start)


def seconds_to(run, world, levels=(0.90, 0.99)):
    chunk = jax.jit(partial(training._updates, run), static_argnums=1)
    carry, spent, found = run.init(0), 0.0, {}
    truth = emp.exact(world, run.learner.config.horizon)
    first = time.perf_counter()
    chunk.lower(carry, 100).compile()
    compile_seconds = time.perf_counter() - first
    for _ in range(run.learner.config.updates // 100):
        start = time.perf_counter()
        carry, _ = jax.block_until_ready(chunk(carry, 100))
        spent += time.perf_counter() - start
        r2 = emp.compare(
            Estimator(carry.learner.average, run.learner.config, world).landscape(), truth
        ).r2
        for level in levels:
            if r2 >= level and level not in found:
                found[level] = round(spent, 1)
    return {
        "seconds_to": found,
        "final_r2": round(r2, 4),
        "compile_seconds": round(compile_seconds, 1),
    }


def room(side):
    rows = ["#" * side] + ["#" + "." * (side - 2) + "#"] * (side - 2) + ["#" * side]
    rows[1] = "#a" + rows[1][2:]
    return GridWorld(Map.parse("\n".join(rows), f"room-{side}"))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="short measurements, without (c)")
    args = parser.parse_args()
    seconds = 2.0 if args.quick else 6.0
    result = {}
    peak = matmul_rate()
    for name in ("two-rooms", "box-movable"):
        world = emp.make(name)
        run = build(world)
        rate = updates_per_second(run, seconds)
        row = {"windows_per_second": round(rate * run.learner.config.batch)}
        row["share_of_matrix_product_rate"] = round(flops(run) * rate / peak, 3)
        ours = {
            size: round(updates_per_second(build(world, batch=size), seconds) * size)
            for size in LARGER
        }
        row["larger_batches"] = ours
        best = max(row["windows_per_second"], *ours.values())
        try:
            for part, acting in (("whole", True), ("step", False)):
                theirs = {
                    size: round(torch_rate(world, size, acting, seconds=seconds / 2))
                    for size in BATCHES
                }
                row[f"torch_{part}"] = theirs
                row[f"times_torch_{part}"] = round(
                    row["windows_per_second"] / max(theirs.values()), 2
                )
                row[f"best_times_torch_{part}"] = round(best / max(theirs.values()), 2)
        except ImportError:
            row["torch"] = "not installed"
        result[name] = row
        print(name, json.dumps(row), flush=True)
    if not args.quick:
        result["to_r2"] = seconds_to(build(emp.make("two-rooms")), emp.make("two-rooms"))
        print(json.dumps(result["to_r2"]), flush=True)
    base = {"batch": 512}
    result["horizon"] = {
        k: {
            "ms": round(1e3 / updates_per_second(build(room(20), False, k, **base), seconds, 5), 1),
            "sequences": 5**k,
        }
        for k in (5, 10, 20)
    }
    result["side"] = {
        d: {
            "ms": round(1e3 / updates_per_second(build(room(d), False, 5, **base), seconds, 5), 1),
            "pixels": d * d,
        }
        for d in (10, 20, 40)
    }
    print(json.dumps({"horizon": result["horizon"], "side": result["side"]}))
    result["matrix_product_gflops"] = round(peak / 1e9, 1)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "learning.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
