"""Observed choices of groups on the way to goals: a cell is an option (a choice in a state) and a goal."""

import dataclasses

import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.goals.goal_problem import GoalObjective, GoalProblem
from irlax.estimators.goals.reward_of_options import RewardOfOptions
from irlax.estimators.goals.several_mdps import SeveralMDPs
from irlax.estimators.goals.start import start_where_values_exist
from irlax.estimators.goals.trips import Trips
from irlax.estimators.mixed.cells import MIN_CHOICES, AbstractCells, AvailableChoices
from irlax.estimators.mixed.goal_likelihood import GoalGroups, GoalLikelihood
from irlax.estimators.mixed.hidden import HiddenLoss
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation, Flattening
from irlax.mdp import MDP
from irlax.planning.fixed_point import NoFixedPointError
from irlax.planning.goals import GoalPlanner
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.typing import Bool, Float, Int


class GoalCells(AbstractCells):
    """The choices of groups towards goals, with the problems of single groups."""

    groups: GoalGroups
    singles: tuple[AbstractProblem, ...]
    first: tuple[Float[np.ndarray, " K"], ...]
    cell: Int[np.ndarray, " n"]

    @classmethod
    def of(
        cls, rewards: list[tuple[AbstractReward, ...]], experts: tuple[Expert, ...], *, num_groups: int
    ) -> "GoalCells":
        """The cells of all experts' choices; `rewards` has one class for all groups, or one for each, by MDP."""
        planners = [GoalPlanner.of(expert.mdp) for expert in experts]
        observed = [
            Trips.of(planner, expert.mdp, _demos(expert)).distinct()
            for planner, expert in zip(planners, experts, strict=True)
        ]
        total = sum(expert.weight for expert in experts)
        objectives, problems = [], []
        for of_mdps in rewards:
            parts = zip(experts, of_mdps, planners, observed, strict=True)
            objective = SeveralMDPs(tuple(_objective(e.mdp, r, p, trips, total) for e, r, p, (trips, _) in parts))
            objectives.append(objective)
            problems.append(_single(objective, of_mdps, experts))
        offsets = np.cumsum([0, *objectives[0].sizes])
        # Every group keeps a solution of its own.
        shared = [objectives[0].weighted(_weights(objectives[0]), total) for _ in range(num_groups)]
        sizes = [group[0].num_parameters for group in rewards]
        of_groups = tuple(shared if len(rewards) == 1 else objectives)
        return cls(
            groups=GoalGroups(of_groups, tuple(sizes * num_groups if len(sizes) == 1 else sizes)),
            singles=tuple(problems),
            first=tuple(_first(problem, group[0]) for problem, group in zip(problems, rewards, strict=True)),
            cell=np.concatenate([cell + offset for (_, cell), offset in zip(observed, offsets[:-1], strict=True)]),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.groups.sizes

    @property
    def num_cells(self) -> int:
        return self.groups.num_cells

    def weighted(self, group: int, cells: Float[np.ndarray, " C"], l2: float) -> GoalProblem:
        problem, cells = self.single(group), np.asarray(cells)[: self.groups.num_observed]
        return GoalProblem(
            objective=self.groups.objectives[group].weighted(cells, 1.0),
            flattening=problem.flattening,
            scale=problem.scale,
            l2=np.asarray(l2),
            uses=cells,
        )

    def log_policies(self, at: Evaluation) -> Float[np.ndarray, "G C"]:
        scale = np.concatenate([np.asarray(self.single(g).scale) for g in range(self.num_groups)])
        return self.groups.log_policies(np.asarray(at.x)[: len(scale)] / scale)

    def problem(self, loss: HiddenLoss) -> GoalLikelihood:
        return GoalLikelihood(
            groups=self.groups,
            loss=loss,
            flattening=Flattening.of((np.zeros(sum(self.sizes)), loss.hidden.initial_parameters())),
            scale=self.scale(loss),
            l2=np.zeros(()),
        )

    def scores(self, loss: HiddenLoss, at: Evaluation) -> Float[np.ndarray, "N P"]:
        return self.problem(loss).unit_scores(np.asarray(at.x))

    def available(self, counts: Float[np.ndarray, "G C"]) -> AvailableChoices:
        objective = self.groups.objectives[0]
        by_mdp = np.split(counts[:, : self.groups.num_observed], np.cumsum(objective.sizes)[:-1], axis=1)
        parts = zip(objective.parts, by_mdp, strict=True)
        choices = [_available_in(part, of_mdp) for part, of_mdp in parts]

        def log_policies(theta: Float[np.ndarray, " P"]) -> Float[np.ndarray, "G O"]:
            rows = []
            for objective, of_group in zip(self.groups.objectives, self.split(theta), strict=True):
                try:
                    parts = zip(objective.parts, choices, strict=True)
                    rows.append(np.concatenate([part.log_policies_of(of_group, *where[:2]) for part, where in parts]))
                except NoFixedPointError:
                    rows.append(np.full(sum(len(option) for option, _, _ in choices), np.nan))
            return np.stack(rows)

        return AvailableChoices(log_policies, np.concatenate([used for _, _, used in choices], axis=1))

    def by_newton(self, num_parameters: int) -> bool:
        # L-BFGS runs compiled programs.
        return True


def _demos(expert: Expert) -> Demonstrations:
    assert expert.demos is not None
    return expert.demos


def _objective(mdp: MDP, reward: AbstractReward, planner: GoalPlanner, trips: Trips, total: float) -> GoalObjective:
    if not reward.is_linear:
        raise ValueError(
            f"On the way to goals hidden groups need rewards that are linear in their parameters, such as LinearReward "
            f"or TabularReward, but this is a {type(reward).__name__}."
        )
    options = planner.options
    sums = trips.likelihood(options.transitions, options.discount, discounted=False)._replace(total=total)
    return GoalObjective(planner, RewardOfOptions(mdp, reward, options), trips, sums)


def _weights(objective: SeveralMDPs) -> Float[np.ndarray, " C"]:
    return np.concatenate([part.trips.weight for part in objective.parts])


def _single(objective: SeveralMDPs, rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...]) -> GoalProblem:
    scales = [np.asarray(reward.scales(expert.mdp), float) for reward, expert in zip(rewards, experts, strict=True)]
    return GoalProblem(
        objective=objective,
        flattening=Flattening.of(rewards[0].parameters),
        scale=np.max(scales, axis=0),
        l2=np.zeros(()),
        uses=_weights(objective),
    )


def _first(problem: GoalProblem, reward: AbstractReward) -> Float[np.ndarray, " K"]:
    """The parameters of the reward, or others at which values exist in all MDPs."""
    x = flat(reward.parameters) * np.asarray(problem.scale)
    assert isinstance(problem.objective, SeveralMDPs)
    for part in problem.objective.parts:
        in_one = dataclasses.replace(problem, objective=part)
        found = start_where_values_exist(in_one, x, reward.parameter_names())
        if np.isfinite(problem.evaluate(found).loss):
            return found
    raise ValueError(
        "discount = 1: no parameters were found at which values exist in all MDPs. Give rewards such parameters (every "
        "step costs more than the entropy of its choice), or discount."
    )


def _available_in(
    objective: GoalObjective, counts: Float[np.ndarray, "G C"]
) -> tuple[Int[np.ndarray, " O"], Int[np.ndarray, " O"], Bool[np.ndarray, "G O"]]:
    """All options of the states in which something was chosen, with the goal, and which groups choose there."""
    trips, options = objective.trips, objective.options
    num_goals = len(trips.goals)
    places, place = np.unique(trips.state * num_goals + trips.goal, return_inverse=True)
    visits = np.stack([np.bincount(place.ravel(), weights=row, minlength=len(places)) for row in counts])
    state, goal = np.divmod(places, num_goals)
    first = options.first
    number = first[state + 1] - first[state]
    within = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
    option = np.repeat(first[state], number) + within
    return option, np.repeat(goal, number), np.repeat(visits >= MIN_CHOICES, number, axis=1)
