"""The objectives of the tabular estimators: a loss per episode, as a function of the reward's parameters.

Three objectives that are often confused (they agree in expectation, and in deterministic episodic problems):

* `FeatureMatching`, the dual g(θ) = E V₀ − E_D[Σγᵗ r_θ]: convex for linear rewards. Primer, 3.1.
* `Likelihood` with weights γᵗ: minus the Primer's discounted log likelihood. Primer, 3.2.
* `Likelihood` with weights 1: minus the log likelihood of statistics, every observed choice counted once.

and `PathMatching`, the dual of the Maximum Entropy (non-causal) model. Primer, 3.3.
"""

import abc
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from irlax.mdp import MDP
from irlax.planning.backup import AbstractBackup, PathBackup, SoftBackup
from irlax.planning.fixed_point import fixed_point
from irlax.planning.occupancy import row_visits_of, visits_of
from irlax.planning.path import believed_transitions, believed_visits
from irlax.planning.plan import Plan, plan_with, policies_backward
from irlax.planning.soft import TOLERANCE
from irlax.precision import StaysOnDevice
from irlax.rewards.reward import AbstractFolded, AbstractUnfolded
from irlax.typing import Array, Float, Int

#: Policies of at most this many numbers (8 MiB) are kept from the backward for the forward pass, which saves up to a
#: fifth of the time. Larger ones would take longer to write than to compute again.
MAX_KEPT_POLICIES = 2**20
#: The values of an infinite-horizon problem, from which the next evaluation nearby starts; None for a finite horizon.
WarmStart = Float[Array, " S"] | None


class AbstractObjective(StaysOnDevice):
    """A function from parameters to the loss of an episode."""

    @abc.abstractmethod
    def __call__(self, parameters: Any, warm_start: WarmStart = None) -> tuple[Float[Array, ""], WarmStart]:
        """The loss, and the warm start of the next evaluation.

        `warm_start` is where the search for the fixed point starts. It changes the time, not the result.
        """

    def initial_warm_start(self) -> WarmStart:
        """The warm start of the first evaluation."""
        return None

    @property
    def num_values(self) -> int:
        """About how many values one evaluation holds in memory."""
        return 1


class AbstractPlanned(AbstractObjective):
    """An objective that plans at every evaluation."""

    mdp: eqx.AbstractVar[MDP]

    def initial_warm_start(self) -> WarmStart:
        return None if self.mdp.horizon is not None else jnp.zeros(self.mdp.num_states, self.mdp.initial.dtype)

    @property
    def num_values(self) -> int:
        return self.mdp.num_states * (self.mdp.horizon or 1)


class FeatureMatching(AbstractPlanned):
    r"""The dual of maximum causal entropy under matched features: $g(\theta) = \mathbb{E}V_0 - \theta^\top f_D$."""

    mdp: MDP
    folded: AbstractFolded
    visits: Float[Array, "A R"]
    #: Keep √T·S values in memory instead of T·S, and compute the others twice.
    low_memory: bool = eqx.field(static=True, default=False)

    @property
    def num_values(self) -> int:
        values = super().num_values
        return values * self.mdp.num_actions if not self.low_memory and _keeps_policies(self.mdp) else values

    def __call__(self, parameters: Any, warm_start: WarmStart = None) -> tuple[Float[Array, ""], WarmStart]:
        reward = self.mdp.as_narrow(self.folded(parameters))
        if self.folded.by_state:
            reward = reward[:1]
        value, warm_start = start_value(self.low_memory, self.mdp, reward, warm_start)
        return value - (self.visits * reward).sum(), warm_start


class Likelihood(AbstractPlanned):
    r"""$-\sum w_t \log\pi_{\theta,t}(a_t|s_t)$ over observed choices, grouped by time."""

    mdp: MDP
    folded: AbstractFolded
    states: Int[Array, "T M"]
    actions: Int[Array, "T M"]
    weights: Float[Array, "T M"]

    def __call__(self, parameters: Any, warm_start: WarmStart = None) -> tuple[Float[Array, ""], WarmStart]:
        log_policy, warm_start = self.log_policy(parameters, warm_start)
        return -(self.weights * log_policy).sum(), warm_start

    def log_policy(self, parameters: Any, warm_start: WarmStart = None) -> tuple[Float[Array, "T M"], WarmStart]:
        """log π of each observed choice, and the warm start of the next evaluation."""
        backup = SoftBackup(self.mdp, self.mdp.as_narrow(self.folded(parameters)))
        if self.mdp.horizon is None:
            value = fixed_point(backup, TOLERANCE, "auto", start=warm_start).value
            log_policy = backup.log_policy(backup.q(value))[self.actions, self.states]
            return log_policy, jax.lax.stop_gradient(value)

        # Kept for the backward pass are the values, T·S; the policies, T·S·A, are computed again.
        @jax.checkpoint
        def step(next_value, observed):
            q = backup.q(next_value)
            states, actions = observed
            return backup.value(q), backup.log_policy(q)[actions, states]

        return jax.lax.scan(step, backup.final_value, (self.states, self.actions), reverse=True)[1], None


class PathMatching(AbstractPlanned):
    r"""Minus the log likelihood of whole paths under the Maximum Entropy model, given their starts.

    At γ = 1 it is exactly that, $\mathbb{E}V_0 - \mathbb{E}_D[\sum r]$ with the path model's $V$; at γ < 1
    the same expression, discounted.
    """

    mdp: MDP
    unfolded: AbstractUnfolded
    visits: Float[Array, "A R"]
    #: Observed transitions, aligned with the dynamics; None when the reward does not depend on s'.
    transitions: Float[Array, "..."] | None

    def __call__(self, parameters: Any, warm_start: WarmStart = None) -> tuple[Float[Array, ""], WarmStart]:
        reward, by_transition = jax.tree.map(self.mdp.as_narrow, self.unfolded(parameters))
        expert_return = (self.visits * reward).sum()
        if by_transition is None:
            value, warm_start = path_start_value(self.mdp, reward, warm_start)
            return value - expert_return, warm_start
        assert self.transitions is not None
        expert_return += (self.transitions * by_transition).sum()
        value, warm_start = path_transition_value(self.mdp, reward, by_transition, warm_start)
        return value - expert_return, warm_start


def _plan(backup: AbstractBackup, warm_start: WarmStart, *, low_memory: bool = False) -> Plan:
    return plan_with(backup, TOLERANCE, "auto", low_memory=low_memory, start=warm_start)


def _expected_first_value(plan: Plan) -> tuple[Float[Array, ""], WarmStart]:
    """E V₀ over the start distribution, and the warm start of the next evaluation."""
    expected = jnp.asarray(plan.mdp.initial) @ plan.first_value
    return expected, (plan.first_value if plan.mdp.horizon is None else None)


def _zero_tangent(warm_start: WarmStart) -> WarmStart:
    """The derivative of a warm start, which is treated as a constant."""
    return None if warm_start is None else jnp.zeros_like(warm_start)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def start_value(
    low_memory: bool, mdp: MDP, reward: Float[Array, "A1 R"], warm_start: WarmStart
) -> tuple[Float[Array, ""], WarmStart]:
    r"""$\mathbb{E}_{s_0} V_0(s_0)$ of the soft plan. Its derivative in the reward is the occupancy.

    The derivative is computed by one forward pass, for which only the values are stored. (The MDP is held fixed.) If
    `reward` has one row, the same for all actions, the derivative is the occupancy of states, summed over actions.
    """
    return _expected_first_value(_plan(SoftBackup(mdp, reward), warm_start, low_memory=low_memory))


@start_value.defjvp
def _(low_memory, primals, tangents):
    (mdp, reward, warm_start), (_, reward_dot, _) = primals, tangents
    backup = SoftBackup(mdp, reward)
    if not low_memory and _keeps_policies(mdp):
        first_value, plan = policies_backward(backup)
        value = jnp.asarray(mdp.initial) @ first_value
    else:
        plan = _plan(backup, warm_start, low_memory=low_memory)
        value, warm_start = _expected_first_value(plan)
    visits = row_visits_of(mdp, plan) if len(reward) == 1 else visits_of(mdp, plan)
    return (value, warm_start), ((visits * reward_dot).sum(), _zero_tangent(warm_start))


def _keeps_policies(mdp: MDP) -> bool:
    return mdp.horizon is not None and mdp.horizon * mdp.num_states * mdp.num_actions <= MAX_KEPT_POLICIES


@jax.custom_jvp
def path_start_value(
    mdp: MDP, reward: Float[Array, "A R"], warm_start: WarmStart
) -> tuple[Float[Array, ""], WarmStart]:
    """As `start_value`, under the path model; its derivative is the believed occupancy."""
    return _expected_first_value(_plan(PathBackup(mdp, reward), warm_start))


@path_start_value.defjvp
def _(primals, tangents):
    (mdp, reward, warm_start), (_, reward_dot, _) = primals, tangents
    plan = _plan(PathBackup(mdp, reward), warm_start)
    value, warm_start = _expected_first_value(plan)
    return (value, warm_start), ((believed_visits(mdp, plan) * reward_dot).sum(), _zero_tangent(warm_start))


@jax.custom_jvp
def path_transition_value(
    mdp: MDP, reward: Float[Array, "A R"], by_transition: Float[Array, "..."], warm_start: WarmStart
) -> tuple[Float[Array, ""], WarmStart]:
    """As `path_start_value`, with a reward that depends on s' as well."""
    return _expected_first_value(_plan(PathBackup(mdp, reward, by_transition), warm_start))


@path_transition_value.defjvp
def _(primals, tangents):
    (mdp, reward, by_transition, warm_start), (_, reward_dot, by_transition_dot, _) = primals, tangents
    plan = _plan(PathBackup(mdp, reward, by_transition), warm_start)
    change = (believed_visits(mdp, plan) * reward_dot).sum()
    change += (believed_transitions(mdp, plan) * by_transition_dot).sum()
    value, warm_start = _expected_first_value(plan)
    return (value, warm_start), (change, _zero_tangent(warm_start))
