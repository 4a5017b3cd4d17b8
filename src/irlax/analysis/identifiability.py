r"""Which directions of the reward's parameters a policy cannot reveal.

Two rewards have the same soft policy if and only if their difference δ is a potential shaping *as seen through
the dynamics*: E[δ(s,a,S')] = f(s) − γE[f(S')] for some f (f_t with f_T = 0 over a finite horizon). The
derivative of log π in the parameters has exactly these δ as its null space, at any reward, so for rewards that
are linear in their parameters the answer found here is exact and global; for networks it is local.

Three kinds of direction are told apart: those that change no expected reward at all (collinear features, a
dependence on s' that averages out, spare weights of a network), the constant reward, and other potentials.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from irlax.demos import Demonstrations
from irlax.mdp import MDP
from irlax.planning.backup import SoftBackup
from irlax.planning.chain import Chain
from irlax.planning.plan import Plan
from irlax.precision import scope
from irlax.rewards import AbstractReward
from irlax.rewards.base import flat
from irlax.tables import Summary, Table, pairs
from irlax.typing import Array, Float

#: Singular values below this share of the largest are zero, but for rounding.
RANK_TOLERANCE = 1e-9
#: A direction that the summary writes out has at most this many parameters in it.
SHOWN = 8


class Identification(eqx.Module):
    """What a policy (and, with demonstrations, these data) says about each parameter, and what it cannot."""

    #: Orthonormal directions of the parameters that leave the policy as it is.
    null_basis: Float[np.ndarray, "null_dim K"]
    #: Of each: "no effect", "constant" or "potential".
    kinds: tuple[str, ...] = eqx.field(static=True)
    #: Of the map from parameters to log policy, largest first.
    singular_values: Float[np.ndarray, " m"]
    names: tuple[str, ...] = eqx.field(static=True)
    #: Whether the answer holds at any parameters (linear rewards) or near these only (networks).
    is_global: bool = eqx.field(static=True)
    #: Directions that the policy reveals, but only through choices that these data do not contain.
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
        seen = self.singular_values[: self.rank]
        return float(seen[0] / seen[-1]) if len(seen) else float("nan")

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
        return scipy.linalg.null_space(self.null_basis).T

    def line(self) -> str:
        """One line for a fit's summary."""
        total = len(self.names)
        if not self.null_dim:
            said = f"all {total} parameters"
        else:
            counts = [f"{self.kinds.count(kind)} {kind}" for kind in dict.fromkeys(self.kinds)]
            said = f"{self.rank} of {total} dimensions; not identified: {', '.join(counts)}"
        if self.unseen_basis is not None and len(self.unseen_basis):
            said += f"; these data leave open {len(self.unseen_basis)} more"
        return said

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
            rows = [(kind, _spelt(row, self.names)) for kind, row in zip(self.kinds, self.null_basis, strict=True)]
            tables.append(Table(("kind", "direction"), rows[:20], title="Directions that the policy cannot reveal"))
        return Summary(tables)


def identify(mdp: MDP, reward: AbstractReward, plan: Plan, *, demos: Demonstrations | None = None) -> Identification:
    """The null space of the map from the reward's parameters to log π, in every state of `mdp`.

    `plan` is the demonstrator's (or the fitted) soft plan: for rewards that are linear in their parameters it
    does not change the answer, only the condition number. With `demos`, directions are reported apart that
    the policy reveals, but these visited states and actions do not.
    """
    if not isinstance(plan.backup, SoftBackup):
        raise TypeError("`plan` must come from `soft_plan`: identifiability is about the causal model.")
    with scope():
        bound = reward.bind(mdp)
        parameters = bound.parameters
        folded = bound.fold(mdp)
        by_parameter = _jacobian(folded, parameters)
        policy = jnp.asarray(plan.policy)
        response = np.asarray(_log_policy_response(mdp, policy, by_parameter))
    num = bound.num_parameters
    rows = response.reshape(-1, num)
    # Actions that do not exist have no log policy.
    exists = np.broadcast_to(np.asarray(mdp.available), response.shape[:-1]).ravel()
    scale = np.maximum(np.abs(np.asarray(by_parameter)).max(axis=(0, 1)), 1e-300)
    scale = np.where(scale > 1e-12 * scale.max(), scale, 1.0)
    singular, right = _svd(rows[exists] / scale)
    rank = _rank(singular)
    null = scipy.linalg.orth((right[rank:] / scale).T).T if rank < num else np.zeros((0, num))
    rewards = np.moveaxis(np.asarray(by_parameter), -1, 0).reshape(num, -1)
    basis, kinds = _readable(null, rewards, mdp)
    unseen = None
    if demos is not None:
        unseen = _unseen(response, demos, scale, null, mdp)
    return Identification(basis, kinds, singular, tuple(bound.parameter_names()), bound.is_linear, unseen)


def _jacobian(folded: Any, parameters: Any) -> Float[Array, "A S K"]:
    """∂E[r(s,a,S')]/∂θ."""
    tree = jax.jacrev(folded)(parameters) if _is_large(parameters) else jax.jacfwd(folded)(parameters)
    leaves = [jnp.asarray(leaf).reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(tree)]
    return jnp.concatenate(leaves, axis=-1)


def _is_large(parameters: Any) -> bool:
    return len(flat(parameters)) > 2000


@jax.jit
def _log_policy_response(
    mdp: MDP, policy: Float[Array, "*T S A"], by_parameter: Float[Array, "A S K"]
) -> Float[Array, "*T S A K"]:
    """∂log π_t(a|s)/∂θ = ∂Q_t − ∂V_t, where ∂V is the value of earning ∂r under π."""
    ahead = jax.vmap(mdp.dynamics.backward, in_axes=-1, out_axes=-1)

    def at(policy, next_slope):
        q_slope = by_parameter + mdp.discount * ahead(next_slope)
        value_slope = (policy.T[..., None] * q_slope).sum(axis=0)
        return value_slope, jnp.swapaxes(q_slope - value_slope, 0, 1)

    if mdp.horizon is None:
        chain = Chain(policy.T, mdp.dynamics, mdp.discount, mdp.terminal)
        gain = (policy.T[..., None] * by_parameter).sum(axis=0)
        return at(policy, jax.vmap(chain.solve_values, in_axes=-1, out_axes=-1)(gain))[1]

    def step(next_slope, policy):
        return at(policy, next_slope)

    nothing = jnp.zeros_like(by_parameter[0])
    return jax.lax.scan(step, nothing, policy, reverse=True)[1]


def _svd(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values (K of them) and all right singular vectors, as rows."""
    if len(matrix) > matrix.shape[1]:
        # R has the same right factor and singular values, and is no taller than wide.
        matrix = np.asarray(np.linalg.qr(matrix, mode="r"))
    _, singular, right = np.linalg.svd(matrix, full_matrices=True)
    return np.pad(singular, (0, matrix.shape[1] - len(singular))), right


def _rank(singular: np.ndarray) -> int:
    """Columns pay at most 1 a step, so a map that is nothing but rounding is small next to 1, not to itself."""
    return int((singular > RANK_TOLERANCE * max(singular.max(initial=0.0), 1.0)).sum())


def _readable(null: np.ndarray, rewards: np.ndarray, mdp: MDP) -> tuple[np.ndarray, tuple[str, ...]]:
    """The null space as directions without effect, the constant, and the other potentials, orthonormal."""
    if not len(null):
        return null, ()
    paid = null @ rewards
    # Scaled to the rewards at hand, a direction that pays nothing pays nothing but rounding.
    left, sizes, _ = np.linalg.svd(paid, full_matrices=True)
    sizes = np.pad(sizes, (0, len(null) - len(sizes)))
    pays = sizes > 1e-9 * max(np.abs(rewards).max(), 1e-300)
    idle, active = left[:, ~pays].T @ null, left[:, pays].T @ null
    kinds = ["no effect"] * len(idle)
    constant = _constant_in(active, rewards, mdp)
    if constant is not None:
        rest = scipy.linalg.orth((active - np.outer(active @ constant, constant)).T, rcond=1e-8).T
        active = np.vstack([constant, rest[: len(active) - 1]])
        kinds.append("constant")
    kinds += ["potential"] * (len(active) - (constant is not None))
    return np.vstack([idle, active]), tuple(kinds)


def _constant_in(active: np.ndarray, rewards: np.ndarray, mdp: MDP) -> np.ndarray | None:
    """The unit direction among `active` that pays the same for every available action, if there is one."""
    if not len(active):
        return None
    exists = np.asarray(mdp.available).T.ravel()
    if mdp.terminal is not None:
        exists = exists & np.tile(~np.asarray(mdp.terminal), mdp.num_actions)
    paid = (active @ rewards)[:, exists]
    weights, *_ = np.linalg.lstsq(paid.T, np.ones(exists.sum()), rcond=None)
    if np.abs(weights @ paid - 1).max() > 1e-7:
        return None
    direction = weights @ active
    return direction / np.linalg.norm(direction)


def _unseen(
    response: np.ndarray, demos: Demonstrations, scale: np.ndarray, null: np.ndarray, mdp: MDP
) -> Float[np.ndarray, "unseen_dim K"]:
    """The null space of the information in the visited states, without the directions hidden from any data.

    A visit reveals how the policy divides between all actions of its state, whichever was taken.
    """
    states, times = demos.tabular_states, demos.times
    visited = np.zeros(response.shape[:-2], bool)
    if mdp.horizon is None:
        visited[states] = True
    else:
        visited[times, states] = True
    exists = np.broadcast_to(np.asarray(mdp.available), response.shape[:-1])
    rows = response[visited[..., None] & exists] / scale
    singular, right = _svd(rows)
    rank = _rank(singular)
    hidden = scipy.linalg.orth((right[rank:] / scale).T).T if rank < len(scale) else np.zeros((0, len(scale)))
    if not len(null):
        return hidden
    _, sizes, directions = np.linalg.svd(hidden - hidden @ null.T @ null, full_matrices=False)
    return directions[sizes > 1e-6]


def _spelt(direction: np.ndarray, names: tuple[str, ...]) -> str:
    """A direction as a sum of named parameters, largest first, scaled to a leading 1."""
    order = np.argsort(-np.abs(direction))
    lead = direction[order[0]]
    parts = []
    for k in order[:SHOWN]:
        share = direction[k] / lead
        if abs(share) < 1e-6:
            break
        sign = "−" if share < 0 else "+"
        size = "" if abs(abs(share) - 1) < 1e-6 else f"{abs(share):.3g}·"
        parts.append(f"{sign} {size}{names[k]}")
    more = int((np.abs(direction) > 1e-6 * abs(lead)).sum()) - len(parts)
    text = " ".join(parts).removeprefix("+ ")
    return text if more <= 0 else f"{text} and {more} more"
