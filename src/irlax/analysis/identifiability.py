r"""Which directions of the reward's parameters a policy cannot reveal.

Two rewards have the same soft policy if and only if their difference δ is a potential shaping *in expectation
under the dynamics*: E[δ(s,a,S')] = f(s) − γE[f(S')] for some f (f_t with f_T = 0 over a finite horizon). The
derivative of log π in the parameters has exactly these δ as its null space, at any reward, so for rewards that
are linear in their parameters the answer found here is exact and global; for networks it is local.

Three kinds of direction are distinguished: those that change no expected reward at all (collinear features, a
dependence on s' that averages out, spare weights of a network), the constant reward, and other potentials.
"""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from irlax.analysis.responses import Responses, responses_of
from irlax.demos import Demonstrations
from irlax.mdp import MDP
from irlax.planning.backup import SoftBackup
from irlax.planning.chain import DENSE_LIMIT
from irlax.planning.plan import Plan, plan_with
from irlax.planning.soft import TOLERANCE
from irlax.precision import scope
from irlax.rewards import AbstractReward
from irlax.tables import AbstractTabulated, Summary, Table, pairs
from irlax.typing import Bool, Float
from irlax.user_warnings import warn_user

#: Singular values below this share of the largest are zero, but for rounding.
RANK_TOLERANCE = 1e-9
#: With more parameters than this the map is never stored.
LARGE = 2500
#: And then at most so many null directions are searched for.
MOST_NULL = 20
#: A direction that the summary writes out has at most this many parameters in it.
SHOWN = 8
#: One line writes out as many directions, if each has so few parameters in it; of others it gives the numbers.
FEW = 2


class Identification(AbstractTabulated):
    """Which directions of the parameters a policy (and, with demonstrations, these data) identifies."""

    #: Orthonormal directions of the parameters that leave the policy as it is.
    null_basis: Float[np.ndarray, "null_dim K"]
    #: Of each: "no effect", "constant" or "potential".
    kinds: tuple[str, ...] = eqx.field(static=True)
    #: Of the map from parameters to log policy, largest first.
    singular_values: Float[np.ndarray, " m"]
    names: tuple[str, ...] = eqx.field(static=True)
    #: Whether the answer holds at any parameters (linear rewards) or near these only (networks).
    is_global: bool = eqx.field(static=True)
    #: Directions that the policy reveals, but only in states (and at times) that these data do not visit.
    unseen_basis: Float[np.ndarray, "unseen_dim K"] | None = None

    @property
    def null_dim(self) -> int:
        """How many directions the policy cannot reveal."""
        return len(self.null_basis)

    @property
    def rank(self) -> int:
        """How many it can."""
        return len(self.names) - self.null_dim

    @property
    def condition_number(self) -> float:
        """Of the map from identified directions to log policy: how unevenly well they are revealed."""
        identified = self.singular_values[: self.rank]
        return float(identified[0] / identified[-1]) if len(identified) else float("nan")

    @property
    def identified(self) -> np.ndarray:
        """Which single parameters are identified: no null direction moves them."""
        if not self.null_dim:
            return np.ones(len(self.names), bool)
        return np.abs(self.null_basis).max(axis=0) < 1e-7

    @property
    def contrasts(self) -> Float[np.ndarray, "rank K"]:
        """Orthonormal combinations of the parameters that are identified."""
        if not self.null_dim:
            return np.eye(len(self.names))
        from scipy.linalg import null_space

        return null_space(self.null_basis).T

    def line(self) -> str:
        """One line for a fit's summary: the directions that are hidden, or how many there are of each kind."""
        total = len(self.names)
        if not self.null_dim:
            line = f"all {total} parameters"
        else:
            line = f"{self.rank} of {total} dimensions; not identified: {', '.join(self._hidden())}"
        if self.unseen_basis is not None and len(self.unseen_basis):
            line += f"; these data leave open {len(self.unseen_basis)} more"
            if len(self.unseen_basis) <= FEW and _most_parameters(self.unseen_basis) <= SHOWN:
                line += f": {', '.join(direction_text(row, self.names) for row in self.unseen_basis)}"
        return line

    def _hidden(self) -> list[str]:
        if self.null_dim > FEW or _most_parameters(self.null_basis) > SHOWN:
            return [f"{self.kinds.count(kind)} {kind}" for kind in dict.fromkeys(self.kinds)]
        rows = zip(self.kinds, self.null_basis, strict=True)
        return [f"{direction_text(row, self.names)} ({kind})" for kind, row in rows]

    def summary(self) -> Summary:
        """What is identified, and a readable basis of what is not."""
        facts = [
            ("identified", f"{self.rank} of {len(self.names)} dimensions"),
            ("parameters identified one by one", int(self.identified.sum())),
            ("condition number", self.condition_number),
            ("holds", "at any parameters" if self.is_global else "near these parameters"),
        ]
        if self.unseen_basis is not None:
            facts.append(("left open by these data alone", f"{len(self.unseen_basis)} dimensions"))
        tables = [pairs("Identifiability", facts)]
        if self.null_dim:
            directions = zip(self.kinds, self.null_basis, strict=True)
            rows = [(kind, direction_text(row, self.names)) for kind, row in directions]
            tables.append(Table(("kind", "direction"), rows[:20], title="Directions that the policy cannot reveal"))
        return Summary(tables)

    def _shown(self) -> Summary:
        return self.summary()


def identify(mdp: MDP, reward: AbstractReward, plan: Plan, *, demos: Demonstrations | None = None) -> Identification:
    """The null space of the map from the reward's parameters to log π, in every state of `mdp`.

    `plan` is the demonstrator's (or the fitted) soft plan: for rewards that are linear in their parameters it
    does not change the answer, only the condition number. With `demos`, directions are reported apart that
    the policy reveals, but these visited states and actions do not.

    The map is kept as a matrix while it is small; a large one is reduced time step by time step to a triangle
    of K × K, and with more than a few thousand parameters it is only ever applied, by Lanczos iterations that
    search for at most twenty null directions.
    """
    if not isinstance(plan.backup, SoftBackup):
        raise TypeError("`plan` must come from `soft_plan`: identifiability is about the causal model.")
    bound = reward.bind(mdp)
    with scope():
        if bound.num_parameters > LARGE:
            return _identify_by_products(mdp, bound, plan, demos)
        responses = responses_of(mdp, plan, bound)
        slopes = responses.by_parameter
        scale = np.maximum(np.abs(slopes).max(axis=(0, 1)), 1e-300)
        scale = np.where(scale > 1e-12 * scale.max(), scale, 1.0)
        singular, right = _svd(_reduced(mdp, responses, scale, None))
        null = _null_space(singular, right, scale)
        unseen = None
        if demos is not None:
            hidden = _null_space(*_svd(_reduced(mdp, responses, scale, _visited(mdp, demos))), scale)
            unseen = _beyond(hidden, null)
    rewards = np.moveaxis(slopes, -1, 0).reshape(bound.num_parameters, -1)
    basis, kinds = _readable(null, rewards, mdp)
    return Identification(basis, kinds, singular, tuple(bound.parameter_names()), bound.is_linear, unseen)


def cost_of_identifying(mdp: MDP, num_parameters: int) -> float:
    """About how many multiplications `identify` takes with demonstrations; inf where it goes by products alone.

    For each number of the map, [T, S, A, K]: its making, and its share in the triangle; then two decompositions of the
    triangle. An endless problem takes one step with a factorisation, or the products of a Krylov solve.
    """
    if num_parameters > LARGE:
        return np.inf
    endless = 1 if mdp.num_states <= DENSE_LIMIT else 50
    entries = (mdp.horizon or endless) * math.prod(mdp.table_shape) * num_parameters
    return entries * (150.0 + num_parameters) + 20.0 * num_parameters**3


def _reduced(
    mdp: MDP, responses: Responses, scale: Float[np.ndarray, " K"], visited: Bool[np.ndarray, "T S"] | None
) -> Float[np.ndarray, "m K"]:
    """∂log π/∂θ over all (visited) states and times, reduced to at most K rows with the same inner products."""
    exists, triangle = np.asarray(mdp.available), np.zeros((0, len(scale)))
    times = reversed(range(1 if mdp.horizon is None else mdp.horizon))
    for t, response in zip(times, responses.backwards(), strict=True):
        rows = exists if visited is None else exists & visited[t][mdp.state_of_row][:, None]
        triangle = _triangle(np.vstack([triangle, response[rows] / scale]))
    return triangle


def _triangle(rows: np.ndarray) -> np.ndarray:
    """The triangular factor, which has the same right singular vectors and is no taller than wide."""
    return rows if len(rows) <= rows.shape[1] else np.asarray(np.linalg.qr(rows, mode="r"))


def _visited(mdp: MDP, demos: Demonstrations) -> Bool[np.ndarray, "T S"]:
    """Where and when choices were observed.

    A visit reveals how the policy divides between all actions of its state, whichever was taken.
    """
    visited = np.zeros((1 if mdp.horizon is None else mdp.horizon, mdp.num_states), bool)
    visited[0 if mdp.horizon is None else demos.times, demos.tabular_states] = True
    return visited


def _null_space(singular: np.ndarray, right: np.ndarray, scale: np.ndarray) -> Float[np.ndarray, "dim K"]:
    """Orthonormal directions of the unscaled parameters with (all but) no singular value."""
    hidden = right[_rank(singular) :] / scale
    return _orthonormal(hidden, hidden.shape[1] * np.finfo(float).eps) if len(hidden) else np.zeros((0, len(scale)))


def _orthonormal(rows: np.ndarray, tolerance: float) -> Float[np.ndarray, "rank K"]:
    """An orthonormal basis of the space of the rows. `scipy.linalg` takes long to import."""
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return directions[sizes > tolerance * sizes.max(initial=0.0)]


def _beyond(hidden: np.ndarray, null: np.ndarray) -> Float[np.ndarray, "dim K"]:
    """The part of one space of directions that is orthogonal to another inside it."""
    _, sizes, directions = np.linalg.svd(hidden - hidden @ null.T @ null, full_matrices=False)
    return directions[sizes > 1e-6]


def _identify_by_products(mdp: MDP, reward: AbstractReward, plan: Plan, demos: Demonstrations | None) -> Identification:
    """The smallest eigenvalues of JᵀJ by Lanczos, J applied as a derivative and never stored."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    folded, (theta, unravel) = reward.fold(mdp), ravel_pytree(reward.parameters)

    def log_policy(theta: Any) -> Any:
        moved = plan_with(SoftBackup(mdp, folded(unravel(theta))), TOLERANCE, "auto")
        return jnp.where(mdp.available, moved.log_policy, 0)

    product = jax.jit(lambda v: jax.vjp(log_policy, theta)[1](jax.jvp(log_policy, (theta,), (v,))[1])[0])
    num = len(theta)

    null, smallest = np.zeros((0, num)), []

    def apply(v: np.ndarray) -> np.ndarray:
        # SciPy tries the operator on small integers first. Directions already found are given a large eigenvalue,
        # because Lanczos finds a repeated eigenvalue only once.
        v = np.asarray(v, float).ravel()
        return np.asarray(product(jnp.asarray(v))) + lift * (null.T @ (null @ v))

    lift = 0.0
    gram: Any = LinearOperator((num, num), matvec=apply)  # type: ignore[call-arg]
    lift = largest = float(eigsh(gram, k=1, which="LA", return_eigenvectors=False)[0])
    while len(null) < MOST_NULL:
        value, vector = eigsh(gram, k=1, which="SA", ncv=min(num, 60), maxiter=100 * num)
        smallest.append(value[0])
        if value[0] > RANK_TOLERANCE * max(largest, 1.0):
            break
        null = np.vstack([null, vector.T])
    changes = [np.asarray(jax.jvp(folded, (unravel(theta),), (unravel(jnp.asarray(v)),))[1]).ravel() for v in null]
    kinds = tuple(
        "no effect"
        if np.abs(row).max() < 1e-6
        else "constant"
        if np.ptp(row) < 1e-6 * np.abs(row).max()
        else "potential"
        for row in changes
    )
    if demos is not None:
        warn_user("With this many parameters, the directions that the data leave open are not computed.")
    nonzero = [value for value in smallest if value > RANK_TOLERANCE * max(largest, 1.0)]
    singular = np.sqrt([largest, *nonzero])
    return Identification(null, kinds, singular, tuple(reward.parameter_names()), reward.is_linear)


def _svd(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values (K of them) and all right singular vectors, as rows."""
    _, singular, right = np.linalg.svd(matrix, full_matrices=True)
    return np.pad(singular, (0, matrix.shape[1] - len(singular))), right


def _rank(singular: np.ndarray) -> int:
    """Columns are scaled to rewards of at most 1, so a map that is rounding alone is small compared with 1."""
    return int((singular > RANK_TOLERANCE * max(singular.max(initial=0.0), 1.0)).sum())


def _readable(null: np.ndarray, rewards: np.ndarray, mdp: MDP) -> tuple[np.ndarray, tuple[str, ...]]:
    """The null space as directions without effect, the constant, and the other potentials, orthonormal."""
    if not len(null):
        return null, ()
    # Relative to the size of the rewards, a direction without effect changes them by rounding alone.
    left, sizes, _ = np.linalg.svd(null @ rewards, full_matrices=True)
    sizes = np.pad(sizes, (0, len(null) - len(sizes)))
    has_effect = sizes > 1e-9 * max(np.abs(rewards).max(), 1e-300)
    idle, active = left[:, ~has_effect].T @ null, left[:, has_effect].T @ null
    kinds = ["no effect"] * len(idle)
    constant = _constant_in(active, rewards, mdp)
    if constant is not None:
        rest = _orthonormal(active - np.outer(active @ constant, constant), 1e-8)
        active = np.vstack([constant, rest[: len(active) - 1]])
        kinds.append("constant")
    kinds += ["potential"] * (len(active) - (constant is not None))
    return np.vstack([idle, active]), tuple(kinds)


def _constant_in(active: np.ndarray, rewards: np.ndarray, mdp: MDP) -> np.ndarray | None:
    """The unit direction among `active` whose reward is the same for every available action, if there is one."""
    if not len(active):
        return None
    exists = np.asarray(mdp.available).T.ravel()
    if mdp.terminal is not None:
        exists = exists & np.tile(~np.asarray(mdp.terminal)[mdp.state_of_row], mdp.table_shape[1])
    changes = (active @ rewards)[:, exists]
    weights, *_ = np.linalg.lstsq(changes.T, np.ones(exists.sum()), rcond=None)
    if np.abs(weights @ changes - 1).max() > 1e-7:
        return None
    direction = weights @ active
    return direction / np.linalg.norm(direction)


def _most_parameters(directions: np.ndarray) -> int:
    """The largest number of parameters that any of the directions changes."""
    sizes = np.abs(directions)
    return int((sizes > 1e-6 * sizes.max(axis=1, keepdims=True)).sum(axis=1).max())


def direction_text(direction: np.ndarray, names: Sequence[str]) -> str:
    """A direction as a sum of named parameters, largest first, scaled to a leading 1."""
    # Rounding makes equal sizes unequal; of those the first parameter comes first.
    order = np.argsort(-np.round(np.abs(direction) / np.abs(direction).max(), 6), kind="stable")
    lead = direction[order[0]]
    parts = []
    for k in order[:SHOWN]:
        share = direction[k] / lead
        if abs(share) < 1e-6:
            break
        sign = "−" if share < 0 else "+"
        size = "" if abs(abs(share) - 1) < 1e-6 else f"{abs(share):.3g}·"
        parts.append(f"{sign} {size}{names[k]}")
    more = _most_parameters(direction[None]) - len(parts)
    text = " ".join(parts).removeprefix("+ ")
    return text if more <= 0 else f"{text} and {more} more"
