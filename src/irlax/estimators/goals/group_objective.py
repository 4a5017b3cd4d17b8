r"""The likelihood of a recursive logit whose trips do not share a factorisation: scales by state, attributes by pair.

Trips to one goal (with attributes by pair: from one start to one goal) are a group with a solution of its own. Per
choice j in s, with x the features of the scales and the features f of `choice_model` (scales as features),

$$\partial\log\pi_j = \frac{f_j + \gamma\,\partial V' - \partial V}{\mu_s}, \quad
  \partial^2\log\pi_j = \frac{\gamma\,\partial^2 V' - \partial^2 V}{\mu_s}
  - \partial\log\pi_j\,x_s^\top - x_s\,\partial\log\pi_j^\top - \log\pi_j\,x_s x_s^\top,$$

$$\partial^2 V = (I - \gamma P_\pi)^{-1}\bigl[\mathrm{Cov}_\pi(f + \gamma\,\partial V')/\mu
  + H(\pi)\,\mu\,x x^\top\bigr].$$

So a gradient takes one transposed solve for each group, and the exact Hessian one solve for each parameter.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.goals.choice_model import ChoiceModel, Solved
from irlax.estimators.goals.fitted_model import FittedModel
from irlax.estimators.goals.objective import AbstractGoalObjective
from irlax.mdp import MDP
from irlax.planning.fixed_point import NoFixedPointError
from irlax.planning.goals import GoalBlock, Needed
from irlax.planning.goals.options import Options
from irlax.planning.goals.planner import BLOCK_SIZE
from irlax.planning.goals.separate import SeparateBlock
from irlax.typing import Float, Int

#: Solutions of the last parameters are kept if they hold at most this many numbers (160 MB).
KEPT = 20_000_000


class GroupedTrips(NamedTuple):
    """Observed choices, each with its trip."""

    start: Int[np.ndarray, " N"]
    goal: Int[np.ndarray, " N"]
    trip: Int[np.ndarray, " n"]
    state: Int[np.ndarray, " n"]
    option: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    total: float

    @classmethod
    def of(cls, options: Options, mdp: MDP, demos: Demonstrations) -> "GroupedTrips":
        """Demonstrations that were checked, in an MDP."""
        assert demos.goals is not None
        option = options.of_cells(mdp, demos.tabular_states, np.asarray(demos.actions))
        if (option < 0).any():
            row = int(np.argmax(option < 0))
            raise ValueError(
                f"In the demonstrations row {row} ({demos.where(row)}) is a choice in state "
                f"{demos.tabular_states[row]}, which no action leaves: the goal could not be reached any more."
            )
        weight = demos.choice_weights
        return cls(
            demos.start_states,
            demos.goals,
            demos.episode,
            demos.tabular_states,
            option,
            weight,
            float(demos.weights.sum()),
        )


class Observed(NamedTuple):
    """The choices of one group, with what its likelihood needs."""

    solved: Solved
    rows: Int[np.ndarray, " n"]
    log_policy: Float[np.ndarray, " n"]
    #: Coefficients of rewards and of values: choices count by weight/μ.
    uses: Float[np.ndarray, " J"]
    values: Float[np.ndarray, "S 1"]


class GroupObjective(AbstractGoalObjective):
    """The loss of a trip as a function of β = (θ, η, ω), with derivatives."""

    def __init__(self, model: FittedModel, trips: GroupedTrips) -> None:
        self.model, self.trips = model, trips
        ahead = model.options.transitions[trips.option].tocoo()
        self._needed = Needed(
            np.concatenate([trips.state, ahead.col]), np.concatenate([trips.trip, trips.trip[ahead.row]])
        )
        group = model.at_estimates().groups(trips.start, trips.goal)[0]
        #: The choices of each trip's group, by the first trip of the group.
        self._order = np.argsort(group[trips.trip], kind="stable")
        self._bounds = np.searchsorted(group[trips.trip][self._order], np.arange(group.max(initial=-1) + 2))
        self._group = group
        self._kept: tuple[bytes, list[Solved]] | None = None
        self._guesses: dict[int, np.ndarray] = {}

    @property
    def options(self) -> Options:
        return self.model.options

    @property
    def is_linear(self) -> bool:
        return True

    @property
    def size(self) -> float:
        return self.trips.total

    def _solutions(self, beta: Float[np.ndarray, " K"], choices: ChoiceModel) -> Iterator[Solved]:
        """The solution of each group; those of the last β are kept if they are small enough."""
        if self._kept is not None and self._kept[0] == beta.tobytes():
            yield from self._kept[1]
            return
        self._kept = None
        small = len(choices.options.state) * (len(self._bounds) - 1) * (10 + len(beta)) <= KEPT
        kept = []
        for solved in choices.solutions(self.trips.start, self.trips.goal, self._needed, self._guesses):
            if isinstance(solved.block, SeparateBlock) and choices.options.num_states * len(self._bounds) <= BLOCK_SIZE:
                self._guesses[int(self._group[solved.rows[0]])] = solved.block.value[:, 0]
            if small:
                kept.append(solved)
            yield solved
        if small:
            self._kept = (beta.tobytes(), kept)

    def _observed(self, beta: Float[np.ndarray, " K"]) -> Iterator[tuple[ChoiceModel, Observed]]:
        choices, trips = self.model.at(beta), self.trips
        options = choices.options
        for solved in self._solutions(beta, choices):
            g = int(self._group[solved.rows[0]])
            rows = self._order[self._bounds[g] : self._bounds[g + 1]]
            option, state = trips.option[rows], trips.state[rows]
            ahead = options.transitions[option].tocoo()
            value = solved.block.value[:, 0]
            following = np.bincount(ahead.row, weights=ahead.data * value[ahead.col], minlength=len(rows))
            logs = (solved.rewards[option] + options.discount * following - value[state]) / options.scale[state]
            weight = trips.weight[rows] / options.scale[state]
            values = np.bincount(
                ahead.col, options.discount * weight[ahead.row] * ahead.data, minlength=options.num_states
            )
            values -= np.bincount(state, weight, minlength=options.num_states)
            uses = np.bincount(option, weight, minlength=len(options.state))
            yield choices, Observed(solved, rows, logs, uses, values[:, None])

    def value_and_gradient(self, theta: Float[np.ndarray, " K"]) -> tuple[float, Float[np.ndarray, " K"]]:
        """The loss and its gradient; infinite where values do not exist."""
        total, gradient = 0.0, np.zeros(len(theta))
        try:
            for _, seen in self._observed(theta):
                assert seen.solved.features is not None
                total += float(self.trips.weight[seen.rows] @ seen.log_policy)
                gradient += seen.solved.features.T @ (seen.uses + seen.solved.block.flow(seen.values))
        except (NoFixedPointError, FloatingPointError):
            return np.inf, np.zeros(len(theta))
        return -total / self.size, -gradient / self.size

    def hessian(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, "K K"]:
        """Second derivatives of the loss, exact."""
        total = np.zeros((len(theta), len(theta)))
        for choices, seen in self._observed(theta):
            features = seen.solved.features
            assert features is not None
            curvature, slopes = seen.solved.block.curvature(seen.values, features)
            total += curvature
            if choices.scales is not None:
                total += self._of_scales(choices, seen, self._scores(choices, seen, slopes))
        return -total / self.size

    def _of_scales(
        self, choices: ChoiceModel, seen: Observed, scores: Float[np.ndarray, "n K"]
    ) -> Float[np.ndarray, "K K"]:
        """The second derivatives that only scales have."""
        assert choices.scales is not None
        options, weight = choices.options, self.trips.weight[seen.rows]
        x = np.zeros((options.num_states, scores.shape[1]))
        x[:, -choices.scales.features.shape[1] :] = choices.scales.features
        policy = seen.solved.block.policy()[:, 0]
        entropy = -(options.by_state @ (policy * np.log(np.where(policy > 0, policy, 1.0))))
        mass = seen.solved.block.mass(seen.values)[:, 0]
        of_values = x.T @ ((mass * entropy * options.scale)[:, None] * x)
        here = x[self.trips.state[seen.rows]]
        mixed = (weight[:, None] * scores).T @ here
        own = here.T @ ((weight * seen.log_policy)[:, None] * here)
        return of_values - mixed - mixed.T - own

    def hessian_product(self, theta: Float[np.ndarray, " K"], v: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Second derivatives of the loss, times a vector."""
        return self.hessian(theta) @ v

    def _scores(
        self, choices: ChoiceModel, seen: Observed, slopes: Float[np.ndarray, "K S 1"]
    ) -> Float[np.ndarray, "n K"]:
        features, options = seen.solved.features, choices.options
        assert features is not None
        option, state, slope = self.trips.option[seen.rows], self.trips.state[seen.rows], slopes[:, :, 0].T
        ahead = options.discount * (options.transitions[option] @ slope)
        return (features[option] + ahead - slope[state]) / options.scale[state][:, None]

    def scores(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, "n K"]:
        """∂ log π / ∂β of each observed choice."""
        result = np.empty((len(self.trips.option), len(theta)))
        for choices, seen in self._observed(theta):
            assert seen.solved.features is not None
            result[seen.rows] = self._scores(choices, seen, seen.solved.block.tangents(seen.solved.features))
        return result

    def log_likelihood(self, theta: Float[np.ndarray, " K"]) -> float:
        """Σ w log π over all observed choices."""
        return sum(float(self.trips.weight[seen.rows] @ seen.log_policy) for _, seen in self._observed(theta))

    def changes(
        self, theta: Float[np.ndarray, " K"], move: Float[np.ndarray, " K"]
    ) -> Iterator[tuple[GoalBlock, Float[np.ndarray, "J 1"]]]:
        for solved in self._solutions(theta, self.model.at(theta)):
            assert solved.features is not None
            yield solved.block, (solved.features @ move)[:, None]
