"""The posterior of drifting rewards: its mode by Newton's method, the Laplace approximation, and its derivatives."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.mixed.drifting_periods import Periods
from irlax.estimators.mixed.drifting_smoother import Walk, sensitivity, smooth
from irlax.estimators.tabular.objectives import Likelihood, WarmStart
from irlax.estimators.tabular.problem import SMALL_PROBLEM, Flattening
from irlax.mdp import MDP
from irlax.precision import StaysOnDevice
from irlax.rewards.reward import AbstractFolded
from irlax.typing import Array, Float, Int

#: The values of all paths and periods from which planning starts; None on finite horizons, which need none.
Values = Float[Array, "U B S"] | None
#: Newton's method ends when a step would raise the log posterior by less than this share of it.
TOLERANCE = 1e-13
NARROW_TOLERANCE = 1e-6
MAX_STEPS = 60
#: The largest change of a scaled parameter in finite differences of the likelihood's curvature.
PROBE = 1e-3


class Drift(StaysOnDevice):
    r"""Choices given the rewards of all periods, where the rewards are a random walk.

    Coordinates z [U, B, r] hold what the data identify: θ = (offset + basis·z) / scale. Along other directions the
    likelihood is constant, so that they are integrated out, and z is a random walk, too.
    """

    mdp: MDP
    folded: AbstractFolded
    periods: Periods
    flattening: Flattening
    offset: Float[Array, " K"]
    basis: Float[Array, "K r"]
    scale: Float[Array, " K"]
    #: The precision of z in the first period.
    prior: Float[Array, "r r"]

    @property
    def num_free(self) -> int:
        """r, the number of identified directions."""
        return self.basis.shape[1]

    def initial_values(self) -> Values:
        """The first values from which planning starts."""
        if self.mdp.horizon is not None:
            return None
        shape = (self.periods.num_paths, self.periods.num_periods, self.mdp.num_states)
        return jnp.zeros(shape, self.mdp.initial.dtype)

    def root(self, sizes: Float[np.ndarray, " K"]) -> Float[np.ndarray, "r K"]:
        """R with RRᵀ the covariance of a step of z, where `sizes` are standard deviations of scaled parameters."""
        return np.asarray(self.basis).T * sizes

    def parameters(self, z: Float[Any, "*B r"]) -> Float[Any, "*B K"]:
        """θ at z."""
        return (self.offset + z @ self.basis.T) / self.scale

    def loss(self, z: Float[Array, " r"], cell: Any, warm_start: WarmStart) -> tuple[Float[Array, ""], WarmStart]:
        """Minus the log likelihood of the choices of one path and period."""
        states, actions, weights, first = cell
        if self.mdp.horizon is not None:
            step = jnp.arange(self.mdp.horizon) - first
            inside = (step >= 0) & (step < len(states))
            step = jnp.clip(step, 0, len(states) - 1)
            states, actions, weights = states[step], actions[step], jnp.where(inside[:, None], weights[step], 0)
        likelihood = Likelihood(self.mdp, self.folded, states, actions, weights)
        return likelihood(self.flattening.unflatten(self.parameters(z)), warm_start)


class Local(NamedTuple):
    """Losses of all paths and periods at z, their derivatives in z, and values to start planning from."""

    loss: Float[Array, "U B"]
    gradient: Float[Array, "U B r"]
    curvature: Float[Array, "U B r r"]
    values: Values


@eqx.filter_jit
def local(drift: Drift, z: Float[Array, "U B r"], values: Values) -> Local:
    """Losses and derivatives, of some periods at a time."""
    periods, (num_paths, num_periods, width) = drift.periods, z.shape
    first = jnp.tile(periods.first, num_paths)
    cells = (*(_flat(array) for array in (periods.states, periods.actions, periods.weights)), first)

    def of_cell(given):
        z, cell, warm_start = given

        def slope(z):
            (loss, after), gradient = jax.value_and_grad(drift.loss, has_aux=True)(z, cell, warm_start)
            return gradient, (gradient, loss, after)

        curvature, (gradient, loss, after) = jax.jacfwd(slope, has_aux=True)(z)
        return Local(loss, gradient, (curvature + curvature.T) / 2, after)

    size = drift.mdp.num_states * (drift.mdp.horizon or 1) * max(width, 1)
    batch = int(max(1, min(len(first), 256, 64 * SMALL_PROBLEM // size)))
    found = jax.lax.map(of_cell, (_flat(z), cells, jax.tree.map(_flat, values)), batch_size=batch)
    return jax.tree.map(lambda array: array.reshape(num_paths, num_periods, *array.shape[1:]), found)


def _flat(array: Array) -> Array:
    return array.reshape(-1, *array.shape[2:])


@eqx.filter_jit
def _smooth(drift: Drift, at: Local, z: Any, root: Any, ridge: Any) -> Walk:
    """The minimum of the quadratic approximation at z."""
    curvature = at.curvature + ridge * jnp.eye(drift.num_free)
    information = jnp.einsum("utij,utj->uti", curvature, z) - at.gradient
    return jax.vmap(lambda c, i: smooth(c, i, drift.prior, root))(curvature, information)


class Mode(NamedTuple):
    """The mode of the posterior, with what was computed there."""

    z: Float[np.ndarray, "U B r"]
    pull: Float[np.ndarray, "U B r"]
    at: Local
    walk: Walk
    root: Float[np.ndarray, "r K"]
    #: Whether Newton's method converged, to a positive definite Hessian.
    converged: bool
    #: What one more Newton step would gain.
    decrement: float

    @property
    def log_likelihood(self) -> float:
        """Of all choices, at the mode."""
        return -float(np.asarray(self.at.loss).sum())

    def covariance(self) -> Float[np.ndarray, "U B r r"]:
        """Of z in each period."""
        return np.linalg.inv(np.asarray(self.walk.precision))


def log_prior(drift: Drift, z: Float[np.ndarray, "U B r"], pull: Float[np.ndarray, "U B r"], root: Any) -> float:
    """The logarithm of the prior density at z, without its constants, which do not depend on z."""
    start = z[:, 0]
    return -0.5 * float(((pull @ root) ** 2).sum() + (start * (start @ np.asarray(drift.prior))).sum())


def find_mode(drift: Drift, root: Float[np.ndarray, "r K"], start: Mode | Float[np.ndarray, " r"]) -> Mode:
    """The mode for a drift of the size R: from the mode of another size, or from a constant reward."""
    if isinstance(start, Mode):
        # The first step leads from a walk of another size to one of this size; only then can the two be compared.
        mode = _newton(drift, root, start.z, None, start.at)
        if mode.converged:
            return mode
    shape = (drift.periods.num_paths, drift.periods.num_periods, drift.num_free)
    z = np.broadcast_to(start.z.mean(axis=(0, 1)) if isinstance(start, Mode) else start, shape)
    return _newton(drift, root, z, np.zeros(shape), local(drift, jnp.asarray(z), drift.initial_values()))


def _newton(drift: Drift, root: Any, z: Any, pull: Any, at: Local) -> Mode:
    """Newton's method with a line search; `pull` is None if z is a walk of another size, until the first step."""
    tolerance = NARROW_TOLERANCE if drift.mdp.initial.dtype == np.float32 else TOLERANCE
    ridge, decrement = 0.0, np.inf
    objective = np.inf if pull is None else _objective(drift, at, z, pull, root)
    for _ in range(MAX_STEPS):
        # As an array: a number would be compiled into the program, which is another one for every ridge.
        walk = _smooth(drift, at, jnp.asarray(z), jnp.asarray(root), jnp.asarray(ridge))
        target, target_pull = np.asarray(walk.mean), np.asarray(walk.pull)
        if not np.isfinite(np.asarray(walk.log_det)).all() or not np.isfinite(target).all():
            # The likelihood is not concave where transitions are random: a ridge makes the step one of descent.
            ridge = max(10 * ridge, 1e-3 * float(np.abs(np.asarray(at.curvature)).max()))
            if not 0 < ridge < 1e15:
                break
            continue
        step = target - z
        if pull is not None:
            curved = np.einsum("uti,utij,utj->", step, np.asarray(at.curvature) + ridge * np.eye(z.shape[-1]), step)
            decrement = 0.5 * float(curved) - log_prior(drift, step, target_pull - pull, root)
            if ridge == 0 and abs(decrement) <= tolerance * max(1.0, abs(objective)):
                return Mode(z, pull, at, walk, root, True, decrement)
        for share in 0.5 ** np.arange(12.0) if pull is not None else (1.0,):
            trial = z + share * step
            trial_pull = target_pull if pull is None else pull + share * (target_pull - pull)
            there = local(drift, jnp.asarray(trial), at.values)
            found = _objective(drift, there, trial, trial_pull, root)
            # Below the accuracy of planning the loss cannot tell whether a step helps.
            if found <= objective + 1e-11 * abs(found):
                break
        else:
            break
        z, pull, at, objective = trial, trial_pull, there, found
        ridge = ridge / 10 if ridge > 1e-8 else 0.0
    walk = _smooth(drift, at, jnp.asarray(z), jnp.asarray(root), jnp.zeros(()))
    return Mode(z, np.zeros_like(z) if pull is None else pull, at, walk, root, False, decrement)


def _objective(drift: Drift, at: Local, z: Any, pull: Any, root: Any) -> float:
    """Minus the log posterior density, without constants; infinite where it is not a number."""
    found = float(np.asarray(at.loss).sum()) - log_prior(drift, z, pull, root)
    return found if np.isfinite(found) else np.inf


def log_evidence(drift: Drift, mode: Mode) -> float:
    r"""The Laplace approximation of the log of the choices' probability, rewards integrated out.

    $$\log p(D \mid \sigma) \approx \log p(D \mid \hat\theta) + \log p(\hat\theta \mid \sigma)
      + \tfrac{d}{2}\log 2\pi - \tfrac12 \log|H|$$

    A flat prior of the first reward has density 1, in the units of θ. MacKay (1992).
    """
    found = mode.log_likelihood + log_prior(drift, mode.z, mode.pull, mode.root)
    found -= 0.5 * float(np.asarray(mode.walk.log_det).sum())
    if np.asarray(drift.prior).any():
        return found + 0.5 * len(mode.z) * float(np.linalg.slogdet(np.asarray(drift.prior))[1])
    units = np.asarray(drift.basis).T * np.asarray(drift.scale)
    volume = drift.num_free * np.log(2 * np.pi) - np.linalg.slogdet(units @ units.T)[1]
    return found + 0.5 * len(mode.z) * float(volume)


def quadratic_evidence(drift: Drift, mode: Mode, root: Float[np.ndarray, "r K"]) -> float:
    """The log evidence for another size of drift, with the likelihood replaced by its approximation at a mode."""
    walk = _smooth(drift, mode.at, jnp.asarray(mode.z), jnp.asarray(root), jnp.zeros(()))
    z, pull = np.asarray(walk.mean), np.asarray(walk.pull)
    step, gradient, curvature = z - mode.z, np.asarray(mode.at.gradient), np.asarray(mode.at.curvature)
    change = (gradient * step).sum() + 0.5 * np.einsum("uti,utij,utj->", step, curvature, step)
    return log_evidence(drift, mode._replace(z=z, pull=pull, walk=walk, root=root)) - float(change)


@eqx.filter_jit
def _log_det(drift: Drift, curvature: Any, root: Any, logs: Any) -> tuple[Any, Any]:
    """Derivatives of the log determinant in the curvature, and in the logarithms of the sizes of drift."""

    def total(curvature, logs):
        nothing = jnp.zeros(curvature.shape[:-1])
        walks = jax.vmap(lambda c, i: smooth(c, i, drift.prior, root * jnp.exp(logs)))(curvature, nothing)
        return walks.log_det.sum()

    return jax.grad(total, (0, 1))(curvature, logs)


@eqx.filter_jit
def _sensitivity(drift: Drift, curvature: Any, root: Any, pull: Any, grown: Any) -> Float[Array, "U B r"]:
    return jax.vmap(lambda c, p: sensitivity(c, drift.prior, root, p, grown))(curvature, pull)


class Slope(NamedTuple):
    """Derivatives in the logarithms of the sizes of drift: of the evidence, and of the mode."""

    evidence: Float[np.ndarray, " G"]
    mode: Float[np.ndarray, "G U B r"]


def slope(drift: Drift, mode: Mode, group: Int[np.ndarray, " K"], free: Sequence[int]) -> Slope:
    """Derivatives in log σ of the groups that are `free`; `group` is the group of each parameter.

    At the mode the posterior density does not change with θ, but its curvature does: that part is by central
    differences along the direction in which the mode moves.
    """
    curvature, root = mode.at.curvature, jnp.asarray(mode.root)
    by_curvature, by_logs = map(np.asarray, _log_det(drift, curvature, root, jnp.zeros(len(group))))
    by_logs = ((mode.pull @ mode.root) ** 2).sum(axis=(0, 1)) - 0.5 * by_logs
    evidence, moves = [], []
    for g in free:
        grown = (group == g).astype(float)
        move = np.asarray(_sensitivity(drift, curvature, root, jnp.asarray(mode.pull), jnp.asarray(grown)))
        length = PROBE / max(float(np.abs(move).max()), 1e-12)
        ends = [local(drift, jnp.asarray(mode.z + way * move), mode.at.values) for way in (length, -length)]
        change = (np.asarray(ends[0].curvature) - np.asarray(ends[1].curvature)) / (2 * length)
        evidence.append(by_logs @ grown - 0.5 * float((by_curvature * change).sum()))
        moves.append(move)
    return Slope(np.array(evidence), np.array(moves).reshape(-1, *mode.z.shape))
