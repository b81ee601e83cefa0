"""What to do with empowerment: greedy, planned, shaped, from the source, or at random (section
4.3)."""

from .behaviour import Behaviour, Choice, Random
from .episode import Episode, at_place, run_episode, run_episodes
from .greedy import Greedy, ModelFree, expected_value, learn_averages
from .informed import Informed, plan_informed
from .planning import LookAhead, Planned, plan, q_learning, value_iteration
from .shaping import arrival, empowerment_reward, potential_difference, shape
from .source import FromSource, exact_source, feedback_source, learned_source
from .value import Value, exact_value, learned_value

__all__ = [
    "Behaviour",
    "Choice",
    "Episode",
    "FromSource",
    "Greedy",
    "Informed",
    "LookAhead",
    "ModelFree",
    "Planned",
    "Random",
    "Value",
    "arrival",
    "at_place",
    "empowerment_reward",
    "exact_source",
    "exact_value",
    "expected_value",
    "feedback_source",
    "learn_averages",
    "learned_source",
    "learned_value",
    "plan",
    "plan_informed",
    "potential_difference",
    "q_learning",
    "run_episode",
    "run_episodes",
    "shape",
    "value_iteration",
]
