"""Unobserved types: a finite mixture of rewards, by expectation and maximisation, finished by Newton's method."""

import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import logsumexp
from scipy.special import softmax

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.base import Status, complain
from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.fit import History
from irlax.estimators.tabular.fitting import judged, matched, on_host, posed
from irlax.estimators.tabular.mce import planned
from irlax.estimators.tabular.mixture_fit import MixtureFit
from irlax.estimators.tabular.objectives import AbstractObjective, Likelihood, Memory
from irlax.estimators.tabular.problem import Evaluation, Flattening, Problem
from irlax.estimators.tabular.solvers import Minimum, Newton, Watch
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.progress import progress
from irlax.rewards import AbstractReward
from irlax.typing import Array, Float, Int, PRNGKeyArray

#: EM steps from each random start, before the best of them goes on (Biernacki, Celeux and Govaert 2003).
SHORT_RUN = 15
#: Newton steps of each weighted fit: the likelihood must rise, it need not be at its top (Dempster et al. 1977).
M_STEPS = 3
#: Once a step gains less than this of log likelihood an individual, EM has done its part.
EM_GAIN = 1e-4


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
    ½·l2·‖θ_g‖² for each type; it helps where a type is so consistent that its parameters have no finite maximum.
    """

    num_types: int = 2
    num_starts: int = 5
    l2: float = 0.0
    tol: float = 1e-7
    max_steps: int = 500
    start: Start = "auto"
    progress: bool | None = None

    def __check_init__(self) -> None:
        checks.count("num_types", self.num_types)
        checks.count("num_starts", self.num_starts)
        checks.positive("l2", self.l2, zero=True)
        checks.positive("tol", self.tol)
        checks.count("max_steps", self.max_steps)
        checks.one_of("start", self.start, ("auto", "demos", "mdp"))

    def fit(
        self, mdp: MDP, reward: AbstractReward, demos: Demonstrations, *, key: PRNGKeyArray, individual: Any = None
    ) -> MixtureFit:
        """Learn a reward for each type, and the shares of types, from demonstrations.

        `individual` labels the individual of each episode, if some have several: their episodes are of one type. A
        weight counts an individual as often, so it is the same for all of its episodes. `key` draws the starts.
        """
        began = time.perf_counter()
        if not isinstance(mdp, MDP) or not isinstance(demos, Demonstrations):
            raise TypeError("A mixture is fitted to one MDP and Demonstrations.")
        with scope():
            (bound,), (expert,) = matched(mdp, reward, demos, None, self.start)
            names, person = _individuals(demos, individual)
            if len(names) < self.num_types:
                raise ValueError(f"{self.num_types} types need as many individuals, but there are {len(names)}.")
            mixture = _mixture(bound, expert, person, num_types=self.num_types, l2=self.l2)
            one, x = posed([mixture.likelihood], (bound,), (expert,), self.l2)
            with progress("MixtureIRL", self.max_steps, shown=self.progress) as bar:
                x, watch, status = self._search(mixture, one, x, key, bar)
            problem = watch.problem
            x = _by_share(mixture, x)
            found = Minimum(problem.evaluate(x), status, watch.history)
            status, certificate = judged(problem, found, l2=0.0, convex=False)
            theta, _ = problem.flattening.unflatten(jnp.asarray(x) / problem.scale)
            joint, scores, hessian = _evidence(mixture, problem, found.at)
            rewards = tuple(bound.with_parameters(on_host(one.flattening.unflatten(row))) for row in theta)
        weights = _weights_of(demos, person)
        fit = MixtureFit(
            settings=tuple((name, getattr(self, name)) for name in ("num_types", "num_starts", "l2")),
            rewards=rewards,
            plans=tuple(planned(expert.mdp, learned) for learned in rewards),
            shares=_shares(mixture, x),
            posterior=softmax(joint, axis=1),
            individuals=names,
            weights=weights,
            expert=expert,
            status=status,
            certificate=certificate,
            log_likelihood=float(weights @ np.logaddexp.reduce(joint, axis=1)),
            history=History(
                np.array([iterate.loss for iterate in watch.history]),
                np.array([iterate.gradient for iterate in watch.history]),
            ),
            seconds=time.perf_counter() - began,
            hessian=hessian * weights.sum(),
            scores=scores * weights[:, None],
        )
        advice = "A type may be empty or perfectly consistent: fit fewer types, or pass `l2=`."
        complain(
            status, advice if status is Status.UNBOUNDED else f"Its largest gradient is {certificate.gradient:.2g}."
        )
        return fit

    def _search(
        self, mixture: "Mixture", one: Problem, x: Float[np.ndarray, " K"], key: PRNGKeyArray, bar: Any
    ) -> tuple[Float[np.ndarray, " P"], Watch, Status]:
        """The best of several short runs of EM, taken to the top."""
        x = Newton().minimise(one, x, Watch(one, self.tol, ())).at.x
        problem = mixture.posed(one)
        tell = (lambda iterate: bar.update(iterate.step, f"loss {iterate.loss:.6g}  gradient {iterate.gradient:.2g}"),)
        runs = []
        for draw in _scattered(one, x, np.asarray(jr.normal(key, (self.num_starts, self.num_types, len(x))))):
            watch = Watch(problem, self.tol, tell)
            run = np.concatenate([draw.ravel(), np.zeros(self.num_types - 1)])
            runs.append((_climb(mixture, one, run, watch, min(SHORT_RUN, self.max_steps)), watch))
        run, watch = min(runs, key=lambda run: run[1].history[-1].loss)
        run = _climb(mixture, one, run, watch, self.max_steps)
        # The solver notes where it starts.
        watch.history.pop()
        found = Newton(max_steps=self.max_steps).minimise(problem, run, watch)
        return found.at.x, watch, found.status


def _climb(
    mixture: "Mixture", one: Problem, x: Float[np.ndarray, " P"], watch: Watch, limit: int
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


class Mixture(AbstractObjective):
    """Minus the mean log likelihood of an individual, as a function of (θ by type [G, K], log-odds of shares [G−1])."""

    likelihood: Likelihood
    flattening: Flattening
    #: Individual `person[j]` made the choice `cell[j]` of the grid `count[j]` times.
    person: Int[Array, " m"]
    cell: Int[Array, " m"]
    count: Float[Array, " m"]
    #: Of each individual; they sum to 1.
    weights: Float[Array, " N"]
    l2: Float[Array, ""]
    num_types: int = eqx.field(static=True)

    def __call__(self, parameters: Any, memory: Memory = None) -> tuple[Float[Array, ""], Memory]:
        penalty = 0.5 * self.l2 * (parameters[0] ** 2).sum()
        return penalty - self.weights @ logsumexp(self.joint(parameters), axis=1), None

    def joint(self, parameters: Any) -> Float[Array, "N G"]:
        """log s_g + log likelihood of the individual's choices under type g."""
        theta, odds = parameters
        log_policy = jax.vmap(lambda row: self.likelihood.log_policy(self.flattening.unflatten(row))[0].ravel())(theta)
        choices = jax.vmap(lambda row: jnp.zeros_like(self.weights).at[self.person].add(self.count * row[self.cell]))
        return choices(log_policy).T + log_shares(odds)

    def posed(self, one: Problem) -> Problem:
        """The problem in all parameters, scaled as that of one type is."""
        tree = (np.zeros((self.num_types, len(one.scale))), np.zeros(self.num_types - 1))
        scale = jnp.concatenate([jnp.tile(one.scale, self.num_types), jnp.ones(self.num_types - 1)])
        return Problem((self,), jnp.ones(1), Flattening.of(tree), scale, jnp.zeros(()))

    def grid(self, posterior: Float[np.ndarray, " N"]) -> Float[np.ndarray, "T M"]:
        """The weight of each distinct choice if individuals count by their posterior."""
        each = (np.asarray(self.weights) * posterior)[np.asarray(self.person)] * np.asarray(self.count)
        shape = self.likelihood.weights.shape
        return np.bincount(np.asarray(self.cell), weights=each, minlength=int(np.prod(shape))).reshape(shape)


def log_shares(odds: Float[Array, " g"]) -> Float[Array, " g+1"]:
    """Shares from log-odds against the first type."""
    return jax.nn.log_softmax(jnp.concatenate([jnp.zeros(1), odds]))


def _individuals(demos: Demonstrations, individual: Any) -> tuple[np.ndarray, Int[np.ndarray, " N"]]:
    """The labels of individuals, and the individual of each episode."""
    if individual is None:
        labels = np.arange(demos.num_episodes) if demos.labels is None else demos.labels
        return labels, np.arange(demos.num_episodes)
    labels = np.asarray(individual)
    checks.has_shape("individual", labels, (demos.num_episodes,), "a label for each episode")
    if labels.dtype.kind not in "iuU":
        raise TypeError(f"`individual` must hold whole numbers or text, but has dtype {labels.dtype}.")
    names, person = np.unique(labels, return_inverse=True)
    differs = demos.weights != _weights_of(demos, person)[person]
    if differs.any():
        raise ValueError(f"An individual has one weight, but the episodes of {checks.some(labels[differs])} differ.")
    return names, person


def _weights_of(demos: Demonstrations, person: Int[np.ndarray, " N"]) -> Float[np.ndarray, " I"]:
    weights = np.zeros(person.max() + 1)
    weights[person] = demos.weights
    return weights


def _mixture(
    reward: AbstractReward, expert: Expert, person: Int[np.ndarray, " N"], *, num_types: int, l2: float
) -> Mixture:
    demos, seen = expert.demos, expert.choices(discounted=False)
    assert demos is not None and seen.places is not None
    period, column = seen.places
    code = person[demos.episode] * seen.weights.size + period * seen.weights.shape[1] + column
    distinct, count = np.unique(code, return_counts=True)
    who, cell = np.divmod(distinct, seen.weights.size)
    weights = _weights_of(demos, person)
    weights = weights / weights.sum()
    likelihood = Likelihood(
        expert.mdp,
        reward.fold(expert.mdp),
        jnp.asarray(seen.states),
        jnp.asarray(seen.actions),
        jnp.asarray(seen.weights),
    )
    mixture = Mixture(
        likelihood,
        Flattening.of(reward.parameters),
        jnp.asarray(who, jnp.int32),
        jnp.asarray(cell, jnp.int32),
        jnp.asarray(count, float),
        jnp.asarray(weights),
        jnp.asarray(l2),
        num_types,
    )
    # The one-type problem weighs individuals alike, whatever their number of episodes.
    return eqx.tree_at(
        lambda mixture: mixture.likelihood.weights, mixture, jnp.asarray(mixture.grid(np.ones(len(weights))))
    )


def _scattered(
    one: Problem, x: Float[np.ndarray, " K"], normal: Float[np.ndarray, "starts G K"]
) -> Float[np.ndarray, "starts G K"]:
    """Parameters around the one-type estimate, with the covariance that one individual's own estimate would have."""
    sizes, axes = np.linalg.eigh(one.hessian(one.evaluate(x)))
    seen = sizes > 1e-8 * np.abs(sizes).max()
    spread = np.where(seen, 1 / np.sqrt(np.where(seen, sizes, 1.0)), 0.0)
    return x + (normal * spread) @ axes.T


@eqx.filter_jit
def _joint(mixture: Mixture, problem: Problem, x: Float[Array, " P"]) -> Float[Array, "N G"]:
    return mixture.joint(problem.flattening.unflatten(x / problem.scale))


def _em_step(mixture: Mixture, one: Problem, x: Float[np.ndarray, " P"], tol: float) -> Float[np.ndarray, " P"]:
    """Posteriors at x, then shares and weighted fits of the types given these."""
    posterior = softmax(np.asarray(_joint(mixture, mixture.posed(one), jnp.asarray(x))), axis=1)
    # A type that nobody is of keeps a share that can be seen: log 0 would be for ever.
    shares = np.maximum(np.asarray(mixture.weights) @ posterior, 1e-12)
    size = len(one.scale)
    after = []
    for g in range(mixture.num_types):
        weighted = eqx.tree_at(
            lambda problem: problem.objectives[0].weights, one, jnp.asarray(mixture.grid(posterior[:, g]))
        )
        mine = x[g * size : (g + 1) * size]
        after.append(Newton(max_steps=M_STEPS).minimise(weighted, mine, Watch(weighted, tol / 10, ())).at.x)
    return np.concatenate([*after, np.log(shares[1:] / shares[0])])


def _shares(mixture: Mixture, x: Float[np.ndarray, " P"]) -> Float[np.ndarray, " G"]:
    odds = x[len(x) - mixture.num_types + 1 :]
    return softmax(np.concatenate([[0.0], odds]))


def _by_share(mixture: Mixture, x: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    """The same mixture with its types in order of their shares."""
    shares = _shares(mixture, x)
    order = np.argsort(-shares, kind="stable")
    theta = x[: len(x) - mixture.num_types + 1].reshape(mixture.num_types, -1)[order]
    return np.concatenate([theta.ravel(), np.log(shares[order][1:] / shares[order][0])])


def _evidence(
    mixture: Mixture, problem: Problem, at: Evaluation
) -> tuple[Float[np.ndarray, "N G"], Float[np.ndarray, "N P"], Float[np.ndarray, "P P"]]:
    """Joint log likelihoods, scores of individuals, and the Hessian of minus their mean log likelihood, in θ."""
    joint = np.asarray(_joint(mixture, problem, jnp.asarray(at.x)))
    scale = np.asarray(problem.scale)
    scores = np.asarray(_scores(mixture, problem, jnp.asarray(at.x))) * scale
    unpenalised = eqx.tree_at(lambda problem: problem.objectives[0].l2, problem, jnp.zeros(()))
    return joint, scores, unpenalised.hessian(at) * np.outer(scale, scale)


@eqx.filter_jit
def _scores(mixture: Mixture, problem: Problem, x: Float[Array, " P"]) -> Float[Array, "N P"]:
    def by_individual(x):
        return logsumexp(mixture.joint(problem.flattening.unflatten(x / problem.scale)), axis=1)

    return jax.jacfwd(by_individual)(x)
