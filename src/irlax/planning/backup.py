"""Bellman operators: one step of backward induction under each model of the decision maker.

All three are monotone and shift by γ when their argument shifts by 1, so they share one finite-horizon
recursion and one fixed-point solver. The soft and the path operators are convex in the value, the hard one
too: that is what makes Newton's method converge from anywhere.
"""

import abc

import jax.numpy as jnp

from irlax.mdp import MDP, AbstractDynamics
from irlax.mdp.derived import reweighted
from irlax.mdp.unrolled import is_unrolled, log_sum_exp, softmax, stored_once, unrolled_map
from irlax.precision import StaysOnDevice
from irlax.typing import Array, Float, Scalar

#: How far apart rounding can put two equal values, in units of machine epsilon times the largest value.
TIE_ROUNDING = 64.0


class AbstractBackup(StaysOnDevice):
    """V ↦ q ↦ V, for one MDP and one reward."""

    mdp: MDP
    #: [1, R] where it is the same for all actions.
    reward: Float[Array, "A1 R"]

    @abc.abstractmethod
    def q(self, next_value: Float[Array, " S"]) -> Float[Array, "A R"]:
        """The value of each action, given the values of the states that follow; −inf where it does not exist."""

    @abc.abstractmethod
    def value(self, q: Float[Array, "A R"]) -> Float[Array, " S"]:
        """The value of each state, given those of its actions."""

    @abc.abstractmethod
    def log_policy(self, q: Float[Array, "A R"]) -> Float[Array, "A R"]:
        """log π(a|s), normalised."""

    @abc.abstractmethod
    def believed_dynamics(self, next_value: Float[Array, " S"]) -> AbstractDynamics:
        """The transitions that the model assumes, given the values of the states that follow."""

    def policy(self, q: Float[Array, "A R"], value: Float[Array, " S"]) -> Float[Array, "A R"]:
        """π(a|s), where V(s) = `value(q)` is known already."""
        value = self.mdp.rows.repeat(value)
        return unrolled_map(lambda q: jnp.exp(q - value), q)

    @property
    def final_value(self) -> Float[Array, " S"]:
        """V_T = 0, after the last decision."""
        return jnp.zeros(self.mdp.num_states, self.reward.dtype)

    def __call__(self, next_value: Float[Array, " S"]) -> Float[Array, " S"]:
        value = self.value(self.q(next_value))
        return value if self.mdp.terminal is None else jnp.where(self.mdp.terminal, 0, value)

    def available_only(self, q: Float[Array, "A R"]) -> Float[Array, "A R"]:
        """`q` with −inf where an action does not exist."""
        if self.mdp.mask is None:
            return q
        return unrolled_map(lambda exists, q: jnp.where(exists, q, -jnp.inf), self.mdp.mask, q)


class SoftBackup(AbstractBackup):
    r"""The maximum causal entropy model.

    $$Q(s,a) = \mathbb{E}[r(s,a,S')] + \gamma\,\mathbb{E}[V(S')], \quad V(s) = \log\textstyle\sum_a e^{Q(s,a)}$$

    Primer, Eq. "Soft VI"; Ziebart (2010).
    """

    def q(self, next_value: Float[Array, " S"]) -> Float[Array, "A R"]:
        return self.available_only(_discounted(self, next_value))

    def value(self, q: Float[Array, "A R"]) -> Float[Array, " S"]:
        return self.mdp.rows.log_sum_exp(log_sum_exp(q))

    def log_policy(self, q: Float[Array, "A R"]) -> Float[Array, "A R"]:
        return _log_softmax(self, q)

    def choose(self, next_value: Float[Array, " S"]) -> tuple[Float[Array, " S"], Float[Array, "A R"]]:
        """V and π at once, before a horizon."""
        q = self.q(next_value)
        if not self.mdp.rows.one_per_state:
            value = self.value(q)
            return value, self.policy(q, value)
        return softmax(q)

    def believed_dynamics(self, next_value: Float[Array, " S"]) -> AbstractDynamics:
        return self.mdp.dynamics


class HardBackup(AbstractBackup):
    """The return-maximising model: Q as in the soft one, V(s) = max_a Q(s,a); ties share the policy equally."""

    #: How far apart computed values of equally good actions may be for other reasons than rounding.
    slack: Scalar = 0.0

    def q(self, next_value: Float[Array, " S"]) -> Float[Array, "A R"]:
        return self.available_only(_discounted(self, next_value))

    def value(self, q: Float[Array, "A R"]) -> Float[Array, " S"]:
        return self.mdp.rows.max(q.max(axis=0))

    def log_policy(self, q: Float[Array, "A R"]) -> Float[Array, "A R"]:
        rows = self.mdp.rows
        best = rows.repeat(self.value(q))
        rounding = TIE_ROUNDING * jnp.finfo(q.dtype).eps * jnp.where(jnp.isfinite(q), jnp.abs(q), 0).max()
        ties = q >= best - (rounding + self.slack)
        num_best = rows.repeat(rows.sum(ties.sum(axis=0))).astype(q.dtype)
        return jnp.where(ties, -jnp.log(num_best), -jnp.inf)

    def policy(self, q: Float[Array, "A R"], value: Float[Array, " S"]) -> Float[Array, "A R"]:
        return jnp.exp(self.log_policy(q))

    def believed_dynamics(self, next_value: Float[Array, " S"]) -> AbstractDynamics:
        return self.mdp.dynamics


class PathBackup(AbstractBackup):
    r"""The (non-causal) maximum entropy model, which treats the outcome of a transition as if it were chosen too.

    $$Q(s,a) = \log\textstyle\sum_{s'} P(s'|s,a)\,e^{r(s,a,s') + \gamma V(s')}, \quad
      V(s) = \log\textstyle\sum_a e^{Q(s,a)}$$

    At γ = 1 this is the law of paths in proportion to their probability times exp(return). Primer, 3.3.
    """

    #: The part of the reward that depends on s', aligned with the dynamics; it must not be averaged over s' here.
    transition_reward: Float[Array, "..."] | None = None

    def q(self, next_value: Float[Array, " S"]) -> Float[Array, "A R"]:
        return self.available_only(self.reward + self.mdp.dynamics.log_mean_exp(self._exponent(next_value)))

    def value(self, q: Float[Array, "A R"]) -> Float[Array, " S"]:
        return self.mdp.rows.log_sum_exp(log_sum_exp(q))

    def log_policy(self, q: Float[Array, "A R"]) -> Float[Array, "A R"]:
        return _log_softmax(self, q)

    def believed_dynamics(self, next_value: Float[Array, " S"]) -> AbstractDynamics:
        r"""$\hat P(s'|s,a) \propto P(s'|s,a)\,e^{r(s,a,s') + \gamma V(s')}$."""
        dynamics = self.mdp.dynamics
        if dynamics.aligned_shape[dynamics.next_axis] == 1:
            # The one next state keeps all of the probability.
            return dynamics
        exponent = self._exponent(next_value)
        return reweighted(dynamics, exponent - dynamics.for_all_next(dynamics.log_mean_exp(exponent)))

    def _exponent(self, next_value: Float[Array, " S"]) -> Float[Array, "..."]:
        discounted = self.mdp.discount * self.mdp.dynamics.next_values(next_value)
        return discounted if self.transition_reward is None else self.transition_reward + discounted


def _discounted(backup: AbstractBackup, next_value: Float[Array, " S"]) -> Float[Array, "A R"]:
    """r + γ E[V(S')]."""
    expected = backup.mdp.dynamics.backward(next_value)
    if not is_unrolled(expected):
        return backup.reward + backup.mdp.discount * expected
    rewards = list(backup.reward) * (len(expected) // len(backup.reward))
    return stored_once([reward + backup.mdp.discount * after for reward, after in zip(rewards, expected, strict=True)])


def _log_softmax(backup: AbstractBackup, q: Float[Array, "A R"]) -> Float[Array, "A R"]:
    value = backup.mdp.rows.repeat(backup.value(q))
    return unrolled_map(lambda q: q - value, q)
