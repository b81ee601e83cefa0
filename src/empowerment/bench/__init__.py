"""The benchmark: tasks whose empowerment is certified, scores, and estimators to compare."""

from .certificates import Truth
from .estimators import Estimator, Fitted
from .runner import run
from .scoring import Scores, score
from .tasks import Task, tasks

__all__ = ["Estimator", "Fitted", "Scores", "Task", "Truth", "run", "score", "tasks"]
