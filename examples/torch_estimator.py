"""A trained estimator in PyTorch, without JAX: learned empowerment from the file of a run.

    python examples/torch_estimator.py runs/two-rooms

Without a directory it trains for a moment first. What PyTorch says is compared with what the
package says. The layout of the file is in docs/reliability.md.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn import functional as F


class TorchEstimator(torch.nn.Module):
    """ψ/β of observations: convolutions or dense layers, then a network of two hidden layers."""

    def __init__(self, run: str | Path):
        super().__init__()
        newest = sorted((Path(run) / "checkpoints").glob("*.safetensors"))[-1]
        self.beta = json.loads((Path(run) / "run.json").read_text())["config"]["beta"]
        prefix = "learner/average/"
        for name, tensor in load_file(newest).items():
            if name.startswith(prefix):
                self.register_buffer(name.removeprefix(prefix).replace("/", "_"), tensor)

    def parts(self, name: str) -> list[torch.Tensor]:
        """Tensors that are numbered: name_0, name_1, ..."""
        return [x for n, x in sorted(self.named_buffers()) if n.rsplit("_", 1)[0] == name]

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Nats, one for each observation (pixels n, rows, columns, colours; or vectors)."""
        x = observations.float() - self.representation_centre
        kernels = self.parts("representation_kernels")
        x = x @ self.representation_scale if kernels else x / self.representation_scale
        if kernels:
            rows, columns = (max(6, n + n % 2) - n for n in x.shape[1:3])
            x = F.pad(x.permute(0, 3, 1, 2), (0, columns, 0, rows))
            for kernel, bias, (size, stride) in zip(
                kernels, self.parts("representation_biases"), ((4, 1), (3, 2)), strict=True
            ):
                weight = kernel.reshape(size, size, -1, kernel.shape[1]).permute(3, 2, 0, 1)
                x = F.relu(F.conv2d(x, weight, bias, stride))
            x = x.flatten(1)
        dense = self.parts("representation_dense"), self.parts("representation_dense_biases")
        for weight, bias in zip(*dense, strict=True):
            x = F.relu(F.layer_norm(x @ weight + bias, bias.shape, eps=1e-5))
        psi = self.parts("psi_network_layers"), self.parts("psi_network_biases")
        *hidden, (last, last_bias) = zip(*psi, strict=True)
        for weight, bias in hidden:
            x = F.relu(F.layer_norm(x @ weight + bias, bias.shape, eps=1e-5))
        return (x @ last + last_bias)[:, 0] / self.beta


if __name__ == "__main__":
    import empowerment as emp

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("run", nargs="?", type=Path, help="directory of a run")
    options.add_argument("--quick", action="store_true", help="train for two updates only")
    args = options.parse_args()
    run = args.run or Path("torch_run")
    if args.run is None:
        emp.train(emp.make("two-rooms"), 2, updates=2 if args.quick else 500, out=run)
    estimator = emp.load(run)
    world = estimator.world
    seen = np.asarray(world.observe(world.states()))
    ours = estimator.empowerment(seen)
    theirs = TorchEstimator(run)(torch.from_numpy(seen)).numpy()
    print(f"largest difference of {len(seen)} states: {np.abs(ours - theirs).max():.1e} nats")
    assert np.allclose(ours, theirs, atol=1e-5)
