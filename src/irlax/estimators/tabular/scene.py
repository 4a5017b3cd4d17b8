"""The data of a report on one MDP: names, a grid, and tables over states and actions."""

from typing import Any

import equinox as eqx
import numpy as np

from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.mdp import MDP
from irlax.mdp.drawing import SHOWN_STATES
from irlax.mdp.grid import Grid, action_names, state_names
from irlax.planning import Plan, visits
from irlax.planning.drawing import policy_on_grid
from irlax.report.plots import clip_for_plot
from irlax.rewards import AbstractReward
from irlax.rewards.drawing import over_states
from irlax.typing import Float, Int


class Scene(eqx.Module):
    """One MDP of a fit, with all data that are drawn."""

    mdp: MDP
    grid: Grid | None
    state_names: list[str]
    action_names: list[str]
    reward: Float[np.ndarray, "S A"]
    #: The value at t = 0.
    value: Float[np.ndarray, " S"]
    first_policy: Float[np.ndarray, "S A"]
    #: Discounted visits of the model and of the expert; shares of their sums unless `whole`.
    model: Float[np.ndarray, "S A"]
    expert: Float[np.ndarray, "S A"]
    #: Whether the expert's episodes are whole, so that visits can be compared without normalisation.
    whole: bool

    @classmethod
    def of(cls, fit: TabularFit, i: int) -> "Scene":
        """The i-th MDP of a fit."""
        policy = None if fit.mixture is None else fit.mixture.policy
        return cls.between(fit.experts[i], fit.plans[i], fit.rewards[i], policy)

    @classmethod
    def between(
        cls,
        expert: Expert,
        plan: Plan,
        reward: AbstractReward,
        given_policy: Float[np.ndarray, "*T S A"] | None = None,
    ) -> "Scene":
        """A demonstrator and a model of it: the plan of a reward, or a given policy."""
        mdp = expert.mdp
        mdp.require_one_row("A report")
        model = np.asarray(visits(mdp, plan if given_policy is None else given_policy))
        observed, whole = _observed(expert)
        return cls(
            mdp=mdp,
            grid=Grid.of(mdp),
            state_names=state_names(mdp),
            action_names=action_names(mdp),
            reward=clip_for_plot(np.where(mdp.available, reward.table(mdp), np.nan)),
            value=clip_for_plot(np.asarray(plan.first_value)),
            first_policy=np.where(mdp.available, _first_policy(plan, given_policy), np.nan),
            model=model if whole else model / model.sum(),
            expert=observed if whole else observed / observed.sum(),
            whole=whole,
        )

    @property
    def mean_policy(self) -> Float[np.ndarray, "S A"]:
        """The policy of the model averaged over time by visits; NaN in states without visits."""
        mass = self.model.sum(axis=1, keepdims=True)
        mean = np.divide(self.model, mass, out=np.full(self.model.shape, np.nan), where=mass > 1e-12 * mass.sum())
        return np.where(self.mdp.available, mean, np.nan)

    @property
    def shown(self) -> Int[np.ndarray, " n"]:
        """The states to show in a list: all, or those that are visited most, in their order."""
        visited = (self.model + self.expert).sum(axis=1)
        return np.sort(np.argsort(-visited, kind="stable")[:SHOWN_STATES])

    @property
    def over_states(self) -> bool:
        """Whether the reward depends on the state only."""
        return over_states(self.reward)

    def draw_policy(self, figure: Any, ax: Any, policy: Float[np.ndarray, "S A"], *, title: str) -> None:
        """Draw a policy on the grid, over the visits of the model."""
        shade = self.model.sum(axis=1)
        policy_on_grid(figure, ax, self.mdp, policy, title=title, shade=shade, bar="discounted visits")

    def names(self, states: Int[np.ndarray, " n"]) -> list[str]:
        """The names of some states."""
        return [self.state_names[s] for s in states]


def _observed(expert: Expert) -> tuple[Float[np.ndarray, "S A"], bool]:
    """The expert's discounted visits, and whether they are those of whole episodes."""
    if expert.is_whole():
        return expert.visits(warn=False)[0].T, True
    if expert.statistics is not None:
        return expert.statistics.visits, False
    assert expert.demos is not None
    demos, shape = expert.demos, (expert.mdp.num_states, expert.mdp.num_actions)
    weight = demos.choice_weights * float(expert.mdp.discount) ** demos.times
    places = np.ravel_multi_index((demos.tabular_states, demos.actions), shape)
    return np.bincount(places, weights=weight, minlength=shape[0] * shape[1]).reshape(shape), False


def _first_policy(plan: Plan, given: Float[np.ndarray, "*T S A"] | None) -> Float[np.ndarray, "S A"]:
    """The policy at t = 0, without computing that of all times."""
    if given is not None:
        return given if plan.mdp.horizon is None else given[0]
    return np.asarray(plan.policy_at(0))
