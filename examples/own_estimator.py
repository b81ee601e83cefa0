"""An estimator of one's own in the benchmark: a name, what it applies to, and `fit`.

    python examples/own_estimator.py

This one counts the different next observations of a state and raises them to the power K: right for
one step, too high for more.
"""

import numpy as np

import empowerment as emp


class CountedMoves:
    name, source = "counted-moves", "examples/own_estimator.py"

    def applies(self, task):
        return (
            task.kind == "settable"
            and task.world().continuous is None
            and task.world().deterministic
        )

    def fit(self, task, seed):
        world, states = task.world(), task.states()
        one_step = emp.exact(world, 1, states).nats
        known = {
            x.tobytes(): task.horizon * nats
            for x, nats in zip(task.observations(), one_step, strict=True)
        }
        return lambda observations: np.array([known[x.tobytes()] for x in observations])


if __name__ == "__main__":
    for row in emp.bench.run("paper", [CountedMoves()], out="bench", processes=1):
        print(f"{row['task']:16} R² {row['r2']:8.3f}, bias {row['bias']:.3f} nats")
