"""Information learned from samples of general channels against what is known of them.

    python benchmarks/channels.py --out results/model-based [--seeds 3]

Aim: within 2 % of the truth, and never above it by more than three standard errors.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import poisson

import empowerment as emp
from empowerment.gaussian import water_filling

ANTENNAS = np.array([[1.5, 0.6], [-0.3, 0.7]], np.float32)
RATES = np.linspace(0.5, 10.5, 24)


def entropy(p: float) -> float:
    return float(-p * np.log(p) - (1 - p) * np.log(1 - p))


def flipped(x, rng):
    return x ^ (rng.random(x.shape) < 0.1)


def erased(x, key):
    return jnp.where(jax.random.bernoulli(key, 0.3, x.shape), 2, x)


def noisy(x, key):
    return x + jax.random.normal(key, x.shape)


def antennas(x, key):
    return noisy(x @ ANTENNAS.T, key)


def spikes(x, rng):
    return rng.poisson(RATES[x])


def spiking_capacity(levels: int = 400) -> float:
    """Capacity of a spiking neuron, on a fine grid of rates."""
    matrix = poisson.pmf(np.arange(60), np.linspace(RATES[0], RATES[-1], levels)[:, None])
    return emp.capacity(matrix / matrix.sum(1, keepdims=True)).nats


def water() -> float:
    return water_filling(np.linalg.svd(ANTENNAS, compute_uv=False).astype(float) ** 2, 4.0)[0]


CASES = {
    "binary symmetric, flips 0.1": (flipped, 2, lambda: np.log(2) - entropy(0.1)),
    "erasure 0.3": (erased, 2, lambda: 0.7 * np.log(2)),
    "Gaussian noise, power 4": (noisy, emp.Gaussian(1, power=4.0), lambda: 0.5 * np.log(5.0)),
    "two antennas by two, power 4": (antennas, emp.Gaussian(2, power=4.0), water),
    "spike counts, rates 0.5 to 10.5": (spikes, 24, spiking_capacity),
}
"""Channel, source and truth in nats."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, (channel, source, value) in CASES.items():
        truth = float(value())
        for seed in range(args.seeds):
            begin = time.process_time()
            found = emp.maximise_information(channel, source, seed=seed)
            row = {
                "channel": name,
                "seed": seed,
                "truth": truth,
                "nats": found.nats,
                "error": found.error,
                "share": found.nats / truth,
                "errors_above": (found.nats - truth) / found.error,
                "power": found.power,
                "processor_seconds": time.process_time() - begin,
            }
            rows.append(row)
            print(row, flush=True)
            (args.out / "channels.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
