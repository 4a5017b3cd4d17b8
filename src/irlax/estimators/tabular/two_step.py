"""Two-step estimation: conditional choice probabilities first, then a logit, without planning."""

import time
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular.aggregated import refuse_statistics
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.fit_by_minimising import Estimation, fit_by_minimising
from irlax.estimators.tabular.mce import MCEIRL, feature_gap, knows_features, soft_plan_of
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.pseudo_likelihood import NestedPseudoLikelihood
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.iteration import Callback, Watch
from irlax.mdp import MDP
from irlax.planning.occupancy import checked_policy
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.typing import Array, Float


@stored("two-step-irl")
class TwoStepIRL(AbstractTabularIRL):
    r"""Infer a linear reward from the observed choice probabilities, without planning.

    If the demonstrator always follows the choice probabilities P, values are affine in θ:

    $$V_P(s) = W_P(s)^\top\theta + E_P(s), \quad
      W_P = (I - \gamma F_P)^{-1}\textstyle\sum_a P(a|\cdot)\,\phi(\cdot,a), \quad
      E_P = (I - \gamma F_P)^{-1} H(P(\cdot|s))$$

    with F_P the chain of P: discounted feature expectations and discounted entropy, one linear system with K + 1
    right-hand sides. What is left is a logit in $\phi(s,a) + \gamma\,\mathbb{E}W_P(S')$, with
    $\gamma\,\mathbb{E}E_P(S')$ as its offset: a concave problem.

    * `iterations` 1 is the two-step estimator of Hotz and Miller (1993), in the pseudo-likelihood form of
      Aguirregabiria and Mira (2002): as efficient as maximum likelihood in large samples, biased in small ones by
      the noise of the first step. A few Newton steps from the result measure how far it is below the maximum of the
      likelihood (`certificate.below_maximum`); more than 1.92 log units are not a success.
    * `iterations` K repeats the step with the choice probabilities that the last one implies.
    * `iterations` None repeats it until nothing changes: nested pseudo-likelihood, whose fixed point solves the
      likelihood equations, as the estimate of `MCEIRL(objective="likelihood")` does. It need not converge (Kasahara
      and Shimotsu 2012): after `max_steps` the status is MAX_STEPS.

    The first step is a frequency estimate: each state (and time, if the horizon is finite) counts as if it had been
    observed `smoothing` more times, with its available actions chosen as often as over all states. Your own estimate
    goes to `fit` as `choice_probabilities`; after a fixed number of steps the result is consistent if that is.

    It assumes a reward that is linear in its parameters, and its objective is the likelihood, every observed choice
    counted once. Standard errors are those of maximum likelihood, evaluated at the estimate. `l2`, `tol` and `start`
    are as in `MCEIRL`; with `iterations` None `tol` bounds the gradient of the pseudo-likelihood under the choice
    probabilities that the estimate itself implies, which at a fixed point is that of the likelihood.
    """

    iterations: int | None = 1
    smoothing: float = 1.0
    l2: float = 0.0
    tol: float = 1e-8
    max_steps: int = 100
    start: Start = "auto"
    progress: bool | None = None

    def __check_init__(self) -> None:
        if self.iterations is not None:
            checks.count("iterations", self.iterations)
        checks.positive("smoothing", self.smoothing, zero=True)
        checks.positive("l2", self.l2, zero=True)
        checks.positive("tol", self.tol)
        checks.count("max_steps", self.max_steps, 0)
        checks.one_of("start", self.start, ("auto", "demos", "mdp"))

    @property
    def maximises_likelihood(self) -> bool:
        return True

    def settings(self) -> list[tuple[str, Any]]:
        steps = self.iterations or "until nothing changes"
        return [("objective", "likelihood"), ("l2", self.l2), ("smoothing", self.smoothing), ("steps asked for", steps)]

    def fit(
        self,
        mdp: MDP | Sequence[MDP],
        reward: AbstractReward | Sequence[AbstractReward],
        demos: Any = None,
        *,
        choice_probabilities: Any = None,
        held_out: Demonstrations | None = None,
        callback: Callback | None = None,
    ) -> TabularFit:
        """Learn `reward` from demonstrations; with lists of MDPs one reward is learned from all of them.

        `choice_probabilities` is the first step's result, π[S,A] or π[T,S,A] (with several MDPs, one for each), if it
        is not to be estimated here. `held_out` demonstrations are scored, never learned from. `callback` receives
        every iterate, and may return True to stop.
        """
        started = time.perf_counter()
        with scope():
            rewards, experts = pair_up(mdp, reward, demos, None, self.start)
            _refuse_unless_linear(rewards, experts)
            for expert in experts:
                expert.mdp.require_one_row("TwoStepIRL")
            given = [choice_probabilities] if isinstance(mdp, MDP) else choice_probabilities
            policies = self._first_step(experts, None if choice_probabilities is None else given)
            objectives, _ = MCEIRL(objective="likelihood").objectives(rewards, experts)
            known = knows_features(rewards, experts)
            estimation = Estimation(
                objectives,
                rewards,
                experts,
                l2=self.l2,
                tol=self.tol,
                convex=False,
                plan=soft_plan_of,
                gap=(lambda theta, _: feature_gap(theta, rewards, experts)) if known else None,
            )
            watch = Watch(self.progress, callback)
            solver = NestedPseudoLikelihood(policies=policies, iterations=self.iterations, max_steps=self.max_steps)
            return fit_by_minimising(self, estimation, solver, watch, held_out=held_out, started=started)

    def _first_step(self, experts: tuple[Expert, ...], given: Any) -> tuple[Float[Array, "T A R"], ...]:
        if given is None:
            return tuple(frequencies(expert, self.smoothing) for expert in experts)
        if not isinstance(given, (list, tuple)) or len(given) != len(experts):
            raise TypeError(f"`choice_probabilities` must be a list of {len(experts)} arrays, one for each MDP.")
        return tuple(_checked_policy(expert.mdp, policy) for expert, policy in zip(experts, given, strict=True))


def _refuse_unless_linear(rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...]) -> None:
    if not all(reward.is_linear for reward in rewards):
        raise TypeError(
            "Two-step estimation needs rewards that are linear in their parameters, such as LinearReward or "
            "TabularReward: only then are values affine in them. Use MCEIRL(objective='likelihood')."
        )
    for expert in experts:
        refuse_statistics(expert.statistics, "Two-step estimation")
    if any(expert.demos is None for expert in experts):
        raise TypeError("Two-step estimation needs demonstrations; for a policy or an occupancy use MCEIRL.")


def _checked_policy(mdp: MDP, policy: Any) -> Float[Array, "T A R"]:
    """Choice probabilities that a user gave, validated, with an axis of time."""
    try:
        policy = np.asarray(checked_policy(mdp, policy))
    except ValueError as error:
        raise ValueError(str(error).replace("`policy`", "`choice_probabilities`")) from None
    return jnp.asarray((policy[None] if policy.ndim == 2 else policy).swapaxes(1, 2))


def frequencies(expert: Expert, smoothing: float) -> Float[Array, "T A R"]:
    r"""$\hat P(a|s) = (n(s,a) + \alpha f(a)) / (n(s) + \alpha)$, with f the frequency of a over all states.

    Only available actions count; where none of them was ever observed, P is uniform. T = 1 on an infinite horizon.
    """
    observed, mdp = expert.choices(discounted=False), expert.mdp
    counts = np.zeros((len(observed.weights), mdp.num_actions, mdp.num_states))
    time = np.broadcast_to(np.arange(len(observed.weights))[:, None], observed.weights.shape)
    np.add.at(counts, (time, observed.actions, observed.states), observed.weights * expert.weight)
    available = np.asarray(mdp.available).T
    share = counts.sum(axis=(0, 2))[:, None] * available
    share = np.where(share.sum(axis=0) > 0, share, available)
    share = share / share.sum(axis=0)
    total = counts.sum(axis=1, keepdims=True) + smoothing
    return jnp.asarray(np.where(total > 0, (counts + smoothing * share) / np.where(total > 0, total, 1), share))
