"""Two-step estimation: conditional choice probabilities first, then a logit; no planning inside."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular.aggregated import refuse_statistics
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.fit_by_minimising import Goal, fit_by_minimising
from irlax.estimators.tabular.mce import MCEIRL, feature_gap, knows_features, planned
from irlax.estimators.tabular.objectives import AbstractObjective, Likelihood, WarmStart
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.problem import Evaluation, Problem
from irlax.estimators.tabular.solvers import AbstractSolver, Newton, minimise
from irlax.estimators.tabular.solvers.solver import SolverState, converged
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.iteration import Callback, Watch
from irlax.mdp import MDP
from irlax.planning.backup import SoftBackup
from irlax.planning.chain import Chain
from irlax.planning.occupancy import checked_policy
from irlax.precision import StaysOnDevice, scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.status import Status
from irlax.typing import Array, Float, Int

#: Choice probabilities that move no more than this are a fixed point: the next step would move them by its square.
STILL = 1e-5


@stored("two-step-irl")
class TwoStepIRL(AbstractTabularIRL):
    r"""Infer a linear reward from the observed choice probabilities, without planning.

    If the demonstrator follows the choice probabilities P for good, values are affine in θ:

    $$V_P(s) = W_P(s)^\top\theta + E_P(s), \quad
      W_P = (I - \gamma F_P)^{-1}\textstyle\sum_a P(a|\cdot)\,\phi(\cdot,a), \quad
      E_P = (I - \gamma F_P)^{-1} H(P(\cdot|s))$$

    with F_P the chain of P: discounted feature expectations and discounted entropy, one linear system with K + 1
    right-hand sides. What is left is a logit in $\phi(s,a) + \gamma\,\mathbb{E}W_P(S')$, with
    $\gamma\,\mathbb{E}E_P(S')$ as its offset: a concave problem.

    * `iterations` 1 is the two-step estimator of Hotz and Miller (1993), in the pseudo-likelihood form of
      Aguirregabiria and Mira (2002): as efficient as maximum likelihood in large samples, biased in small ones by
      the noise of the first step. How far the result is below the maximum of the likelihood is measured by a few
      Newton steps from there, and said (`certificate.below_maximum`); 2 log units or more are no success.
    * `iterations` K repeats the step with the choice probabilities that the last one implies.
    * `iterations` None repeats it until nothing changes: nested pseudo-likelihood, whose fixed point solves the
      likelihood equations, so it is what `MCEIRL(objective="likelihood")` finds. It need not get there (Kasahara
      and Shimotsu 2012): after `max_steps` the status says so.

    The first step is a frequency estimate: each state (and time, if the horizon is finite) counts as if it had been
    seen `smoothing` more times, its available actions chosen as often as over all states. An estimate of your own
    goes to `fit` as `choice_probabilities`; after a fixed number of steps the result is as consistent as it is.

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
            whole = knows_features(rewards, experts)
            goal = Goal(
                objectives,
                rewards,
                experts,
                l2=self.l2,
                tol=self.tol,
                convex=False,
                plan=planned,
                gap=(lambda theta, _: feature_gap(theta, rewards, experts)) if whole else None,
            )
            watch = Watch(self.progress, callback)
            solver = PolicyIteration(policies=policies, iterations=self.iterations, max_steps=self.max_steps)
            return fit_by_minimising(self, goal, solver, watch, held_out=held_out, started=started)

    def _first_step(self, experts: tuple[Expert, ...], given: Any) -> tuple[Float[Array, "T A R"], ...]:
        if given is None:
            return tuple(frequencies(expert, self.smoothing) for expert in experts)
        if not isinstance(given, (list, tuple)) or len(given) != len(experts):
            raise TypeError(f"With {len(experts)} MDPs, `choice_probabilities` must be a list of as many.")
        return tuple(_given(expert.mdp, policy) for expert, policy in zip(experts, given, strict=True))


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


def _given(mdp: MDP, policy: Any) -> Float[Array, "T A R"]:
    try:
        policy = np.asarray(checked_policy(mdp, policy))
    except ValueError as error:
        raise ValueError(str(error).replace("`policy`", "`choice_probabilities`")) from None
    return jnp.asarray((policy[None] if policy.ndim == 2 else policy).swapaxes(1, 2))


def frequencies(expert: Expert, smoothing: float) -> Float[Array, "T A R"]:
    r"""$\hat P(a|s) = (n(s,a) + \alpha f(a)) / (n(s) + \alpha)$, with f the frequency of a over all states.

    Among the actions that are available; uniform where none of them was ever seen. One policy for all times if
    the horizon is infinite.
    """
    seen, mdp = expert.choices(discounted=False), expert.mdp
    counts = np.zeros((len(seen.weights), mdp.num_actions, mdp.num_states))
    time = np.broadcast_to(np.arange(len(seen.weights))[:, None], seen.weights.shape)
    np.add.at(counts, (time, seen.actions, seen.states), seen.weights * expert.weight)
    available = np.asarray(mdp.available).T
    share = counts.sum(axis=(0, 2))[:, None] * available
    share = np.where(share.sum(axis=0) > 0, share, available)
    share = share / share.sum(axis=0)
    total = counts.sum(axis=1, keepdims=True) + smoothing
    return jnp.asarray(np.where(total > 0, (counts + smoothing * share) / np.where(total > 0, total, 1), share))


class AffineValues(StaysOnDevice):
    """V_{t+1}(s) = slope·θ + level for each decision t: what following given choice probabilities is worth."""

    slope: Float[Array, "T K S"]
    level: Float[Array, "T S"]


class PseudoLikelihood(AbstractObjective):
    r"""$-\sum w \log\mathrm{softmax}_a(z_a^\top\theta + e_a)$ over observed choices: a logit with an offset."""

    columns: Float[Array, "T K A M"]
    #: −inf where an action does not exist.
    offset: Float[Array, "T A M"]
    actions: Int[Array, "T M"]
    weights: Float[Array, "T M"]

    def __call__(self, parameters: Any, warm_start: WarmStart = None) -> tuple[Float[Array, ""], WarmStart]:
        theta = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(parameters)])
        q = jnp.einsum("k,tkam->tam", theta, self.columns) + self.offset
        log_policy = jax.nn.log_softmax(q, axis=1)
        chosen = jnp.take_along_axis(log_policy, self.actions[:, None], axis=1)[:, 0]
        return -(self.weights * chosen).sum(), None


class Followed(NamedTuple):
    """Choice probabilities taken as given, the pseudo-likelihood under them, and how far the last step went."""

    policies: tuple[Float[Array, "T A R"], ...]
    pseudo: Problem
    values: tuple[AffineValues, ...]
    #: The largest change of a choice probability.
    moved: float
    step: int


class PolicyIteration(AbstractSolver):
    """Pseudo-likelihood steps from given choice probabilities: `iterations` of them, or until nothing changes.

    States are evaluated by the pseudo-likelihood of their step; what is found, by the likelihood itself.
    """

    policies: tuple[Float[Array, "T A R"], ...]
    iterations: int | None
    max_steps: int

    def init(self, problem: Problem, start: Float[np.ndarray, " K"] | Evaluation, tol: float) -> SolverState:
        x = start.x if isinstance(start, Evaluation) else start
        return self._at(problem, x, self._followed(problem, self.policies, np.inf, 0), tol)

    def step(self, problem: Problem, state: SolverState, tol: float) -> SolverState:
        before, inner = state.at.x, state.inner
        found = minimise(Newton(), inner.pseudo, before, tol)
        x = found.at.x
        if not found.status.success:
            return SolverState(found.at, None, found.status, inner, passed=())
        if inner.moved <= STILL and np.abs(x - before).max() <= 1e-11 * max(1.0, np.abs(x).max()):
            return SolverState(found.at, None, Status.ROUNDING_FLOOR, inner, passed=())
        theta = jnp.asarray(x) / problem.scale
        new = tuple(
            _implied(likelihood, problem.flattening, values, theta)
            for likelihood, values in zip(_likelihoods(problem), inner.values, strict=True)
        )
        moved = max(float(jnp.abs(one - other).max()) for one, other in zip(new, inner.policies, strict=True))
        return self._at(problem, x, self._followed(problem, new, moved, inner.step + 1), tol)

    def _followed(self, problem: Problem, policies: tuple[Any, ...], moved: float, step: int) -> Followed:
        parts = [_followed(f, problem.flattening, p) for f, p in zip(_likelihoods(problem), policies, strict=True)]
        objectives = tuple(objective for objective, _ in parts)
        pseudo = eqx.tree_at(lambda problem: problem.objectives, problem, objectives)
        return Followed(policies, pseudo, tuple(values for _, values in parts), moved, step)

    def _at(self, problem: Problem, x: Float[np.ndarray, " K"], inner: Followed, tol: float) -> SolverState:
        at = inner.pseudo.evaluate(x)
        ended = None
        if inner.step and self.iterations is None and inner.moved <= STILL:
            ended = converged(problem, at, tol)
        elif inner.step == self.iterations:
            ended = Status.STEPS_TAKEN
        return SolverState(at, None, ended, inner)


def _likelihoods(problem: Problem) -> list[Likelihood]:
    return [objective for objective in problem.objectives if isinstance(objective, Likelihood)]


def _columns(likelihood: Likelihood, flattening: Any) -> tuple[Float[Array, "K A R"], Float[Array, "A R"]]:
    """The features of a reward that is affine in its parameters, and what it pays at 0."""
    size = sum(int(np.prod(shape)) for shape in flattening.shapes)
    nothing = likelihood.folded(flattening.unflatten(jnp.zeros(size)))
    columns = jax.vmap(lambda one: likelihood.folded(flattening.unflatten(one)) - nothing)(jnp.eye(size))
    return columns, nothing


@eqx.filter_jit
def _followed(
    likelihood: Likelihood, flattening: Any, policy: Float[Array, "T A R"]
) -> tuple[PseudoLikelihood, AffineValues]:
    """The logit, and the values behind it, if choice probabilities are `policy` from the next decision on."""
    mdp = likelihood.mdp
    columns, nothing = _columns(likelihood, flattening)
    # The last right-hand side is what does not depend on θ: entropy, and a reward's constant part.
    gains = jnp.concatenate([columns, nothing[None]])
    backward = jax.vmap(mdp.dynamics.backward)
    if mdp.horizon is None:
        now = jnp.einsum("as,kas->ks", policy[0], gains).at[-1].add(entr(policy[0]).sum(axis=0))
        now = now if mdp.terminal is None else jnp.where(mdp.terminal, 0, now)
        chain = Chain(policy[0], mdp.dynamics, mdp.discount, mdp.terminal)
        ahead = jax.vmap(chain.solve_values)(now)[None]
    else:

        def step(next_value, policy):
            q = gains + mdp.discount * backward(next_value)
            return jnp.einsum("as,kas->ks", policy, q).at[-1].add(entr(policy).sum(axis=0)), next_value

        ahead = jax.lax.scan(step, jnp.zeros((len(gains), mdp.num_states)), policy, reverse=True)[1]

    def observed(at):
        next_value, states = at
        return (gains + mdp.discount * backward(next_value))[..., states]

    q = jax.lax.map(observed, (ahead, likelihood.states))
    offset = q[:, -1] if mdp.mask is None else jnp.where(_exists(mdp.mask, likelihood.states), q[:, -1], -jnp.inf)
    pseudo = PseudoLikelihood(q[:, :-1], offset, likelihood.actions, likelihood.weights)
    return pseudo, AffineValues(ahead[:, :-1], ahead[:, -1])


def _exists(mask: Any, states: Int[Array, "T M"]) -> Any:
    return jnp.moveaxis(mask[:, states], 0, 1)


@eqx.filter_jit
def _implied(
    likelihood: Likelihood, flattening: Any, values: AffineValues, theta: Float[Array, " K"]
) -> Float[Array, "T A R"]:
    """The choice probabilities of one who plans one step ahead of these values: one step of soft policy iteration."""
    backup = SoftBackup(likelihood.mdp, likelihood.folded(flattening.unflatten(theta)))
    next_values = jnp.einsum("k,tks->ts", theta, values.slope) + values.level
    return jax.lax.map(lambda next_value: jnp.exp(backup.log_policy(backup.q(next_value))), next_values)
