"""Unobserved types: a finite mixture of rewards, by expectation and maximisation, finished by Newton's method."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.special import softmax

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.status import Status, complain
from irlax.estimators.tabular.cross_validation import CANDIDATES, FOLDS
from irlax.estimators.tabular.expert import Start
from irlax.estimators.tabular.fit import Certificate, Extra, History
from irlax.estimators.tabular.fitting import matched, on_host, posed
from irlax.estimators.tabular.mce import planned
from irlax.estimators.tabular.mixture_fit import MixtureFit
from irlax.estimators.tabular.mixture_model import Mixture, evidence, individuals_of, joint_at, mixture_of, weights_of
from irlax.estimators.tabular.mixture_verdict import SADDLE, Verdict, verdict
from irlax.estimators.tabular.problem import Evaluation, Problem, largest
from irlax.estimators.tabular.solvers import Iterate, Newton, Watch
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.progress import progress
from irlax.rewards import AbstractReward
from irlax.typing import Float, PRNGKeyArray

#: EM steps from each random start, before the best of them goes on (Biernacki, Celeux and Govaert 2003).
SHORT_RUN = 15
#: Newton steps of each weighted fit: the likelihood must rise, it need not be at its top (Dempster et al. 1977).
M_STEPS = 3
#: Once a step gains less than this of log likelihood an individual, EM has done its part.
EM_GAIN = 1e-4
#: Newton's method starts with at least about so much of an individual in each type.
VISIBLE = 1e-3


class MixtureIRL(eqx.Module):
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

    def fit(
        self,
        mdp: MDP,
        reward: AbstractReward,
        demos: Demonstrations,
        *,
        key: PRNGKeyArray,
        individual: Any = None,
        held_out: Demonstrations | None = None,
    ) -> MixtureFit:
        """Learn a reward for each type, and the shares of types, from demonstrations.

        `individual` labels the individual of each episode, if some have several: their episodes are of one type. A
        weight counts an individual as often, so it is the same for all of its episodes; of an individual of weight 0
        nothing is learned, but its posterior is reported. `key` draws the starts. `held_out` episodes, an individual
        each, are scored and never learned from; for individuals with several see `MixtureFit.score`.
        """
        began = time.perf_counter()
        if not isinstance(mdp, MDP) or not isinstance(demos, Demonstrations):
            raise TypeError("A mixture is fitted to one MDP and Demonstrations.")
        with scope():
            (bound,), (expert,) = matched(mdp, reward, demos, None, self.start)
            names, person = individuals_of(demos, individual)
            weights = weights_of(demos, person)
            if np.count_nonzero(weights) < self.num_types:
                raise ValueError(
                    f"{self.num_types} types need as many individuals of positive weight, but there are "
                    f"{np.count_nonzero(weights)}."
                )
            mixture = mixture_of(bound, expert, person, num_types=self.num_types)
            one, first = posed([mixture.likelihood], (bound,), (expert,), 0.0)
            l2, extras = (float(self.l2), ()) if self.l2 != "cv" else self._cross_validated(mixture, one, first, key)
            mixture, one = _penalised(mixture, one, l2)
            with progress("MixtureIRL", self.max_steps, shown=self.progress) as bar:

                def tell(iterate: Iterate) -> None:
                    bar.update(iterate.step, f"loss {iterate.loss:.6g}  gradient {iterate.gradient:.2g}")

                end, watch = self._search(mixture, one, first, key, tell, individuals=float(weights.sum()))
            theta, _ = watch.problem.flattening.unflatten(jnp.asarray(end.at.x) / watch.problem.scale)
            joint, scores, hessian = evidence(mixture, watch.problem, end.at)
            rewards = tuple(bound.with_parameters(on_host(one.flattening.unflatten(row))) for row in theta)
            fit = MixtureFit(
                settings=(("num_types", self.num_types), ("num_starts", self.num_starts), ("l2", l2)),
                rewards=rewards,
                plans=tuple(planned(expert.mdp, learned) for learned in rewards),
                shares=mixture.shares(end.at.x),
                posterior=softmax(joint, axis=1),
                individuals=names,
                weights=weights,
                expert=expert,
                status=end.status,
                certificate=Certificate(
                    float(largest(end.at.gradient, np.asarray(watch.problem.scale))),
                    newton_decrement=end.newton_decrement,
                ),
                log_likelihood=float(weights @ np.logaddexp.reduce(joint, axis=1)),
                history=History(
                    np.array([iterate.loss for iterate in watch.history]),
                    np.array([iterate.gradient for iterate in watch.history]),
                ),
                seconds=time.perf_counter() - began,
                hessian=hessian * weights.sum(),
                scores=scores,
                reason=end.reason,
                extras=extras,
            )
        if held_out is not None:
            fit = dataclasses.replace(fit, held_out_log_likelihood=fit.held_out(held_out)[0])
        complain(end.status, end.reason)
        return fit

    def _search(
        self,
        mixture: Mixture,
        one: Problem,
        x: Float[np.ndarray, " K"],
        key: PRNGKeyArray,
        tell: Callable[[Iterate], None],
        *,
        individuals: float,
    ) -> tuple[Verdict, Watch]:
        """The best of several short runs of EM, taken to the top; all of them, if the best has no top."""
        x = Newton().minimise(one, x, Watch(one, self.tol, ())).at.x
        problem = mixture.posed(one)
        runs = []
        for draw in _scattered(one, x, np.asarray(jr.normal(key, (self.num_starts, self.num_types, len(x))))):
            watch = Watch(problem, self.tol, (tell,))
            run = np.concatenate([draw.ravel(), np.zeros(self.num_types - 1)])
            runs.append((_climb(mixture, one, run, watch, min(SHORT_RUN, self.max_steps)), watch))
        runs.sort(key=lambda run: run[1].history[-1].loss)
        ends = []
        for run, watch in runs:
            ends.append((self._top(mixture, one, run, watch, individuals), watch))
            if ends[0][0].status not in (Status.UNBOUNDED, Status.STALLED):
                break
        return min(ends, key=lambda end: end[0].at.loss)

    def _top(
        self, mixture: Mixture, one: Problem, x: Float[np.ndarray, " P"], watch: Watch, individuals: float
    ) -> Verdict:
        """From x to the top, by EM and then by Newton's method, and what there is to be said of it."""
        x = mixture.by_share(_climb(mixture, one, x, watch, self.max_steps))
        # Of a share that is next to nothing the gradient is, too: from one that can be seen it falls or grows.
        odds = slice(len(x) - self.num_types + 1, None)
        x[odds] = np.maximum(x[odds], np.log(VISIBLE / individuals))
        # The solver notes where it starts.
        watch.history.pop()
        solver, problem = Newton(max_steps=self.max_steps), watch.problem
        found = solver.minimise(problem, x, watch)
        below = _off_saddle(problem, found.at) if found.status.success else None
        if below is not None:
            found = solver.go_on(problem, below, watch)
        found = found._replace(at=problem.evaluate(mixture.by_share(found.at.x)))
        return verdict(mixture, found, watch, individuals)

    def _cross_validated(
        self, mixture: Mixture, one: Problem, first: Float[np.ndarray, " K"], key: PRNGKeyArray
    ) -> tuple[float, tuple[Extra, ...]]:
        """The l2 with the best held-out log likelihood a choice over five folds of individuals, and that likelihood."""
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
                    end, _ = self._search(penalised, single, first, key, _quiet, individuals=len(counted))
                else:
                    end = self._top(penalised, single, x, Watch(penalised.posed(single), self.tol, ()), len(counted))
                x = end.at.x
                joint = np.asarray(joint_at(mixture, penalised.posed(single), jnp.asarray(x)))
                scores[index] += (weights * (fold == k)) @ np.logaddexp.reduce(joint, axis=1)
        best = int(np.argmax(scores))
        each = scores[best] / np.asarray(mixture.likelihood.weights).sum()
        facts = (("l2 by cross-validation", CANDIDATES[best]), ("held-out log likelihood a choice", float(each)))
        return CANDIDATES[best], tuple(Extra(*fact) for fact in facts)


def _quiet(iterate: Iterate) -> None:
    """Tell nobody."""


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


def _climb(
    mixture: Mixture, one: Problem, x: Float[np.ndarray, " P"], watch: Watch, limit: int
) -> Float[np.ndarray, " P"]:
    """EM from x until a step gains little, or the watch has seen `limit` steps."""
    if not watch.history:
        _note(watch, x)
    gain = np.inf
    while len(watch.history) < limit and gain >= EM_GAIN:
        x = _em_step(mixture, one, x, watch.tol)
        _note(watch, x)
        gain = watch.history[-2].loss - watch.history[-1].loss
    return x


def _note(watch: Watch, x: Float[np.ndarray, " P"]) -> None:
    at = watch.problem.evaluate(x)
    watch.saw(x, at.loss, at.gradient)


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
        after.append(Newton(max_steps=M_STEPS).minimise(weighted, mine, Watch(weighted, tol / 10, ())).at.x)
    # A type that nobody is of keeps a share that can be seen: log 0 would be for ever.
    log_shares = np.log(np.maximum(shares, 1e-12))
    return np.concatenate([*after, log_shares[1:] - log_shares[0]])
