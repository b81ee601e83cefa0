"""Where a run's numbers go. `metrics.jsonl` in the run directory is always written; trackers are
for the rest."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Tracker(Protocol):
    """Three methods, called by `emp.train` in this order. One's own is a few lines; Weights &
    Biases:

        class WandB:
            def start(self, facts): self.run = wandb.init(project="empowerment", config=facts)
            def log(self, step, metrics): self.run.log(metrics, step=step)
            def finish(self): self.run.finish()

    and MLflow:

        class MLflow:
            def start(self, facts): mlflow.start_run(); mlflow.log_params(facts["config"])
            def log(self, step, metrics): mlflow.log_metrics(metrics, step=step)
            def finish(self): mlflow.end_run()

    Then `emp.train(world, trackers=[WandB()])`.
    """

    def start(self, facts: dict[str, Any]) -> None:
        """Once, before the first update: world, configuration, seed and versions, as JSON."""
        ...

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """After each chunk of updates: how many were made, and the chunk's means."""
        ...

    def finish(self) -> None:
        """Once, also when training is interrupted."""
        ...


class TensorBoard:
    """Curves for `tensorboard --logdir DIRECTORY`."""

    def __init__(self, directory: str | Path):
        try:
            from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports] - an extra
        except ImportError:
            raise ValueError(
                "TensorBoard needs tensorboardX; install it with: "
                'pip install ".[tensorboard]" in the clone'
            ) from None
        self._make, self._directory = SummaryWriter, Path(directory)

    def start(self, facts: dict[str, Any]) -> None:
        self._writer = self._make(str(self._directory), write_to_disk=True)
        for name, value in facts["config"].items():
            self._writer.add_text(f"config/{name}", str(value))

    def log(self, step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def finish(self) -> None:
        self._writer.close()
