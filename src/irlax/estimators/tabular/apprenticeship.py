"""Apprenticeship learning: a policy as good as the demonstrator under every reward that is linear in the features."""

import time
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular.closest_mixture import closest_mixture
from irlax.estimators.tabular.components import PolicyMixture
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.log_likelihood import total_log_likelihood
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.iteration import NEXT, AbstractIteration, Callback, History, Iterate, Session, Watch
from irlax.mdp import MDP
from irlax.planning import Plan, hard_plan, occupancy
from irlax.planning.improper import improper_as_terminal
from irlax.planning.occupancy import visits_of
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.rewards.reward import AbstractFolded, flat
from irlax.status import Status, warn_unless_success
from irlax.typing import Array, Float

Method = Literal["projection", "max-margin"]
#: A state with at most this share of the visits at a time is not reached, up to rounding.
UNREACHED = 1e-15


@stored("apprenticeship-irl")
class ApprenticeshipIRL(AbstractTabularIRL):
    r"""Match the demonstrator's feature expectations by a mixture of optimal policies. Abbeel and Ng (2004).

    Each step plans (without entropy) for a reward $w\cdot\phi$ under which the demonstrator is better than all
    policies found so far, and adds the optimal policy to the mixture. `method` chooses $w$, of length 1:

    * "max-margin": by the largest margin, $\max_w \min_i w\cdot(\mu_E - \mu_i)$. Its dual is the distance from
      $\mu_E$ to the convex hull of the $\mu_i$, and $w$ points there from the closest mixture.
    * "projection": from the demonstrator's projection onto the line through the last projection and the
      latest policy; cheaper a step, and more of them. When a policy adds nothing, it restarts from the
      closest mixture.

    Both stop when the closest mixture of the policies found lies within `tol` of the demonstrator, in
    units of feature expectations; when it is certain that none does (some $w$ separates the demonstrator
    from all policies); or after `max_steps` policies.

    The fit's `policy` is the one policy with the mixture's occupancy,
    $\pi_t(a|s) = d_t(s,a) / \sum_a d_t(s,a)$, even over the actions of states that are never reached.
    `reward` is the last direction $w$ and `plan` the hard plan for it: apprenticeship learning recovers a
    policy, not a reward; $w$ only points from the last mixture to the demonstrator. `start` is that of `MCEIRL`.
    """

    method: Method = "projection"
    tol: float = 1e-6
    max_steps: int = 200
    start: Start = "auto"
    progress: bool | None = None

    def __check_init__(self) -> None:
        checks.one_of("method", self.method, ("projection", "max-margin"))
        checks.positive("tol", self.tol)
        checks.count("max_steps", self.max_steps, 0)
        checks.one_of("start", self.start, ("auto", "demos", "mdp"))

    @property
    def maximises_likelihood(self) -> bool:
        return False

    def settings(self) -> list[tuple[str, Any]]:
        return [("method", self.method), ("tol", self.tol)]

    def fit(
        self,
        mdp: MDP,
        reward: AbstractReward,
        demos: Any = None,
        *,
        occupancy: Any = None,
        held_out: Demonstrations | None = None,
        callback: Callback | None = None,
    ) -> TabularFit:
        """Match the demonstrator in the features of `reward`, which must be linear; see `MCEIRL.fit`.

        The first policy is the best one for the reward's current parameters (at zero: all actions alike).
        In an `Iterate` and in the history, `loss` is the distance to the demonstrator and `gradient` the difference
        to its lower bound.
        """
        started = time.perf_counter()
        if not isinstance(mdp, MDP):
            raise TypeError(f"Apprenticeship learning takes one MDP, but `mdp` is a {type(mdp).__name__}.")
        mdp.require_one_row("ApprenticeshipIRL")
        if held_out is not None and not isinstance(held_out, Demonstrations):
            raise TypeError(f"`held_out` must be Demonstrations, but is a {type(held_out).__name__}.")
        with scope():
            (reward,), (expert,) = pair_up(mdp, reward, demos, occupancy, self.start)
            if not reward.is_linear:
                raise ValueError(
                    f"Apprenticeship learning needs a reward that is linear in its parameters, but a "
                    f"{type(reward).__name__} is not. Use LinearReward(features) or TabularReward."
                )
            scored = None if held_out is None else Expert.of(expert.mdp, held_out, None, "mdp")
            expert.refuse_choices_after_the_end(reward)
            visits, missing = expert.visits(warn=True)
            features = FeatureMap(expert.mdp, reward.fold(expert.mdp), reward.parameters)
            search = PolicySearch(
                features, features.of(visits), flat(reward.parameters), self.method == "max-margin", self.tol
            )
            title, watch = type(self).__name__, Watch(self.progress, callback)
            with Session(title, total=self.max_steps, watch=watch) as session:
                found, status = session.run(search, limit=self.max_steps)
            policy = policy_of(expert.mdp, found.occupancy(expert.mdp))
            fit = TabularFit(
                estimator=self,
                rewards=(reward.with_parameters(features.tree(found.direction)),),
                plans=(found.plan,),
                experts=(expert,),
                status=status,
                feature_gap=found.gap,
                log_likelihood=None if expert.recorded is None else total_log_likelihood(policy, expert),
                held_out_log_likelihood=None if scored is None else total_log_likelihood(policy, scored),
                history=History.of(session.history),
                seconds=time.perf_counter() - started,
                missing_mass=missing,
                mixture=PolicyMixture(
                    policy, found.distance, found.bound, len(found.weights), int((found.weights > 0).sum())
                ),
            )
        warn_unless_success(status, self._advice(found, status))
        return fit

    def _advice(self, found: "Policies", status: Status) -> str:
        if status is Status.STALLED:
            return (
                f"The demonstrator cannot be matched: the closest mixture of policies is {found.distance:.3g} away in "
                f"feature expectations, and none comes closer than {found.bound:.3g}."
            )
        return (
            f"The mixture is {found.distance:.3g} away from the demonstrator, the tolerance {self.tol:.2g}. Raise "
            f"`max_steps`, or take method='max-margin'."
        )


class FeatureMap(eqx.Module):
    """The map from visits to feature expectations, and from directions w to rewards w·φ."""

    mdp: MDP
    folded: AbstractFolded
    parameters: Any

    def of(self, visits: Float[Array, "A R"]) -> Float[np.ndarray, " K"]:
        r"""$\mu = \sum_{s,a} d(s,a)\,\phi(s,a)$."""
        reward, transpose = jax.vjp(self.folded, self.parameters)
        return flat(transpose(jnp.asarray(visits, reward.dtype))[0])

    def of_plan(self, plan: Plan) -> Float[np.ndarray, " K"]:
        """The feature expectations of a plan's policy."""
        return self.of(visits_of(improper_as_terminal(self.mdp, plan), plan))

    def plan(self, direction: Float[np.ndarray, " K"]) -> Plan:
        """The best policy for the reward w · φ."""
        reward = self.folded(self.tree(direction)).T
        if self.mdp.terminal is None:
            return hard_plan(self.mdp, reward)
        try:
            plan = hard_plan(self.mdp, reward)
            # A policy that never ends may be optimal if cycles have reward 0, but its features are infinite.
            improper_as_terminal(self.mdp, plan)
            return plan
        except ValueError:
            raise ValueError(
                "discount = 1 with no horizon: for a reward that the search tried, the optimal policy never reaches an "
                "absorbing state, so its features are infinite. Give a horizon, or discount."
            ) from None

    def tree(self, direction: Float[np.ndarray, " K"]) -> Any:
        """A vector as parameters of the reward."""
        return jax.tree.map(np.asarray, Flattening.of(self.parameters).unflatten(jnp.asarray(direction)))


class Policies(NamedTuple):
    """The policies found, and the weights of the mixture of them that is closest to the demonstrator."""

    plans: list[Plan]
    weights: Float[np.ndarray, " n"]
    #: The demonstrator's feature expectations minus those of each policy.
    gaps: Float[np.ndarray, "n K"]
    #: The reward of the last plan, and a lower bound on the distance of any policy.
    direction: Float[np.ndarray, " K"]
    bound: float
    #: The gap of the last projection, from which the next one starts.
    projection: Float[np.ndarray, " K"]
    #: Whether the last policy has no weight, and whether its reward was the gap of the closest mixture.
    added_nothing: bool = False
    from_closest: bool = False

    @property
    def plan(self) -> Plan:
        return self.plans[-1]

    @property
    def gap(self) -> Float[np.ndarray, " K"]:
        return self.weights @ self.gaps

    @property
    def distance(self) -> float:
        return float(np.linalg.norm(self.gap))

    def occupancy(self, mdp: MDP) -> Float[np.ndarray, "*T R A"]:
        """The occupancy of the mixture, in which one of the policies is drawn at the start of an episode and kept."""
        mixed = [(weight, plan) for weight, plan in zip(self.weights, self.plans, strict=True) if weight > 0]
        total = 0.0
        for weight, plan in mixed:
            total = total + weight * np.asarray(occupancy(mdp, plan))
        return np.asarray(total)


class PolicySearch(AbstractIteration[Policies]):
    """Adds policies until the closest mixture of them is within the tolerance, or provably cannot be."""

    features: FeatureMap
    expert_features: Float[np.ndarray, " K"]
    first: Float[np.ndarray, " K"]
    max_margin: bool
    tol: float

    def init(self) -> Policies:
        direction = _unit(self.first)
        plan = self.features.plan(direction)
        gap = self.expert_features - self.features.of_plan(plan)
        return Policies([plan], np.ones(1), gap[None], direction, 0.0, gap)

    def step(self, state: Policies) -> Policies:
        from_closest = state.added_nothing or self.max_margin
        start = state.gap if from_closest else state.projection
        direction = _unit(start)
        plan = self.features.plan(direction)
        gap = self.expert_features - self.features.of_plan(plan)
        # No policy is better for this reward, so the gap of each along it is at least as large.
        bound = max(state.bound, float(direction @ gap))
        gaps = np.vstack([state.gaps, gap])
        weights = closest_mixture(gaps, np.append(state.weights, 0.0))
        projection, added_nothing = _project(start, gap), bool(weights[-1] == 0)
        return Policies([*state.plans, plan], weights, gaps, direction, bound, projection, added_nothing, from_closest)

    def status(self, state: Policies) -> Status | None:
        if state.distance <= self.tol:
            return Status.CONVERGED
        certain = state.bound > self.tol and state.distance - state.bound <= self.tol
        return Status.STALLED if certain or (state.added_nothing and state.from_closest) else None

    def iterates(self, state: Policies) -> list[Iterate]:
        if state.added_nothing and state.from_closest:
            return []
        above_bound = max(state.distance - state.bound, 0.0)
        return [Iterate(NEXT, {"loss": state.distance, "gradient": above_bound}, state.direction)]


def policy_of(mdp: MDP, joint: Float[np.ndarray, "*T R A"]) -> Float[np.ndarray, "*T R A"]:
    r"""The policy with a given occupancy, $\pi(a|s) = d(s,a)/\sum_a d(s,a)$; uniform in states without visits."""
    joint = np.maximum(joint, 0)
    mass = joint.sum(axis=-1, keepdims=True)
    reached = mass > UNREACHED * mass.sum(axis=-2, keepdims=True)
    available = np.asarray(mdp.available)
    uniform = available / available.sum(axis=-1, keepdims=True)
    return np.where(reached, joint / np.where(reached, mass, 1.0), uniform)


def _project(old: Float[np.ndarray, " K"], new: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """The gap with the smallest length on the line segment between two gaps."""
    difference = old - new
    length = float(difference @ difference)
    share = np.clip(old @ difference / length, 0, 1) if length > 0 else 0.0
    return old - share * difference


def _unit(vector: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else vector
