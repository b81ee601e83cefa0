"""How a neuron should fire: the rates that carry most information through spike counts, learned
from samples only.

python examples/spiking_neuron.py
"""

# %% A neuron that fires at rate r is read by counting spikes. Some spikes come by themselves.
import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import poisson

import empowerment as emp

options = argparse.ArgumentParser(description=__doc__)
options.add_argument(
    "--highest", type=float, default=10.0, help="highest mean number of spikes in a window"
)
options.add_argument(
    "--out", type=Path, default=Path("spiking_neuron.png"), help="picture to write"
)
options.add_argument("--quick", action="store_true", help="few updates")
args = options.parse_args()
rates = np.linspace(0.5, 0.5 + args.highest, 24)


def count(level, rng):
    """Any function that draws outputs for inputs is a channel; its density is never asked for."""
    return rng.poisson(rates[level])


# %% Learn which rates to use, and how to read them.
found = emp.maximise_information(count, source=24, updates=200 if args.quick else 1500)
print(f"learned: {found.nats:.3f} nats ({found.bits:.3f} bits), standard error {found.error:.3f}")

# %% For this channel the truth is within reach: the capacity of a fine discretisation, with a proof
# of its error.
fine = np.linspace(rates[0], rates[-1], 400)
matrix = poisson.pmf(np.arange(80), fine[:, None])
truth = emp.capacity(matrix / matrix.sum(axis=1, keepdims=True))
print(f"capacity: {truth.nats:.3f} nats; learned is {found.nats / truth.nats:.1%} of it")

# %% The best code is all or nothing, with little in between; the decoder reads a count as a rate.
counts = np.arange(25)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.bar(rates, found.source.probabilities, width=0.35, label="learned source")
left.set(xlabel="mean number of spikes", ylabel="probability")
left.legend()
right.plot(counts, rates[found.decoder.mode(counts)], "o-")
right.set(xlabel="spikes counted", ylabel="likeliest rate")
figure.savefig(args.out, dpi=120)
print(f"wrote {args.out}")
