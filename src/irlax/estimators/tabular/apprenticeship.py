"""Apprenticeship learning: do as well as the demonstrator under every reward that is linear in the features."""

import time
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
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
#: A state that holds no more than this share of its time's mass is not reached, but for rounding.
UNREACHED = 1e-15
#: Sums of as many digits as float64 has differ by this much, relative to their terms.
ROUNDING = 1e-14


@stored("apprenticeship-irl")
class ApprenticeshipIRL(AbstractTabularIRL):
    r"""Match the demonstrator's feature expectations by a mixture of optimal policies. Abbeel and Ng (2004).

    Each step plans (without entropy) for a reward $w\cdot\phi$ in whose eyes the demonstrator is better than
    what was found so far, and adds the optimal policy to the mixture. `method` chooses $w$, of length 1:

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
    policy, and $w$ is only the direction in which the mixture was last short of the demonstrator. `start`
    is that of `MCEIRL`.
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
        In an `Iterate` and in the history, `loss` is the distance to the demonstrator and `gradient` how much
        of it may still be saved.
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
            unseen = None if held_out is None else Expert.of(expert.mdp, held_out, None, "mdp")
            expert.refuse_choices_after_the_end(reward)
            visits, missing = expert.visits(warn=True)
            features = Features(expert.mdp, reward.fold(expert.mdp), reward.parameters)
            goal = features.of(visits)
            search = Search(features, goal, flat(reward.parameters), self.method == "max-margin", self.tol)
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
                held_out_log_likelihood=None if unseen is None else total_log_likelihood(policy, unseen),
                history=History.of(session.history),
                seconds=time.perf_counter() - started,
                missing_mass=missing,
                mixture=PolicyMixture(
                    policy, found.distance, found.bound, len(found.weights), int((found.weights > 0).sum())
                ),
            )
        warn_unless_success(status, self._advice(found, status))
        return fit

    def _advice(self, found: "Found", status: Status) -> str:
        if status is Status.STALLED:
            return (
                f"The demonstrator cannot be matched: the closest mixture of policies is {found.distance:.3g} away in "
                f"feature expectations, and none comes closer than {found.bound:.3g}."
            )
        return (
            f"The mixture is {found.distance:.3g} away from the demonstrator, the tolerance {self.tol:.2g}. Raise "
            f"`max_steps`, or take method='max-margin'."
        )


class Features(eqx.Module):
    """The map from visits to feature expectations, and its transpose, from directions to rewards."""

    mdp: MDP
    folded: AbstractFolded
    parameters: Any

    def of(self, visits: Float[Array, "A R"]) -> Float[np.ndarray, " K"]:
        r"""$\mu = \sum_{s,a} d(s,a)\,\phi(s,a)$."""
        _, transpose = jax.vjp(self.folded, self.parameters)
        return flat(transpose(jnp.asarray(visits))[0])

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
            # Going round in circles for nothing may be best, but such a policy has no features.
            improper_as_terminal(self.mdp, plan)
            return plan
        except ValueError:
            raise ValueError(
                "discount = 1 with no horizon: for a reward on the way to the demonstrator the best policy would never "
                "reach the end, so its features are infinite. Give a horizon, or discount."
            ) from None

    def tree(self, direction: Float[np.ndarray, " K"]) -> Any:
        """A vector as parameters of the reward."""
        return jax.tree.map(np.asarray, Flattening.of(self.parameters).unflatten(jnp.asarray(direction)))


class Found(NamedTuple):
    """Policies, and the mixture of them that is closest to the demonstrator."""

    plans: list[Plan]
    weights: Float[np.ndarray, " n"]
    #: What each policy lacks of the demonstrator's features.
    lacks: Float[np.ndarray, "n K"]
    #: The reward that the last plan is for, and a distance below which no policy gets.
    direction: Float[np.ndarray, " K"]
    bound: float
    #: What the next projection starts from.
    aim: Float[np.ndarray, " K"]
    #: Whether the last policy added nothing, and whether it was planned for the closest mixture.
    idle: bool = False
    exact: bool = False

    @property
    def plan(self) -> Plan:
        return self.plans[-1]

    @property
    def gap(self) -> Float[np.ndarray, " K"]:
        return self.weights @ self.lacks

    @property
    def distance(self) -> float:
        return float(np.linalg.norm(self.gap))

    def occupancy(self, mdp: MDP) -> Float[np.ndarray, "*T R A"]:
        """Of the mixture: one of the policies is drawn at the start, and kept."""
        mixed = [(weight, plan) for weight, plan in zip(self.weights, self.plans, strict=True) if weight > 0]
        total = 0.0
        for weight, plan in mixed:
            total = total + weight * np.asarray(occupancy(mdp, plan))
        return np.asarray(total)


class Search(AbstractIteration[Found]):
    """Adds policies until the closest mixture of them is close enough, or certain to be the closest of all."""

    features: Features
    goal: Float[np.ndarray, " K"]
    first: Float[np.ndarray, " K"]
    max_margin: bool
    tol: float

    def init(self) -> Found:
        direction = _unit(self.first)
        plan = self.features.plan(direction)
        lack = self.goal - self.features.of_plan(plan)
        return Found([plan], np.ones(1), lack[None], direction, 0.0, lack)

    def step(self, state: Found) -> Found:
        exact = state.idle or self.max_margin
        aim = state.gap if exact else state.aim
        direction = _unit(aim)
        plan = self.features.plan(direction)
        lack = self.goal - self.features.of_plan(plan)
        # No policy is better for this reward, so each one lacks at least as much of it.
        bound = max(state.bound, float(direction @ lack))
        plans, lacks = [*state.plans, plan], np.vstack([state.lacks, lack])
        weights = closest_mixture(lacks, np.append(state.weights, 0.0))
        return Found(plans, weights, lacks, direction, bound, _projected(aim, lack), bool(weights[-1] == 0), exact)

    def status(self, state: Found) -> Status | None:
        if state.distance <= self.tol:
            return Status.CONVERGED
        certain = state.bound > self.tol and state.distance - state.bound <= self.tol
        return Status.STALLED if certain or (state.idle and state.exact) else None

    def iterates(self, state: Found) -> list[Iterate]:
        if state.idle and state.exact:
            return []
        left = max(state.distance - state.bound, 0.0)
        return [Iterate(NEXT, {"loss": state.distance, "gradient": left}, state.direction)]


def policy_of(mdp: MDP, joint: Float[np.ndarray, "*T R A"]) -> Float[np.ndarray, "*T R A"]:
    r"""The policy with a given occupancy, $\pi(a|s) = d(s,a)/\sum_a d(s,a)$; even where the state is never reached."""
    joint = np.maximum(joint, 0)
    mass = joint.sum(axis=-1, keepdims=True)
    reached = mass > UNREACHED * mass.sum(axis=-2, keepdims=True)
    available = np.asarray(mdp.available)
    even = available / available.sum(axis=-1, keepdims=True)
    return np.where(reached, joint / np.where(reached, mass, 1.0), even)


def closest_mixture(points: Float[np.ndarray, "n K"], weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Weights, on as few points as it takes, of the point in their convex hull that is closest to the origin.

    Wolfe (1976), from the given weights on: add the point that is furthest ahead, go to the closest point of
    the plane through all that have weight, and where that lies outside their hull, only to its border.
    """
    size = float(np.linalg.norm(points, axis=1).max())
    for _ in range(10 * len(points)):
        closest = weights @ points
        length = float(np.linalg.norm(closest))
        ahead = points @ closest
        best = int(np.argmin(ahead))
        if length <= ROUNDING * size or ahead[best] >= length**2 - ROUNDING * size * length:
            break
        moved = _to_closest_on_plane(points, weights, np.union1d(np.flatnonzero(weights), best))
        if np.linalg.norm(moved @ points) >= length:
            break
        weights = moved
    return weights


def _to_closest_on_plane(
    points: Float[np.ndarray, "n K"], weights: Float[np.ndarray, " n"], support: np.ndarray
) -> Float[np.ndarray, " n"]:
    """The closest point to the origin on the plane through the support, or on the way to it as far as the hull goes."""
    while True:
        goal = np.zeros_like(weights)
        rest = points[support[1:]] - points[support[0]]
        share = np.linalg.lstsq(rest.T, -points[support[0]], rcond=None)[0]
        goal[support] = np.concatenate([[1 - share.sum()], share])
        outside = support[goal[support] <= ROUNDING]
        if not len(outside):
            return goal
        fall = np.maximum(weights[outside] - goal[outside], ROUNDING**2)
        first = int(np.argmin(weights[outside] / fall))
        reach = min(1.0, float(weights[outside[first]] / fall[first]))
        weights = weights + reach * (goal - weights)
        weights[outside[first]] = 0.0
        weights = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()
        support = support[support != outside[first]]


def _projected(aim: Float[np.ndarray, " K"], lack: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """What is lacking at the point of the way to the new policy that is closest to the demonstrator."""
    back = aim - lack
    length = float(back @ back)
    share = np.clip(aim @ back / length, 0, 1) if length > 0 else 0.0
    return aim - share * back


def _unit(vector: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else vector
