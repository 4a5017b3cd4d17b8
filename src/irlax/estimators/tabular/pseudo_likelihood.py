"""Nested pseudo-likelihood: the solver of two-step estimation."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr

from irlax.estimators.tabular.objectives import AbstractObjective, Likelihood, WarmStart
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation, Problem
from irlax.estimators.tabular.solvers import AbstractSolver, Newton, minimise
from irlax.estimators.tabular.solvers.solver import SolverState, converged
from irlax.planning.backup import SoftBackup
from irlax.planning.chain import Chain
from irlax.precision import StaysOnDevice
from irlax.status import Status
from irlax.typing import Array, Float, Int

#: Choice probabilities that change by at most this are a fixed point: the next step would change them by its square.
FIXED_POINT_CHANGE = 1e-5


class AffineValues(StaysOnDevice):
    """V_{t+1}(s) = slope·θ + intercept for each decision t: the values of given choice probabilities."""

    slope: Float[Array, "T K S"]
    intercept: Float[Array, "T S"]


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
        of_choices = jnp.take_along_axis(log_policy, self.actions[:, None], axis=1)[:, 0]
        return -(self.weights * of_choices).sum(), None


class PolicyEvaluation(NamedTuple):
    """Choice probabilities, their values, the pseudo-likelihood under them, and the change by the last step."""

    policies: tuple[Float[Array, "T A R"], ...]
    pseudo: Problem
    values: tuple[AffineValues, ...]
    #: The largest change of a choice probability.
    change: float
    step: int


class NestedPseudoLikelihood(AbstractSolver):
    """Pseudo-likelihood steps from given choice probabilities: `iterations` of them, or to a fixed point.

    The history has the pseudo-likelihood of each step; the solution is evaluated by the likelihood itself.
    Aguirregabiria and Mira (2002).
    """

    policies: tuple[Float[Array, "T A R"], ...]
    iterations: int | None
    max_steps: int
    only_evaluates: ClassVar[bool] = False

    def init(self, problem: AbstractProblem, start: Float[np.ndarray, " K"] | Evaluation, tol: float) -> SolverState:
        x = start.x if isinstance(start, Evaluation) else start
        return self._at(problem, x, self._evaluate_policies(problem, self.policies, np.inf, 0), tol)

    def step(self, problem: AbstractProblem, state: SolverState, tol: float) -> SolverState:
        before, inner = state.at.x, state.inner
        found = minimise(Newton(), inner.pseudo, before, tol)
        x = found.at.x
        if not found.status.success:
            return SolverState(found.at, None, found.status, inner, visited=())
        if inner.change <= FIXED_POINT_CHANGE and np.abs(x - before).max() <= 1e-11 * max(1.0, np.abs(x).max()):
            return SolverState(found.at, None, Status.ROUNDING_FLOOR, inner, visited=())
        theta = jnp.asarray(x) / problem.scale
        new = tuple(
            _implied_policy(likelihood, problem.flattening, values, theta)
            for likelihood, values in zip(_likelihoods(problem), inner.values, strict=True)
        )
        change = max(
            float(np.abs(np.asarray(one) - np.asarray(other)).max())
            for one, other in zip(new, inner.policies, strict=True)
        )
        return self._at(problem, x, self._evaluate_policies(problem, new, change, inner.step + 1), tol)

    def _evaluate_policies(
        self, problem: AbstractProblem, policies: tuple[Any, ...], change: float, step: int
    ) -> PolicyEvaluation:
        pairs = zip(_likelihoods(problem), policies, strict=True)
        parts = [_evaluate_policy(likelihood, problem.flattening, policy) for likelihood, policy in pairs]
        objectives = tuple(objective for objective, _ in parts)
        pseudo = eqx.tree_at(lambda problem: problem.objectives, problem, objectives)
        return PolicyEvaluation(policies, pseudo, tuple(values for _, values in parts), change, step)

    def _at(
        self, problem: AbstractProblem, x: Float[np.ndarray, " K"], inner: PolicyEvaluation, tol: float
    ) -> SolverState:
        at = inner.pseudo.evaluate(x)
        ended = None
        if inner.step and self.iterations is None and inner.change <= FIXED_POINT_CHANGE:
            ended = converged(problem, at, tol)
        elif inner.step == self.iterations:
            ended = Status.STEPS_TAKEN
        return SolverState(at, None, ended, inner)


def _likelihoods(problem: AbstractProblem) -> list[Likelihood]:
    assert isinstance(problem, Problem)
    return [objective for objective in problem.objectives if isinstance(objective, Likelihood)]


def _features(likelihood: Likelihood, flattening: Any) -> tuple[Float[Array, "K A R"], Float[Array, "A R"]]:
    """The features of a reward that is affine in its parameters, and the reward at 0."""
    size = sum(int(np.prod(shape)) for shape in flattening.shapes)
    at_zero = likelihood.folded(flattening.unflatten(jnp.zeros(size)))
    columns = jax.vmap(lambda one: likelihood.folded(flattening.unflatten(one)) - at_zero)(jnp.eye(size))
    return columns, at_zero


@eqx.filter_jit
def _evaluate_policy(
    likelihood: Likelihood, flattening: Any, policy: Float[Array, "T A R"]
) -> tuple[PseudoLikelihood, AffineValues]:
    """The logit, and the values in it, if the choice probabilities are `policy` from the next decision on."""
    mdp = likelihood.mdp
    columns, at_zero = _features(likelihood, flattening)
    # The last right-hand side is the part that does not depend on θ: entropy, and the reward at 0.
    rewards = jnp.concatenate([columns, at_zero[None]])
    backward = jax.vmap(mdp.dynamics.backward)
    if mdp.horizon is None:
        now = jnp.einsum("as,kas->ks", policy[0], rewards).at[-1].add(entr(policy[0]).sum(axis=0))
        now = now if mdp.terminal is None else jnp.where(mdp.terminal, 0, now)
        chain = Chain(policy[0], mdp.dynamics, mdp.discount, mdp.terminal)
        later = jax.vmap(chain.solve_values)(now)[None]
    else:

        def step(next_value, policy):
            q = rewards + mdp.discount * backward(next_value)
            return jnp.einsum("as,kas->ks", policy, q).at[-1].add(entr(policy).sum(axis=0)), next_value

        later = jax.lax.scan(step, jnp.zeros((len(rewards), mdp.num_states)), policy, reverse=True)[1]

    def observed(at):
        next_value, states = at
        return (rewards + mdp.discount * backward(next_value))[..., states]

    q = jax.lax.map(observed, (later, likelihood.states))
    offset = q[:, -1] if mdp.mask is None else jnp.where(_is_available(mdp.mask, likelihood.states), q[:, -1], -jnp.inf)
    pseudo = PseudoLikelihood(q[:, :-1], offset, likelihood.actions, likelihood.weights)
    return pseudo, AffineValues(later[:, :-1], later[:, -1])


def _is_available(mask: Any, states: Int[Array, "T M"]) -> Any:
    """Whether each action is available in each observed state, [T, A, M]."""
    return jnp.moveaxis(mask[:, states], 0, 1)


@eqx.filter_jit
def _implied_policy(
    likelihood: Likelihood, flattening: Any, values: AffineValues, theta: Float[Array, " K"]
) -> Float[Array, "T A R"]:
    """The soft-optimal choice probabilities if later values are these: one step of soft policy iteration."""
    backup = SoftBackup(likelihood.mdp, likelihood.folded(flattening.unflatten(theta)))
    next_values = jnp.einsum("k,tks->ts", theta, values.slope) + values.intercept
    return jax.lax.map(lambda next_value: jnp.exp(backup.log_policy(backup.q(next_value))), next_values)
