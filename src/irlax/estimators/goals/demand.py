"""A table of trips: how many go from each start to each goal."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.goals.choice_model import ChoiceModel, Solved
from irlax.mdp import MDP
from irlax.planning.fixed_point import NoFixedPointError
from irlax.planning.goals.options import Options
from irlax.typing import Float, Int


class Demand(NamedTuple):
    """Amounts of trips by start and goal."""

    starts: Int[np.ndarray, " P"]
    goals: Int[np.ndarray, " P"]
    amounts: Float[np.ndarray, " P"]

    @classmethod
    def of(cls, mdp: MDP, starts: Any, goals: Any, amounts: Any = None) -> "Demand":
        """Validated pairs, in the order given; a number stands for an array of it."""
        starts, goals = (np.atleast_1d(checks.as_integers(n, v)) for n, v in (("starts", starts), ("goals", goals)))
        amounts = np.atleast_1d(checks.as_floats("amounts", 1.0 if amounts is None else amounts))
        try:
            starts, goals, amounts = np.broadcast_arrays(starts, goals, amounts)
        except ValueError:
            raise ValueError(
                f"`starts`, `goals` and `amounts` must have one entry for each pair, but have shapes {starts.shape}, "
                f"{goals.shape} and {amounts.shape}."
            ) from None
        checks.has_shape("starts", starts, (None,), "(P,), a state for each pair")
        for name, array in (("starts", starts), ("goals", goals)):
            checks.in_range(name, array, mdp.num_states, "states")
        checks.finite("amounts", amounts)
        if (amounts < 0).any():
            raise ValueError(f"`amounts` must not be negative, but are for pairs {checks.places(amounts < 0)}.")
        return cls(starts.astype(np.int64), goals.astype(np.int64), np.array(amounts))

    @classmethod
    def of_demos(cls, mdp: MDP, demos: Demonstrations) -> "Demand":
        """The starts and goals of demonstrations, by their weights."""
        if demos.goals is None:
            raise ValueError("The demonstrations must have goals, but have none (`Demonstrations.goals`).")
        demos.check(mdp)
        return cls(demos.start_states, demos.goals, demos.weights)

    def added_up(self) -> "Demand":
        """Each pair once; without pairs whose start is their goal, which have no choices."""
        moving = self.starts != self.goals
        both = np.stack([self.goals[moving], self.starts[moving]], axis=1)
        pairs, index = np.unique(both, axis=0, return_inverse=True)
        amounts = np.bincount(index.ravel(), weights=self.amounts[moving], minlength=len(pairs))
        return Demand(pairs[:, 1], pairs[:, 0], amounts)

    def distinct(self) -> "Demand":
        """Each pair once, in the order in which they first appear."""
        _, first = np.unique(np.stack([self.starts, self.goals], axis=1), axis=0, return_index=True)
        first = np.sort(first)
        return Demand(self.starts[first], self.goals[first], self.amounts[first])

    def solutions(self, model: ChoiceModel) -> Iterator[Solved]:
        """The solutions of a model for these pairs; a ValueError for goals that cannot be reached."""
        if not len(self.starts):
            return
        try:
            for solved in model.solutions(self.starts, self.goals):
                values = solved.block.value_at(self.starts[solved.rows], solved.columns)
                if not np.isfinite(values).all():
                    raise NoFixedPointError("A goal cannot be reached.")
                yield solved
        except NoFixedPointError:
            self._refuse_unreachable(model.options)
            raise

    def _refuse_unreachable(self, options: Options) -> None:
        edges = options.graph
        for goal in np.unique(self.goals):
            here = self.starts[self.goals == goal]
            lost = here[~options.reaching(int(goal), edges)[here]]
            if len(lost):
                raise ValueError(
                    f"Goal {goal} cannot be reached from states {checks.some(np.unique(lost).tolist())}. Leave these "
                    f"pairs out."
                )
