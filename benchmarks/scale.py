"""How learning scales over devices, seeds and sizes, side by side in one run.

    python benchmarks/scale.py [--out DIR] [--parts costs,devices,seeds,sizes]
                               [--world two-rooms] [--updates 20]

costs    floating-point operations, bytes and processor seconds of an update and of its parts,
         and the share of the rate that a large matrix product reaches
devices  strong and weak scaling for 1 and 2 devices (a process on one core each), messages
         measured apart, and a model of the cost for 8, 64 and 512 devices, with its prediction
         for 2 beside what was measured
seeds    eight seeds side by side against one, as commands, everything included
sizes    seconds to R² = 0.99 in two-rooms for several batches and network widths, all with as
         many windows in all

Next to seconds stand processor seconds: on a machine that others use too only these mean
something. They leave out what a process waits for; on a quiet machine give --time seconds.
"""

import argparse
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

BATCH = 2048
SIZES = (2**10, 2**16, 2**20, 2**22)  # bytes of a message
LOOP = 20  # messages in a row
NETWORKS = {
    "10 Gbit/s Ethernet": {"latency": 30e-6, "bandwidth": 1.1e9},
    "200 Gbit/s InfiniBand": {"latency": 5e-6, "bandwidth": 22e9},
}
"""Seconds of a message's step and bytes per second, of networks that are not here: assumed, not
measured."""
WINDOWS = 2048 * 3000
CHOICES = [(1024, 128), (2048, 128), (4096, 128), (8192, 128), (2048, 64), (2048, 256)]
"""Batch and width of the trainings of `sizes`."""


def timed(function, carry, repeats):
    """Least and median seconds of one call, and mean processor seconds."""
    import jax

    carry, _ = jax.block_until_ready(function(carry))
    wall, used = [], time.process_time()
    for _ in range(repeats):
        begin = time.perf_counter()
        carry, _ = jax.block_until_ready(function(carry))
        wall.append(time.perf_counter() - begin)
    spent = (time.process_time() - used) / repeats
    return {"seconds": min(wall), "median": sorted(wall)[len(wall) // 2], "processor": spent}


def counted(program):
    cost = program.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    return {"flops": cost["flops"], "bytes": cost["bytes accessed"]}


def prepared(world, mesh, batch=BATCH):
    """A run in the middle of a training, when sequences come from the source."""
    import jax.numpy as jnp

    import empowerment as emp
    from empowerment.variational import training
    from empowerment.variational.devices import place

    run = training.prepare(emp.make(world), training.configure(5, {"batch": batch}), 0, mesh)
    carry = run.init(0)
    late = carry.learner._replace(updates=jnp.asarray(run.learner.config.updates // 2, jnp.int32))
    return run, place(carry._replace(learner=late), run.placement)


def costs(world, repeats):
    """What an update consists of. Parts are compiled alone, so that their sum is not exactly the
    whole."""
    import jax
    import jax.numpy as jnp

    from empowerment.variational.learner import LearnerPolicy

    run, carry = prepared(world, None)
    learner, model = run.learner, carry.learner.model

    def acting(carry):
        return run.collector.collect(
            carry.agents, LearnerPolicy(learner, carry.learner), key=carry.key
        )

    _, batch = jax.jit(acting)(carry)
    features = model.representation(batch.frames)

    def sequences(model):
        log_q = model.decoder.log_prob(
            model.decoder.context(features, batch.start, batch.end), batch.actions
        )
        return (
            log_q
            + model.source.log_prob(model.source.context(features, batch.start), batch.actions)
        ).mean()

    parts = {
        "whole update": (run.advance, carry),
        "acting": (acting, carry),
        "encoding, with gradient": (
            jax.grad(lambda m: (m.representation(batch.frames) ** 2).mean()),
            model,
        ),
        "decoder and source, with gradient": (jax.grad(sequences), model),
        "optimiser": (lambda m: learner._optimiser().update(m, carry.learner.optimiser, m), model),
        "matrix product of 2048": (lambda x: x @ x, jnp.ones((2048, 2048))),
    }
    rows = {}
    for name, (function, given) in parts.items():
        program = jax.jit(function).lower(given).compile()
        rows[name] = counted(program) | timed(lambda x, f=program: (x, f(x)), given, repeats)
        print(name, json.dumps(rows[name]), flush=True)
    peak = rows["matrix product of 2048"]
    for row in rows.values():
        row["share of peak"] = row["flops"] / row["processor"] / (peak["flops"] / peak["processor"])
    return rows


def sent(text):
    """Bytes that one update sends, from the compiled program, and the number of messages."""
    width = {"pred": 1, "u8": 1, "s32": 4, "u32": 4, "f32": 4}

    def size(shapes):
        found = re.findall(r"(\w+)\[([\d,]*)\]", shapes)
        return sum(
            width[kind] * math.prod(int(n) for n in dims.split(",") if n) for kind, dims in found
        )

    lines = re.findall(
        r"= (.*?) (all-reduce|all-gather|all-to-all|collective-permute)(?:-start)?\(", text
    )
    kinds = sorted({kind for _, kind in lines} | {"all-reduce", "all-gather"})
    return {kind: sum(size(shapes) for shapes, k in lines if k == kind) for kind in kinds} | {
        "messages": len(lines)
    }


def worker(world, batch, length, repeats):
    """One process of a measurement."""
    import jax

    from empowerment.variational import training
    from empowerment.variational.devices import all_devices

    run, carry = prepared(world, all_devices(), batch)
    program = training._program(run).lower(carry, length).compile()
    row = {name: value / length for name, value in timed(program, carry, repeats).items()}
    row |= {
        "batch": batch,
        "devices": jax.device_count(),
        "sent": sent(program.as_text()),
        **counted(program),
    }
    if jax.device_count() > 1:
        row["message"] = {size: message(size, repeats) for size in SIZES}
    if jax.process_index() == 0:
        print(json.dumps(row), flush=True)


def message(size, repeats):
    """One all-reduce of so many bytes over the devices."""
    import jax
    import jax.numpy as jnp

    from empowerment.variational.devices import (
        REPLICATED,
        all_devices,
        mean_over_devices,
        per_device,
        place,
        shardings,
    )

    mesh = all_devices()
    one = per_device(mesh, lambda x: mean_over_devices(mesh, x), REPLICATED, REPLICATED)
    many = jax.jit(lambda x: (jax.lax.fori_loop(0, LOOP, lambda _, y: one(y), x), 0))
    times = timed(many, place(jnp.ones(size // 4), shardings(mesh, REPLICATED)), repeats)
    return {name: value / LOOP for name, value in times.items()}


def measured(world, batch, devices, length, repeats):
    """A process on one core for each device."""
    from empowerment.processes import _cores, _free_port

    port, running = _free_port(), []
    for i in range(devices):
        words = map(str, [world, batch, length, repeats, i, devices, port])
        pin = partial(os.sched_setaffinity, 0, _cores(i, 2))
        command = [sys.executable, __file__, "--worker", *words]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=pin))
    said = [process.communicate()[0] for process in running]
    row = json.loads(said[0].splitlines()[-1])
    print(devices, "devices:", json.dumps(row), flush=True)
    return row


def predict(cost, network, bytes_sent, batch, devices):
    """T = fixed + window N/D + ring all-reduce of the gradient + all-gather of starts and
    errors."""
    steps, share = devices - 1, (devices - 1) / devices
    gathered = bytes_sent["all-gather"] / BATCH * batch
    latency = (
        (bytes_sent["messages"] + 1) * steps * network["latency"]
    )  # an all-reduce goes round twice
    moved = share * (2 * bytes_sent["all-reduce"] + gathered)
    return cost["fixed"] + cost["window"] * batch / devices + latency + moved / network["bandwidth"]


def modelled(half, one, two, kind):
    """The model from one device and from messages among two, for `kind` of time, and what it says
    of more devices."""
    window = (one[kind] - half[kind]) / (one["batch"] - half["batch"])
    small, big = (two["message"][str(size)][kind] for size in (SIZES[0], SIZES[-1]))
    here = {"latency": small / 2, "bandwidth": (SIZES[-1] - SIZES[0]) / max(big - small, 1e-9)}
    cost = {"fixed": one[kind] - window * one["batch"], "window": window}
    table = {}
    for name, network in ({"this machine": here} | NETWORKS).items():
        for n in (2, 8, 64, 512):
            alone, strong, weak = (
                predict(cost, network, two["sent"], batch, devices)
                for batch, devices in ((BATCH, 1), (BATCH, n), (BATCH * n, n))
            )
            table[f"{name}, {n}"] = {
                "strong, times one": alone / strong,
                "weak, share of ideal": alone / weak,
            }
    predicted = predict(cost, here, two["sent"], BATCH, 2)
    return {
        "cost": cost | here,
        "predicted for two": predicted,
        "measured for two": two[kind],
        "table": table,
    }


def devices(world, length, repeats, kind):
    half, one, two = (
        measured(world, batch, count, length, repeats)
        for batch, count in ((BATCH // 2, 1), (BATCH, 1), (BATCH, 2))
    )
    return {
        "rows": {"one, half a batch": half, "one": one, "two": two},
        "strong": one[kind] / two[kind],
        "weak": half[kind] / two[kind],
        "model": modelled(half, one, two, kind),
    }


def seeds(world, updates):
    """Cost of eight seeds side by side over that of one which has the machine to itself; compiling
    is included."""
    spent = {}
    with tempfile.TemporaryDirectory() as out:
        for count in (1, 8):
            used, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            words = [
                "train",
                world,
                "--out",
                f"{out}/{count}",
                "--updates",
                str(updates),
                "--seeds",
                str(count),
            ]
            subprocess.run([sys.executable, "-m", "empowerment", *words], check=True)
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
            spent[count] = {"seconds": time.perf_counter() - begin, "processor": processor}
    ratio = {kind: spent[8][kind] / spent[1][kind] for kind in spent[1]}
    return {"updates": updates, "spent": spent, "ratio of eight to one": ratio}


def sizes():
    """Where R² first is 0.99; the learning rate falls to zero over the same number of windows for
    all."""
    rows = []
    for batch, width in CHOICES:
        rows.append(size_row(batch, width))
        print(json.dumps(rows[-1]), flush=True)
    return rows


def size_row(batch, width):
    import empowerment as emp
    from empowerment.variational import training
    from empowerment.variational.estimator import Estimator

    world = emp.make("two-rooms")
    truth, total = emp.exact(world, 5), WINDOWS // batch
    config = training.configure(
        5, {"batch": batch, "hidden": width, "features": 100, "updates": total}
    )
    run = training.prepare(world, config)
    carry, chunk, length = run.init(0), training._program(run), total // 30
    chunk(carry, length)  # compiled before the clock runs
    row, spent, used = {"batch": batch, "hidden": width, "updates": total, "curve": []}, 0.0, 0.0
    for done in range(length, total + 1, length):
        clocks = time.perf_counter(), time.process_time()
        carry, _ = chunk(carry, length)
        _ = float(carry.learner.updates)
        spent, used = (
            spent + time.perf_counter() - clocks[0],
            used + time.process_time() - clocks[1],
        )
        r2 = emp.compare(
            Estimator(carry.learner.average, run.learner.config, world).landscape(), truth
        ).r2
        row["curve"].append([done, round(spent, 2), round(used, 2), round(r2, 5)])
        if r2 >= 0.99:
            return row | {"reached": done, "seconds": spent, "processor": used}
    return row | {"reached": None, "seconds": spent, "processor": used}


def main():
    if sys.argv[1:2] == ["--worker"]:
        from empowerment.processes import together

        world, *numbers = sys.argv[2:]
        *work, process, count, port = map(int, numbers)
        with together(
            *((f"127.0.0.1:{port}", process, count) if count > 1 else (None, None, None))
        ):
            worker(world, *work)
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--parts", default="costs,devices,seeds,sizes")
    parser.add_argument("--world", default="two-rooms")
    parser.add_argument(
        "--updates", type=int, default=20, help="in a measurement; of each seed ten times as many"
    )
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument(
        "--time",
        choices=["processor", "seconds", "median"],
        default="processor",
        help="of the ratios",
    )
    args = parser.parse_args()
    parts = {
        "costs": lambda: costs(args.world, args.repeats),
        "devices": lambda: devices(args.world, args.updates, args.repeats, args.time),
        "seeds": lambda: seeds(args.world, 10 * args.updates),
        "sizes": sizes,
    }
    for name in args.parts.split(","):
        result = json.dumps(parts[name](), indent=1)
        print(result)
        if args.out is not None:
            args.out.mkdir(parents=True, exist_ok=True)
            (args.out / f"{name}.json").write_text(result + "\n")


if __name__ == "__main__":
    main()
