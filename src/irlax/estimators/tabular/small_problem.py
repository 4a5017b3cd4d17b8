r"""Small problems with linear rewards, evaluated on the host: the losses of `objectives` in NumPy.

With uses n of actions and sources c of values, both objectives have the gradient
$-\bigl(\sum_t n_t\phi + \sum_t m_t\,\pi_t\phi\bigr)$ and the Hessian $-\sum_t m_t\,\mathrm{Cov}_{\pi_t}(\partial Q_t)$,
where $m_t = c_t + \gamma P_\pi^\top m_{t-1}$. A likelihood counts each choice by its weight w: n = w, and
$c_t = \gamma P^\top w_{t-1} - \sum_a w_t$; feature matching has n = the demonstrator's visits, and c₀ = −P(S₀).
"""

from typing import NamedTuple

import numpy as np

from irlax.estimators.tabular.objectives import AbstractObjective, FeatureMatching, Likelihood
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation, Flattening, Problem, WarmStarts
from irlax.planning.small import SmallMDP, SmallPlan
from irlax.rewards.small import small_features
from irlax.typing import Array, Float, Int


class SmallObjective(NamedTuple):
    """One objective in one small MDP."""

    mdp: SmallMDP
    features: Float[np.ndarray, "A S K"]
    #: What is known of the reward.
    known: Float[np.ndarray, "A S"]
    #: n_t, of which feature matching knows the sum over time only.
    uses: Float[np.ndarray, "T A S"]
    #: c_t.
    sources: Float[np.ndarray, "T S"]
    is_likelihood: bool

    @classmethod
    def of(cls, objective: AbstractObjective, num: int) -> "SmallObjective | None":
        """The objective in this form, for a reward with `num` parameters; None if it cannot be had."""
        if not isinstance(objective, FeatureMatching | Likelihood):
            return None
        found = small_features(objective.mdp, objective.folded, num)
        if found is None:
            return None
        mdp, features, known = found
        if isinstance(objective, FeatureMatching):
            return cls(mdp, features, known, np.asarray(objective.visits)[None], -_at_start(mdp), False)
        return cls(mdp, features, known, *_counted(mdp, objective), True)

    def plan(self, theta: Float[np.ndarray, " K"], guess: Float[np.ndarray, " S"] | None = None) -> SmallPlan:
        """The soft plan for the reward at θ."""
        return self.mdp.plan(self.reward(theta), guess)

    def reward(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, "A S"]:
        """The reward at θ."""
        with np.errstate(all="ignore"):
            return self.features @ theta + self.known

    def loss(self, theta: Float[np.ndarray, " K"], plan: SmallPlan) -> float:
        """The loss of an episode, given the plan at θ."""
        if self.is_likelihood:
            return -float((self.uses * np.where(self.uses > 0, plan.log_policies, 0.0)).sum())
        return float(self.mdp.initial @ plan.values[0] - (self.uses[0] * self.reward(theta)).sum())

    def gradient(self, plan: SmallPlan) -> Float[np.ndarray, " K"]:
        """∂ loss / ∂θ, given the plan at θ."""
        policies = plan.policies
        mass = self.mdp.carried(policies, self.sources)
        flow = self.uses.sum(axis=0) + (mass[:, None] * policies).sum(axis=0)
        return -np.tensordot(flow, self.features, 2)

    def hessian(self, plan: SmallPlan) -> Float[np.ndarray, "K K"]:
        """∂² loss / ∂θ², given the plan at θ."""
        policies, tangents = plan.policies, plan.tangents(self.features)
        mass = self.mdp.carried(policies, self.sources)
        mean = np.einsum("tas,task->tsk", policies, tangents)
        deviations = tangents - mean[:, None]
        weighted = (policies * mass[:, None])[..., None] * deviations
        num = tangents.shape[-1]
        return -weighted.reshape(-1, num).T @ deviations.reshape(-1, num)

    def scores(
        self, plan: SmallPlan, actions: Int[np.ndarray, "T M"], states: Int[np.ndarray, "T M"]
    ) -> Float[np.ndarray, "T M K"]:
        """∂ log π_t(a|s) / ∂θ of choices, given the plan at θ."""
        tangents, time = plan.tangents(self.features), np.arange(self.mdp.periods)[:, None]
        mean = np.einsum("tas,task->tsk", plan.policies, tangents)
        return tangents[time, actions, states] - mean[time, states]


class SmallProblem(AbstractProblem):
    """A problem whose losses are evaluated on the host."""

    #: The same problem as JAX evaluates it.
    compiled: Problem
    parts: tuple[SmallObjective, ...]
    flattening: Flattening
    scale: Float[Array, " K"]
    l2: Float[Array, ""]

    @classmethod
    def of(cls, problem: Problem) -> "SmallProblem | Problem":
        """The problem in this form, or as it is if it is large or not linear."""
        parts = []
        for objective in problem.objectives:
            part = SmallObjective.of(objective, int(np.size(problem.scale)))
            if part is None:
                return problem
            parts.append(part)
        return cls(
            compiled=problem,
            parts=tuple(parts),
            flattening=problem.flattening,
            scale=np.asarray(problem.scale),
            l2=np.asarray(problem.l2),
        )

    @property
    def objectives(self) -> tuple[AbstractObjective, ...]:
        """The objective of each MDP."""
        return self.compiled.objectives

    @property
    def shares(self) -> Float[np.ndarray, " M"]:
        """The share of each objective."""
        return np.asarray(self.compiled.shares)

    @property
    def resolution(self) -> float:
        return self.compiled.resolution

    def evaluate(self, x: Float[np.ndarray, " K"], warm_starts: WarmStarts | None = None) -> Evaluation:
        theta, l2, values = np.asarray(x) / self.scale, float(self.l2), []
        loss, gradient = 0.0, l2 * theta
        for share, part, plan in zip(self.shares, self.parts, self._plans(theta, warm_starts), strict=True):
            if not plan.is_finite:
                return Evaluation(x, np.inf, np.full(len(theta), np.nan), self.compiled.initial_warm_starts())
            loss, gradient = loss + share * part.loss(theta, plan), gradient + share * part.gradient(plan)
            values.append(plan.values[0] if part.mdp.horizon is None else None)
        return Evaluation(x, float(loss + 0.5 * l2 * (theta @ theta)), gradient / self.scale, tuple(values))

    def hessian(self, at: Evaluation) -> Float[np.ndarray, "K K"]:
        theta = np.asarray(at.x) / self.scale
        total = float(self.l2) * np.eye(len(theta))
        for share, part, plan in zip(self.shares, self.parts, self._plans(theta, at.warm_starts), strict=True):
            total += share * part.hessian(plan)
        matrix = total / self.scale / self.scale[:, None]
        return (matrix + matrix.T) / 2

    def hessian_product(self, at: Evaluation, v: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        return self.compiled.hessian_product(at, v)

    def _plans(self, theta: Float[np.ndarray, " K"], warm_starts: WarmStarts | None) -> list[SmallPlan]:
        guesses = warm_starts or (None,) * len(self.parts)
        return [
            part.plan(theta, None if guess is None else np.asarray(guess))
            for part, guess in zip(self.parts, guesses, strict=True)
        ]


def _at_start(mdp: SmallMDP) -> Float[np.ndarray, "T S"]:
    """The distribution of starts, in the first period."""
    starts = np.zeros((mdp.periods, len(mdp.initial)))
    starts[0] = mdp.initial
    return starts


def _counted(mdp: SmallMDP, likelihood: Likelihood) -> tuple[Float[np.ndarray, "T A S"], Float[np.ndarray, "T S"]]:
    """n and c of a likelihood."""
    uses = np.zeros((mdp.periods, *mdp.transitions.shape[:2]))
    time = np.arange(mdp.periods)[:, None]
    np.add.at(
        uses, (time, np.asarray(likelihood.actions), np.asarray(likelihood.states)), np.asarray(likelihood.weights)
    )
    ahead = mdp.discount * np.tensordot(uses, mdp.transitions, 2)
    sources = -uses.sum(axis=1)
    if mdp.horizon is None:
        return uses, sources + ahead
    sources[1:] += ahead[:-1]
    return uses, sources
