"""Unobserved types: a finite mixture of rewards, fitted by expectation and maximisation and Newton's method."""

import dataclasses
import time
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.special import softmax

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular.components import Certificate, CrossValidation
from irlax.estimators.tabular.cross_validation import CANDIDATES, FOLDS
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expectation_maximisation import EM
from irlax.estimators.tabular.expert import Start
from irlax.estimators.tabular.fit_by_minimising import make_problem, on_host
from irlax.estimators.tabular.mce import soft_plan_of
from irlax.estimators.tabular.mixture_assessment import SADDLE, Assessment, assess_mixture
from irlax.estimators.tabular.mixture_fit import MixtureFit
from irlax.estimators.tabular.mixture_model import Mixture, evidence, individuals_of, joint_at, mixture_of, weights_of
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.problem import Evaluation, Problem, largest
from irlax.estimators.tabular.solvers import Newton, minimise
from irlax.iteration import Callback, History, Iterate, Session, Watch
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.status import Status, warn_unless_success
from irlax.typing import Float, PRNGKeyArray

#: EM steps from each random start; only the best of these runs is continued (Biernacki, Celeux and Govaert 2003).
SHORT_RUN = 15
#: Newton's method starts with at least about this many individuals in each type.
MIN_INDIVIDUALS = 1e-3


@stored("mixture-irl")
class MixtureIRL(AbstractTabularIRL):
    r"""Infer the rewards of several unobserved types of individuals, and how frequent the types are.

    Individual i is of type g with probability s_g, keeps its type, and is soft-optimal for its type's reward:

    $$\ell(\theta, s) = \sum_i w_i \log \sum_g s_g \prod_{t} \pi_{\theta_g}(a_{it}|s_{it})$$

    where the product runs over all observed choices of the individual, each counted once. Heckman and Singer (1984);
    Arcidiacono and Jones (2003).

    EM (Dempster, Laird and Rubin 1977) alternates between the posterior of each individual's type and weighted fits
    of each type, warm-started from the last; it never lowers the likelihood. There is more than one local maximum:
    `num_starts` short runs start at parameters drawn around the one-type estimate, with the spread that estimates of
    single individuals would have, and the best of them is continued. Near the maximum, where EM is slow, Newton's
    method on ℓ itself takes over until no entry of its gradient (an individual's mean) exceeds `tol`. `max_steps`
    bounds the steps of both together.

    Types are in order of their shares, the most frequent first: the likelihood is the same in any order. `l2` adds
    ½·l2·‖θ_g‖² for each type; it helps if a type is so consistent that its parameters have no finite maximum. "cv"
    chooses it by cross-validation over individuals. If a type adds nothing to the likelihood, because no individual is
    of it or another type acts alike, there is no unique finite maximum, and the status is UNBOUNDED.
    """

    num_types: int = 2
    num_starts: int = 5
    l2: float | Literal["cv"] = 0.0
    tol: float = 1e-7
    max_steps: int = 500
    start: Start = "auto"
    progress: bool | None = None

    def __check_init__(self) -> None:
        checks.count("num_types", self.num_types)
        checks.count("num_starts", self.num_starts)
        if self.l2 != "cv":
            checks.positive("l2", self.l2, zero=True)
        checks.positive("tol", self.tol)
        checks.count("max_steps", self.max_steps)
        checks.one_of("start", self.start, ("auto", "demos", "mdp"))

    @property
    def maximises_likelihood(self) -> bool:
        return True

    def settings(self) -> list[tuple[str, Any]]:
        return [("num_types", self.num_types), ("num_starts", self.num_starts), ("l2", self.l2)]

    def fit(
        self,
        mdp: MDP,
        reward: AbstractReward,
        demos: Demonstrations,
        *,
        key: PRNGKeyArray,
        individual: Any = None,
        held_out: Demonstrations | None = None,
        callback: Callback | None = None,
    ) -> MixtureFit:
        """Learn a reward for each type, and the shares of types, from demonstrations.

        `individual` labels the individual of each episode, if some have several: their episodes are of one type. An
        individual counts as often as its weight says, which is the same for all of its episodes; one of weight 0 has no
        effect on the fit, but its posterior is reported. `key` draws the starts. `held_out` episodes, an individual
        each, are scored and never learned from; for individuals with several see `MixtureFit.score`. `callback`
        receives every iterate from each start on, and may return True to stop.
        """
        started = time.perf_counter()
        if not isinstance(mdp, MDP) or not isinstance(demos, Demonstrations):
            raise TypeError("A mixture is fitted to one MDP and Demonstrations.")
        with scope():
            (bound,), (expert,) = pair_up(mdp, reward, demos, None, self.start)
            names, person = individuals_of(demos, individual)
            weights = weights_of(demos, person)
            if np.count_nonzero(weights) < self.num_types:
                raise ValueError(
                    f"{self.num_types} types need as many individuals of positive weight, but there are "
                    f"{np.count_nonzero(weights)}."
                )
            mixture = mixture_of(bound, expert, person, num_types=self.num_types)
            single, first = make_problem([mixture.likelihood], (bound,), (expert,), 0.0)
            chosen = self._cross_validate(mixture, single, first, key) if self.l2 == "cv" else None
            mixture, single = _penalised(mixture, single, float(self.l2) if chosen is None else chosen.l2)
            problem = mixture.to_problem(single)
            with Session(type(self).__name__, total=self.max_steps, watch=Watch(self.progress, callback)) as session:
                end, history = self._search(mixture, single, first, key, session, individuals=float(weights.sum()))
            theta, _ = problem.flattening.unflatten(jnp.asarray(end.at.x) / problem.scale)
            joint, scores, hessian = evidence(mixture, problem, end.at)
            rewards = tuple(bound.with_parameters(on_host(single.flattening.unflatten(row))) for row in theta)
            fit = MixtureFit(
                estimator=self,
                rewards=rewards,
                plans=tuple(soft_plan_of(expert.mdp, learned) for learned in rewards),
                shares=mixture.shares(end.at.x),
                posterior=softmax(joint, axis=1),
                individuals=names,
                weights=weights,
                expert=expert,
                status=end.status,
                certificate=Certificate(
                    float(largest(end.at.gradient, np.asarray(problem.scale))),
                    newton_decrement=end.newton_decrement,
                ),
                log_likelihood=float(weights @ np.logaddexp.reduce(joint, axis=1)),
                history=History.of(history),
                seconds=time.perf_counter() - started,
                hessian=hessian * weights.sum(),
                scores=scores,
                reason=end.reason,
                cross_validation=chosen,
            )
        if held_out is not None:
            fit = dataclasses.replace(fit, held_out_log_likelihood=fit.held_out(held_out)[0])
        warn_unless_success(end.status, end.reason)
        return fit

    def _search(
        self,
        mixture: Mixture,
        single: Problem,
        x: Float[np.ndarray, " K"],
        key: PRNGKeyArray,
        session: Session,
        *,
        individuals: float,
    ) -> tuple[Assessment, list[Iterate]]:
        """The best of several short runs of EM, continued to the maximum, with its history.

        If the best run has no finite maximum, the others are continued as well.
        """
        x = minimise(Newton(), single, x, self.tol).at.x
        runs = []
        for draw in _random_starts(single, x, np.asarray(jr.normal(key, (self.num_starts, self.num_types, len(x))))):
            run = np.concatenate([draw.ravel(), np.zeros(self.num_types - 1)])
            session.history = []
            state, _ = session.run(EM(mixture, single, run, self.tol), limit=min(SHORT_RUN, self.max_steps) - 1)
            runs.append((state.at, session.history))
        runs.sort(key=lambda run: run[0].loss)
        ends = []
        for at, history in runs:
            session.history = history
            ends.append((self._maximise(mixture, single, at.x, session, individuals), session.history))
            if ends[0][0].status not in (Status.UNBOUNDED, Status.STALLED):
                break
        return min(ends, key=lambda end: end[0].at.loss)

    def _maximise(
        self, mixture: Mixture, single: Problem, x: Float[np.ndarray, " P"], session: Session, individuals: float
    ) -> Assessment:
        """The assessed maximum near x, by EM and then by Newton's method."""
        problem = mixture.to_problem(single)
        # The last iterate is removed, because the next run records its start, which is the same point.
        del session.history[-1:]
        state, _ = session.run(EM(mixture, single, x, self.tol), limit=self.max_steps - 1)
        x = mixture.by_share(state.at.x)
        # The gradient of a tiny share is tiny, too, so that the search would stop there; a larger share falls or grows.
        odds = slice(len(x) - self.num_types + 1, None)
        x[odds] = np.maximum(x[odds], np.log(MIN_INDIVIDUALS / individuals))
        del session.history[-1:]
        solver = Newton(max_steps=self.max_steps)
        found = minimise(solver, problem, x, self.tol, session)
        lower = _lower_than_saddle(problem, found.at) if found.status.success else None
        if lower is not None:
            found = minimise(solver, problem, lower, self.tol, session)
        found = found._replace(at=problem.evaluate(mixture.by_share(found.at.x)))
        return assess_mixture(mixture, problem, found, session, tol=self.tol, individuals=individuals)

    def _cross_validate(
        self, mixture: Mixture, single: Problem, first: Float[np.ndarray, " K"], key: PRNGKeyArray
    ) -> CrossValidation:
        """The l2 with the best held-out log likelihood over five folds of individuals."""
        weights = np.asarray(mixture.weights)
        (counted,) = np.nonzero(weights)
        if len(counted) < FOLDS:
            raise ValueError(f"`l2='cv'` needs {FOLDS} individuals to hold out in turn, but there are {len(counted)}.")
        fold = np.full(len(weights), -1)
        fold[counted] = np.random.default_rng(0).permutation(len(counted)) % FOLDS
        scores = np.zeros(len(CANDIDATES))
        for k in range(FOLDS):
            training, x = mixture.with_weights(weights * (fold != k)), None
            # From the weakest penalty to the strongest, each fit starts where the last ended: strong ones make types
            # alike.
            for index, l2 in enumerate(CANDIDATES):
                penalised, one = _penalised(training, single, l2)
                if x is None:
                    end, _ = self._search(penalised, one, first, key, Session(""), individuals=len(counted))
                else:
                    end = self._maximise(penalised, one, x, Session(""), len(counted))
                x = end.at.x
                joint = np.asarray(joint_at(mixture, penalised.to_problem(one), jnp.asarray(x)))
                scores[index] += (weights * (fold == k)) @ np.logaddexp.reduce(joint, axis=1)
        best = int(np.argmax(scores))
        each = scores[best] / np.asarray(mixture.likelihood.weights).sum()
        return CrossValidation(CANDIDATES[best], float(each))


def _penalised(mixture: Mixture, single: Problem, l2: float) -> tuple[Mixture, Problem]:
    """The mixture, and the problem of a single type, with a penalty."""
    mixture = eqx.tree_at(lambda mixture: mixture.l2, mixture, jnp.asarray(l2))
    new = (mixture.likelihood, jnp.asarray(l2))
    return mixture, eqx.tree_at(lambda problem: (problem.objectives[0], problem.l2), single, new)


def _lower_than_saddle(problem: Problem, at: Evaluation) -> Evaluation | None:
    """A point near a saddle point with a lower loss; None at a minimum.

    Where two types are equal the gradient is zero, though the loss may be lower where they differ.
    """
    sizes, axes = np.linalg.eigh(problem.hessian(at))
    if sizes.min(initial=0.0) >= -SADDLE * np.abs(sizes).max(initial=0.0):
        return None
    nearby = [problem.evaluate(at.x + length * axes[:, 0]) for length in (0.3, -0.3, 0.03, -0.03)]
    lowest = min(nearby, key=lambda point: point.loss if np.isfinite(point.loss) else np.inf)
    return lowest if lowest.loss < at.loss else None


def _random_starts(
    single: Problem, x: Float[np.ndarray, " K"], normal: Float[np.ndarray, "starts G K"]
) -> Float[np.ndarray, "starts G K"]:
    """Parameters around the one-type estimate, with the covariance that one individual's own estimate would have."""
    sizes, axes = np.linalg.eigh(single.hessian(single.evaluate(x)))
    identified = sizes > 1e-8 * np.abs(sizes).max()
    spread = np.where(identified, 1 / np.sqrt(np.where(identified, sizes, 1.0)), 0.0)
    return x + (normal * spread) @ axes.T
