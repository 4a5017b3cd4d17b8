"""Observed choices of groups that plan by compiled programs, without goals of their own."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.mixed.cells import MIN_CHOICES, AbstractCells, AvailableChoices
from irlax.estimators.mixed.choosers import Choosers
from irlax.estimators.mixed.hidden import HiddenLoss
from irlax.estimators.tabular.choices import group_choices
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.fit_by_minimising import make_problem
from irlax.estimators.tabular.objectives import AbstractObjective, Likelihood
from irlax.estimators.tabular.observed_likelihood import ObservedLikelihood, likelihood_of
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation, Flattening, Problem
from irlax.rewards import AbstractReward
from irlax.typing import Array, Bool, Float, Int

#: Above this many parameters a Newton step costs more than the gradients of all steps of L-BFGS.
MANY_PARAMETERS = 60


class HiddenLikelihood(AbstractObjective):
    """The loss as a function of (θ of all groups, parameters of the hidden model)."""

    choosers: Choosers
    loss: HiddenLoss

    def __call__(self, parameters: Any, warm_start: Any = None) -> tuple[Float[Array, ""], Any]:
        theta, rest = parameters
        choices, warm_start = self.choosers.log_policies(theta, warm_start)
        return self.loss(choices, theta, rest), warm_start

    def initial_warm_start(self) -> Any:
        return self.choosers.initial_warm_starts()

    @property
    def num_values(self) -> int:
        return max(self.choosers.num_values, self.loss.hidden.num_values)


class ObservedCells(AbstractCells):
    """The choosers, the weighted fits of single groups, and the cell of each row of the demonstrations."""

    choosers: Choosers
    singles: tuple[AbstractProblem, ...]
    first: tuple[Float[np.ndarray, " K"], ...]
    cell: Int[np.ndarray, " n"]

    @classmethod
    def of(
        cls, rewards: list[tuple[AbstractReward, ...]], experts: tuple[Expert, ...], *, num_groups: int
    ) -> "ObservedCells":
        """The cells of all experts' choices; `rewards` has one class for all groups, or one for each, by MDP."""
        observed = [
            [ObservedLikelihood.of(expert, reward) for expert, reward in zip(experts, group, strict=True)]
            for group in rewards
        ]
        likelihoods = tuple(tuple(part.objective for part in group) for group in observed)
        problems = [
            make_problem(group, of_mdps, experts, 0.0) for group, of_mdps in zip(likelihoods, rewards, strict=True)
        ]
        offsets = np.cumsum([0, *(part.objective.weights.size for part in observed[0])])
        cell = [part.cells() + offset for part, offset in zip(observed[0], offsets[:-1], strict=True)]
        sizes = [group[0].num_parameters for group in rewards]
        return cls(
            choosers=Choosers(
                likelihoods,
                tuple(Flattening.of(group[0].parameters) for group in rewards),
                tuple(sizes * num_groups if len(sizes) == 1 else sizes),
            ),
            singles=tuple(problem for problem, _ in problems),
            first=tuple(first for _, first in problems),
            cell=np.concatenate(cell),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.choosers.sizes

    @property
    def num_cells(self) -> int:
        return self.choosers.num_cells

    def weighted(self, group: int, cells: Float[np.ndarray, " C"], l2: float) -> Problem:
        problem = self.single(group)
        assert isinstance(problem, Problem)
        grids = tuple(jnp.asarray(grid) for grid in self.choosers.by_mdp(cells))
        return eqx.tree_at(
            lambda problem: (*(part.weights for part in problem.objectives), problem.shares, problem.l2),
            problem,
            (*grids, jnp.ones(len(grids)), jnp.asarray(l2)),
        )

    def log_policies(self, at: Evaluation) -> Float[Array, "G C"]:
        scale = jnp.concatenate([jnp.asarray(self.single(g).scale) for g in range(self.num_groups)])
        (warm_starts,) = at.warm_starts
        return _log_policies(self.choosers, jnp.asarray(at.x)[: len(scale)] / scale, warm_starts)

    def problem(self, loss: HiddenLoss) -> Problem:
        number = sum(self.sizes)
        return Problem(
            objectives=(HiddenLikelihood(self.choosers, loss),),
            shares=jnp.ones(1),
            flattening=Flattening.of((np.zeros(number), loss.hidden.initial_parameters())),
            scale=jnp.asarray(self.scale(loss)),
            l2=jnp.zeros(()),
        )

    def scores(self, loss: HiddenLoss, at: Evaluation) -> Float[np.ndarray, "N P"]:
        problem = self.problem(loss)
        slopes = np.asarray(_scores(problem, jnp.asarray(at.x), at.warm_starts))
        return slopes * np.asarray(problem.scale)

    def available(self, counts: Float[np.ndarray, "G C"]) -> AvailableChoices:
        choosers = self.choosers
        parts = [self._available_in(counts, m) for m in range(len(choosers.likelihoods[0]))]
        likelihoods = tuple(
            tuple(_with_choices(part, grid) for part, (grid, _) in zip(group, parts, strict=True))
            for group in choosers.likelihoods
        )
        used = np.concatenate([used.reshape(choosers.num_groups, -1) for _, used in parts], axis=1)
        everywhere = eqx.tree_at(lambda choosers: choosers.likelihoods, choosers, likelihoods)
        first = everywhere.initial_warm_starts()
        return AvailableChoices(lambda theta: np.asarray(_log_policies(everywhere, jnp.asarray(theta), first)), used)

    def by_newton(self, num_parameters: int) -> bool:
        return num_parameters <= MANY_PARAMETERS

    def _available_in(self, counts: Float[np.ndarray, "G C"], m: int) -> tuple[Likelihood, Bool[np.ndarray, "G T M"]]:
        observed = self.choosers.likelihoods[0][m]
        mdp, num_groups = observed.mdp, self.num_groups
        owner = mdp.state_of_row
        visits = np.zeros((num_groups, observed.states.shape[0], mdp.num_states))
        states, time = owner[np.asarray(observed.states)], np.arange(visits.shape[1])[:, None]
        for g in range(num_groups):
            np.add.at(visits[g], (time, states), self.choosers.by_mdp(counts[g])[m])
        time, rows = np.nonzero((visits.sum(axis=0) > 0)[:, owner])
        index, column = np.nonzero(np.asarray(mdp.available)[rows])
        choices = group_choices(mdp, time[index], rows[index], column, np.ones(len(index)))
        used = visits[:, np.arange(visits.shape[1])[:, None], owner[choices.states]] >= MIN_CHOICES
        return likelihood_of(mdp, observed.folded, choices), used & (choices.weights > 0)


def _with_choices(likelihood: Likelihood, other: Likelihood) -> Likelihood:
    """A likelihood with the choices of another."""
    return Likelihood(likelihood.mdp, likelihood.folded, other.states, other.actions, other.weights)


@eqx.filter_jit
def _log_policies(choosers: Choosers, theta: Float[Array, " P"], warm_starts: Any) -> Float[Array, "G C"]:
    return choosers.log_policies(theta, warm_starts)[0]


@eqx.filter_jit
def _scores(problem: Problem, x: Float[Array, " P"], warm_starts: Any) -> Float[Array, "N P"]:
    (objective,) = problem.objectives
    assert isinstance(objective, HiddenLikelihood)

    def by_unit(x: Float[Array, " P"]) -> Float[Array, " N"]:
        theta, rest = problem.flattening.unflatten(x / problem.scale)
        choices, _ = objective.choosers.log_policies(theta, warm_starts[0])
        return objective.loss.hidden.log_likelihoods(choices, rest)

    # A few directions at a time, so that memory stays bounded.
    return jax.lax.map(lambda v: jax.jvp(by_unit, (x,), (v,))[1], jnp.eye(len(x)), batch_size=8).T
