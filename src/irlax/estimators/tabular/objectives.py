"""What the tabular estimators minimise: per episode, as a function of the reward's parameters alone.

Three objectives that are often confused (they agree in expectation, and in deterministic episodic problems):

* `FeatureMatching`, the dual g(θ) = E V₀ − E_D[Σγᵗ r_θ]: convex for linear rewards. Primer, 3.1.
* `Likelihood` with weights γᵗ: minus the Primer's discounted log likelihood. Primer, 3.2.
* `Likelihood` with weights 1: minus the log likelihood that statisticians report.

and `PathMatching`, the dual of the Maximum Entropy (non-causal) model. Primer, 3.3.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp

from irlax.mdp import MDP
from irlax.planning.backup import AbstractBackup, PathBackup, SoftBackup
from irlax.planning.fixed_point import fixed_point
from irlax.planning.occupancy import visits_of
from irlax.planning.path import believed_transitions, believed_visits
from irlax.planning.plan import Plan, plan_with
from irlax.planning.soft import TOLERANCE
from irlax.precision import StaysOnDevice
from irlax.rewards.base import AbstractFolded, AbstractUnfolded
from irlax.typing import Array, Float, Int


class AbstractObjective(StaysOnDevice):
    """Parameters ↦ loss of an episode."""

    @abc.abstractmethod
    def __call__(self, parameters: Any) -> Float[Array, ""]:
        """The loss; its gradient is what the demonstrator lacks or has too much of."""


class FeatureMatching(AbstractObjective):
    r"""The dual of maximum causal entropy under matched features: $g(\theta) = \mathbb{E}V_0 - \theta^\top f_D$."""

    mdp: MDP
    folded: AbstractFolded
    visits: Float[Array, "A S"]

    def __call__(self, parameters: Any) -> Float[Array, ""]:
        reward = self.folded(parameters)
        return start_value(self.mdp, reward) - (self.visits * reward).sum()


class Likelihood(AbstractObjective):
    r"""$-\sum w_t \log\pi_{\theta,t}(a_t|s_t)$ over observed choices, grouped by time."""

    mdp: MDP
    folded: AbstractFolded
    states: Int[Array, "T M"]
    actions: Int[Array, "T M"]
    weights: Float[Array, "T M"]

    def __call__(self, parameters: Any) -> Float[Array, ""]:
        return -(self.weights * self.log_policy(parameters)).sum()

    def log_policy(self, parameters: Any) -> Float[Array, "T M"]:
        """log π of each observed choice."""
        backup = SoftBackup(self.mdp, self.folded(parameters))
        if self.mdp.horizon is None:
            value = fixed_point(backup, TOLERANCE, "auto").value
            return backup.log_policy(backup.q(value))[self.actions, self.states]

        # Kept for the backward pass are the values, T·S; the policies, T·S·A, are computed again.
        @jax.checkpoint
        def step(next_value, observed):
            q = backup.q(next_value)
            states, actions = observed
            return backup.value(q), backup.log_policy(q)[actions, states]

        after_the_end = jnp.zeros_like(backup.reward[0])
        return jax.lax.scan(step, after_the_end, (self.states, self.actions), reverse=True)[1]


class PathMatching(AbstractObjective):
    r"""Minus the log likelihood of whole paths under the Maximum Entropy model, given their starts.

    At γ = 1 it is exactly that, $\mathbb{E}V_0 - \mathbb{E}_D[\sum r]$ with the path model's $V$; at γ < 1
    the same expression, discounted.
    """

    mdp: MDP
    unfolded: AbstractUnfolded
    visits: Float[Array, "A S"]
    #: Observed transitions, aligned with the dynamics; None when the reward does not depend on s'.
    transitions: Float[Array, "..."] | None

    def __call__(self, parameters: Any) -> Float[Array, ""]:
        reward, by_transition = self.unfolded(parameters)
        earned = (self.visits * reward).sum()
        if by_transition is None:
            return path_start_value(self.mdp, reward) - earned
        assert self.transitions is not None
        earned += (self.transitions * by_transition).sum()
        return path_transition_value(self.mdp, reward, by_transition) - earned


def _planned(backup: AbstractBackup) -> Plan:
    return plan_with(backup, TOLERANCE, "auto")


def _at_the_start(plan: Plan) -> Float[Array, ""]:
    return jnp.asarray(plan.mdp.initial) @ plan.first_value


@jax.custom_jvp
def start_value(mdp: MDP, reward: Float[Array, "A S"]) -> Float[Array, ""]:
    r"""$\mathbb{E}_{s_0} V_0(s_0)$ of the soft plan. Its derivative in the reward is the occupancy.

    That derivative is built in: one forward pass, nothing stored but the values. (The MDP is held fixed.)
    """
    return _at_the_start(_planned(SoftBackup(mdp, reward)))


@start_value.defjvp
def _(primals, tangents):
    (mdp, reward), (_, reward_dot) = primals, tangents
    plan = _planned(SoftBackup(mdp, reward))
    return _at_the_start(plan), (visits_of(mdp, plan) * reward_dot).sum()


@jax.custom_jvp
def path_start_value(mdp: MDP, reward: Float[Array, "A S"]) -> Float[Array, ""]:
    """As `start_value`, under the path model; its derivative is the believed occupancy."""
    return _at_the_start(_planned(PathBackup(mdp, reward)))


@path_start_value.defjvp
def _(primals, tangents):
    (mdp, reward), (_, reward_dot) = primals, tangents
    plan = _planned(PathBackup(mdp, reward))
    return _at_the_start(plan), (believed_visits(mdp, plan) * reward_dot).sum()


@jax.custom_jvp
def path_transition_value(
    mdp: MDP, reward: Float[Array, "A S"], by_transition: Float[Array, "..."]
) -> Float[Array, ""]:
    """As `path_start_value`, with a reward that depends on s' as well."""
    return _at_the_start(_planned(PathBackup(mdp, reward, by_transition)))


@path_transition_value.defjvp
def _(primals, tangents):
    (mdp, reward, by_transition), (_, reward_dot, by_transition_dot) = primals, tangents
    plan = _planned(PathBackup(mdp, reward, by_transition))
    change = (believed_visits(mdp, plan) * reward_dot).sum()
    return _at_the_start(plan), change + (believed_transitions(mdp, plan) * by_transition_dot).sum()
