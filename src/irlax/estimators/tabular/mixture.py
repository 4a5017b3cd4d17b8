"""Unobserved types: a finite mixture of rewards, by expectation and maximisation, finished by Newton's method."""

import dataclasses
import time
from typing import Any, Literal, NamedTuple

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
from irlax.estimators.tabular.expert import Start
from irlax.estimators.tabular.fit_by_minimising import on_host, pose
from irlax.estimators.tabular.mce import planned
from irlax.estimators.tabular.mixture_fit import MixtureFit
from irlax.estimators.tabular.mixture_model import Mixture, evidence, individuals_of, joint_at, mixture_of, weights_of
from irlax.estimators.tabular.mixture_verdict import SADDLE, Verdict, verdict
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.problem import Evaluation, Problem, largest
from irlax.estimators.tabular.solvers import Newton, minimise
from irlax.estimators.tabular.solvers.solver import minimisation_iterate
from irlax.iteration import AbstractIteration, Callback, History, Iterate, Session, Watch
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.status import Status, warn_unless_success
from irlax.typing import Float, PRNGKeyArray

#: EM steps from each random start, before the best of them goes on (Biernacki, Celeux and Govaert 2003).
SHORT_RUN = 15
#: Newton steps of each weighted fit: the likelihood must rise, it need not be at its top (Dempster et al. 1977).
M_STEPS = 3
#: Once a step gains less than this of log likelihood an individual, EM has done its part.
EM_GAIN = 1e-4
#: Newton's method starts with at least about so much of an individual in each type.
VISIBLE = 1e-3


@stored("mixture-irl")
class MixtureIRL(AbstractTabularIRL):
    r"""Infer the rewards of several unobserved types of individuals, and how frequent the types are.

    Individual i is of type g with probability s_g, keeps its type, and is soft-optimal for its type's reward:

    $$\ell(\theta, s) = \sum_i w_i \log \sum_g s_g \prod_{t} \pi_{\theta_g}(a_{it}|s_{it})$$

    where the product runs over all observed choices of the individual, each counted once. Heckman and Singer (1984);
    Arcidiacono and Jones (2003).

    EM (Dempster, Laird and Rubin 1977) alternates between the posterior of each individual's type and weighted fits
    of each type, warm-started from the last; it never lowers the likelihood. There is more than one local maximum:
    `num_starts` short runs begin at parameters drawn around the one-type estimate, as widely as the estimates of
    single individuals would scatter, and the best of them goes on. Near the top, where EM crawls, Newton's method on
    ℓ itself takes over until no entry of its gradient (an individual's mean) exceeds `tol`. `max_steps` bounds the
    steps of both together.

    Types are in order of their shares, the most frequent first: the likelihood does not know them by name. `l2` adds
    ½·l2·‖θ_g‖² for each type; it helps where a type is so consistent that its parameters have no finite maximum. "cv"
    chooses it by cross-validation over individuals. A type that adds nothing to the likelihood, since nobody is of it
    or another acts as it does, leaves the maximum without a finite place: the status is UNBOUNDED.
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

        `individual` labels the individual of each episode, if some have several: their episodes are of one type. A
        weight counts an individual as often, so it is the same for all of its episodes; of an individual of weight 0
        nothing is learned, but its posterior is reported. `key` draws the starts. `held_out` episodes, an individual
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
            one, first = pose([mixture.likelihood], (bound,), (expert,), 0.0)
            chosen = self._cross_validated(mixture, one, first, key) if self.l2 == "cv" else None
            mixture, one = _penalised(mixture, one, float(self.l2) if chosen is None else chosen.l2)
            problem = mixture.posed(one)
            with Session(type(self).__name__, total=self.max_steps, watch=Watch(self.progress, callback)) as session:
                end, history = self._search(mixture, one, first, key, session, individuals=float(weights.sum()))
            theta, _ = problem.flattening.unflatten(jnp.asarray(end.at.x) / problem.scale)
            joint, scores, hessian = evidence(mixture, problem, end.at)
            rewards = tuple(bound.with_parameters(on_host(one.flattening.unflatten(row))) for row in theta)
            fit = MixtureFit(
                estimator=self,
                rewards=rewards,
                plans=tuple(planned(expert.mdp, learned) for learned in rewards),
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
        one: Problem,
        x: Float[np.ndarray, " K"],
        key: PRNGKeyArray,
        session: Session,
        *,
        individuals: float,
    ) -> tuple[Verdict, list[Iterate]]:
        """The best of several short runs of EM, taken to the top, with the way to it; all of them, if it has no top."""
        x = minimise(Newton(), one, x, self.tol).at.x
        runs = []
        for draw in _scattered(one, x, np.asarray(jr.normal(key, (self.num_starts, self.num_types, len(x))))):
            run = np.concatenate([draw.ravel(), np.zeros(self.num_types - 1)])
            session.history = []
            state, _ = session.run(EM(mixture, one, run, self.tol), limit=min(SHORT_RUN, self.max_steps) - 1)
            runs.append((state.at, session.history))
        runs.sort(key=lambda run: run[0].loss)
        ends = []
        for at, history in runs:
            session.history = history
            ends.append((self._top(mixture, one, at.x, session, individuals), session.history))
            if ends[0][0].status not in (Status.UNBOUNDED, Status.STALLED):
                break
        return min(ends, key=lambda end: end[0].at.loss)

    def _top(
        self, mixture: Mixture, one: Problem, x: Float[np.ndarray, " P"], session: Session, individuals: float
    ) -> Verdict:
        """From x to the top, by EM and then by Newton's method, and what there is to be said of it."""
        problem = mixture.posed(one)
        # What starts where another has stopped records that point again.
        del session.history[-1:]
        state, _ = session.run(EM(mixture, one, x, self.tol), limit=self.max_steps - 1)
        x = mixture.by_share(state.at.x)
        # Of a share that is next to nothing the gradient is, too: from one that can be seen it falls or grows.
        odds = slice(len(x) - self.num_types + 1, None)
        x[odds] = np.maximum(x[odds], np.log(VISIBLE / individuals))
        del session.history[-1:]
        solver = Newton(max_steps=self.max_steps)
        found = minimise(solver, problem, x, self.tol, session)
        below = _off_saddle(problem, found.at) if found.status.success else None
        if below is not None:
            found = minimise(solver, problem, below, self.tol, session)
        found = found._replace(at=problem.evaluate(mixture.by_share(found.at.x)))
        return verdict(mixture, problem, found, session, tol=self.tol, individuals=individuals)

    def _cross_validated(
        self, mixture: Mixture, one: Problem, first: Float[np.ndarray, " K"], key: PRNGKeyArray
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
            training, x = mixture.weighing(weights * (fold != k)), None
            # From the weakest penalty to the strongest, each from where the last ended: strong ones make types alike.
            for index, l2 in enumerate(CANDIDATES):
                penalised, single = _penalised(training, one, l2)
                if x is None:
                    end, _ = self._search(penalised, single, first, key, Session(""), individuals=len(counted))
                else:
                    end = self._top(penalised, single, x, Session(""), len(counted))
                x = end.at.x
                joint = np.asarray(joint_at(mixture, penalised.posed(single), jnp.asarray(x)))
                scores[index] += (weights * (fold == k)) @ np.logaddexp.reduce(joint, axis=1)
        best = int(np.argmax(scores))
        each = scores[best] / np.asarray(mixture.likelihood.weights).sum()
        return CrossValidation(CANDIDATES[best], float(each))


def _penalised(mixture: Mixture, one: Problem, l2: float) -> tuple[Mixture, Problem]:
    """The mixture, and the problem of one type with its weights, with a penalty."""
    mixture = eqx.tree_at(lambda mixture: mixture.l2, mixture, jnp.asarray(l2))
    return mixture, eqx.tree_at(lambda one: (one.objectives[0], one.l2), one, (mixture.likelihood, jnp.asarray(l2)))


def _off_saddle(problem: Problem, at: Evaluation) -> Evaluation | None:
    """A lower point beside a saddle point; None beside a minimum.

    Where types are exactly alike the gradient is zero, though to let them differ may be better.
    """
    sizes, axes = np.linalg.eigh(problem.hessian(at))
    if sizes.min(initial=0.0) >= -SADDLE * np.abs(sizes).max(initial=0.0):
        return None
    beside = [problem.evaluate(at.x + length * axes[:, 0]) for length in (0.3, -0.3, 0.03, -0.03)]
    lowest = min(beside, key=lambda point: point.loss if np.isfinite(point.loss) else np.inf)
    return lowest if lowest.loss < at.loss else None


class EMState(NamedTuple):
    """Where expectation and maximisation is, and what the last step gained of log likelihood an individual."""

    at: Evaluation
    gain: float


class EM(AbstractIteration[EMState]):
    """Expectation and maximisation, until a step gains little."""

    mixture: Mixture
    one: Problem
    start: Float[np.ndarray, " P"]
    tol: float

    def init(self) -> EMState:
        return EMState(self.mixture.posed(self.one).evaluate(self.start), np.inf)

    def step(self, state: EMState) -> EMState:
        x = _em_step(self.mixture, self.one, state.at.x, self.tol)
        at = self.mixture.posed(self.one).evaluate(x)
        return EMState(at, state.at.loss - at.loss)

    def status(self, state: EMState) -> Status | None:
        # Newton's method goes on from here; this is the end of its own part.
        return Status.STEPS_TAKEN if state.gain < EM_GAIN else None

    def iterates(self, state: EMState) -> list[Iterate]:
        return [minimisation_iterate(self.mixture.posed(self.one), state.at)]


def _scattered(
    one: Problem, x: Float[np.ndarray, " K"], normal: Float[np.ndarray, "starts G K"]
) -> Float[np.ndarray, "starts G K"]:
    """Parameters around the one-type estimate, with the covariance that one individual's own estimate would have."""
    sizes, axes = np.linalg.eigh(one.hessian(one.evaluate(x)))
    seen = sizes > 1e-8 * np.abs(sizes).max()
    spread = np.where(seen, 1 / np.sqrt(np.where(seen, sizes, 1.0)), 0.0)
    return x + (normal * spread) @ axes.T


def _em_step(mixture: Mixture, one: Problem, x: Float[np.ndarray, " P"], tol: float) -> Float[np.ndarray, " P"]:
    """Posteriors at x, then shares and weighted fits of the types given these."""
    posterior = softmax(np.asarray(joint_at(mixture, mixture.posed(one), jnp.asarray(x))), axis=1)
    shares = np.asarray(mixture.weights) @ posterior
    size = len(one.scale)
    after = []
    for g in range(mixture.num_types):
        # Per individual of the type: a rare one is fitted as exactly as a frequent one.
        share = max(float(shares[g]), 1e-300)
        weighted = eqx.tree_at(
            lambda problem: (problem.objectives[0].weights, problem.l2),
            one,
            (jnp.asarray(mixture.grid(posterior[:, g]) / share), one.l2 / share),
        )
        mine = x[g * size : (g + 1) * size]
        after.append(minimise(Newton(max_steps=M_STEPS), weighted, mine, tol / 10).at.x)
    # A type that nobody is of keeps a share that can be seen: log 0 would be for ever.
    log_shares = np.log(np.maximum(shares, 1e-12))
    return np.concatenate([*after, log_shares[1:] - log_shares[0]])
