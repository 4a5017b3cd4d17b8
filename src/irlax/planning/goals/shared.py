r"""Goals that share a factorisation: certain moves, no discount, one scale.

With $z = e^V$ the soft recursion is linear, $z = Mz$ with $M_{ss'} = \sum_a e^{r(s,a)}$ over the actions that lead from
s to s', except at the goal g, where z = 1. So with $y = (I - M)^{-1} e_g$ it is $z = y / y_g$: one sparse
factorisation serves every goal (Fosgerau, Frejinger and Karlström 2013), and derivatives are further solves with it.

Values of −1000 are common, and $e^{-1000}$ is no float64. So the system is scaled by potentials h:
$\tilde z = z e^{-h}$, $\tilde M_{ss'} = M_{ss'} e^{h(s') - h(s)}$, where −h is the least cost of a way between s and a
centre, along arcs of either direction: no entry exceeds $e^{\max(r, 0)}$, and $\log\tilde z$ is small for goals near
the centre. Goals far from it belong to another centre, with a factorisation of its own. I − M is an M-matrix, so
triangular solves with factors by diagonal pivots add numbers of one sign, and even the smallest entries have a small
relative error.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.sparse.linalg import splu

from irlax.planning.goals.options import Options, Sparse
from irlax.typing import Bool, Float, Int

#: Goals further than this from a centre, in units of reward, belong to another one: float64 covers e^±700, of which one
#: half is left for the number of ways.
REACH = 170.0
#: Below this a scaled exp V has lost digits to the range of float64.
SMALLEST = 1e-290
#: With more returns to the goal than this, the common system is nearly singular.
MAX_RETURNS = 1e5
#: Right-hand sides of one solve. With more, SuperLU hands small products to a BLAS that divides them among threads: 387
#: of them on 3,337 states took .03 s by eight, .25 s by sixteen, and .4 s at once.
RIGHT_SIDES = 8


class SharedPattern(NamedTuple):
    """The part of the linear system that does not depend on the reward."""

    options: Options
    #: The next state of each option.
    head: Int[np.ndarray, " J"]
    #: The entry of M, in compressed rows, that each option adds to.
    entry: Int[np.ndarray, " J"]
    indptr: Int[np.ndarray, " bounds"]
    indices: Int[np.ndarray, " E"]

    @classmethod
    def of(cls, options: Options) -> "SharedPattern":
        """The pattern of M: parallel arcs share an entry."""
        assert options.head is not None
        size = options.num_states
        pairs, entry = np.unique(options.state * size + options.head, return_inverse=True)
        indptr = np.searchsorted(pairs // size, np.arange(size + 1))
        return cls(options, options.head, entry.ravel(), indptr, pairs % size)

    def matrix(self, by_entry: Float[np.ndarray, " E"]) -> Sparse:
        """A matrix with the pattern of M."""
        size = self.options.num_states
        return sp.csr_array((by_entry, self.indices, self.indptr), (size, size))


class SharedFactors(NamedTuple):
    """I − M̃ of one reward, scaled by potentials about a centre and factorised."""

    pattern: SharedPattern
    #: exp(r + h(head) − h(tail)) of each option.
    arcs: Float[np.ndarray, " J"]
    matrix: Sparse
    potential: Float[np.ndarray, " S"]
    factors: Any
    #: The goal, if the system is that of one goal alone, in which the goal's row is empty.
    only: int | None

    @classmethod
    def about(
        cls,
        pattern: SharedPattern,
        reward: Float[np.ndarray, " J"],
        potential: Float[np.ndarray, " S"],
        only: int | None,
    ) -> "SharedFactors":
        """The factors about a centre; a RuntimeError if the system is singular, or rewards are too large."""
        options = pattern.options
        with np.errstate(over="ignore"):
            arcs = np.exp(reward + potential[pattern.head] - potential[options.state])
        if not np.isfinite(arcs).all():
            raise RuntimeError("Rewards this large have no exponential in float64.")
        if only is not None:
            arcs = np.where(options.state == only, 0.0, arcs)
        by_entry = np.bincount(pattern.entry, weights=arcs, minlength=len(pattern.indices))
        matrix = pattern.matrix(by_entry)
        system = sp.csc_array(sp.eye_array(options.num_states, format="csr") - matrix)
        factors = splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        return cls(pattern, arcs, matrix, potential, factors, only)

    def solve(self, rhs: Float[np.ndarray, "S G"], *, transpose: bool = False) -> Float[np.ndarray, "S G"]:
        """(I − M̃)⁻¹ rhs, or of its transpose."""
        return solve_in_blocks(self.factors, rhs, "T" if transpose else "N")


def solve_in_blocks(factors: Any, rhs: Float[np.ndarray, "n k"], way: str) -> Float[np.ndarray, "n k"]:
    """Solve with SuperLU's factors for some right-hand sides at a time."""
    result = np.empty(rhs.shape)
    for k in range(0, rhs.shape[1], RIGHT_SIDES):
        some = slice(k, k + RIGHT_SIDES)
        result[:, some] = factors.solve(np.asfortranarray(rhs[:, some]), way)
    return result


class SharedBlock(NamedTuple):
    """Goals about one centre: their scaled exp V, and what is linear in the reward's changes."""

    shared: SharedFactors
    goals: Int[np.ndarray, " G"]
    #: z̃ of each goal, 1 at the goal.
    z: Float[np.ndarray, "S G"]
    #: What z̃ was divided by, y_g: how often ways through the goal return to it, weighed by M.
    returns: Float[np.ndarray, " G"]

    @property
    def _columns(self) -> Int[np.ndarray, " G"]:
        return np.arange(len(self.goals))

    def sound(self, states: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " G"]:
        """For which goals z̃ is a solution that float64 holds in these states, each needed for the goal of a column.

        A negative entry shows that values do not exist, or that the common system is so near to a singular one that
        digits are lost. The system of the one goal says which.
        """
        with np.errstate(invalid="ignore"):
            largest = np.abs(self.z).max(axis=0)
            sound = (
                np.isfinite(largest) & (self.z.min(axis=0) >= -1e-12 * largest) & (np.abs(self.returns) < MAX_RETURNS)
            )
        too_small = np.bincount(columns, weights=self.z[states, columns] < SMALLEST, minlength=len(self.goals))
        return sound & (too_small == 0)

    def only_columns(self, columns: Int[np.ndarray, " g"]) -> "SharedBlock":
        """The block of some of its goals."""
        return SharedBlock(self.shared, self.goals[columns], self.z[:, columns], self.returns[columns])

    @property
    def value(self) -> Float[np.ndarray, "S G"]:
        """V of each state for each goal, −∞ where the goal cannot be reached."""
        potential = self.shared.potential
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(self.z, 0)) + (potential[:, None] - potential[self.goals])

    def value_at(self, states: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """V of some states, each for the goal of a column."""
        potential = self.shared.potential
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(self.z[states, columns], 0)) + potential[states] - potential[self.goals[columns]]

    def mass(self, start: Float[np.ndarray, "S G"]) -> Float[np.ndarray, "S G"]:
        """(I − P_π)⁻ᵀ start for each goal: expected visits; none at the goal, where no choice is made."""
        return self._inner_mass(start) * self.z

    def _inner_mass(self, start: Float[np.ndarray, "S G"]) -> Float[np.ndarray, "S G"]:
        """The mass divided by z̃."""
        start = start.copy()
        start[self.goals, self._columns] = 0.0
        reached = self.z > 0
        rhs = np.divide(start, self.z, out=np.zeros_like(start), where=reached)
        if self.shared.only is None:
            # All that arrives at a goal ends there; in the common system it would go on.
            total = start.sum(axis=0)
            rows = self.shared.matrix[self.goals].tocoo()
            np.subtract.at(rhs, (rows.col, rows.row), rows.data * total[rows.row])
        inner = self.shared.solve(rhs, transpose=True)
        inner[self.goals, self._columns] = 0.0
        return inner

    def flow(self, start: Float[np.ndarray, "S G"]) -> Float[np.ndarray, " J"]:
        """Expected uses of each option, summed over goals."""
        options = self.shared.pattern.options
        inner = self._inner_mass(start)
        return self.shared.arcs * _row_products(inner, options.state, self.z, self.shared.pattern.head)

    def policy(self) -> Float[np.ndarray, "J G"]:
        """π of each option for each goal; 0 at the goal."""
        options, shared = self.shared.pattern.options, self.shared
        here = self.z[options.state]
        policy = shared.arcs[:, None] * self.z[shared.pattern.head]
        policy = np.divide(policy, here, out=np.zeros_like(policy), where=here > 0)
        policy[options.state[:, None] == self.goals] = 0.0
        return policy

    def tangents(self, features: Float[np.ndarray, "J K"]) -> Float[np.ndarray, "K S G"]:
        """∂V/∂θ for rewards θ·features."""
        return np.stack([self._divided(self._inner_tangent(feature)) for feature in features.T])

    def _inner_tangent(self, feature: Float[np.ndarray, " J"]) -> Float[np.ndarray, "S G"]:
        """∂V/∂θ times z̃."""
        rhs = self._weighted(feature) @ self.z
        rhs[self.goals, self._columns] = 0.0
        inner = self.shared.solve(rhs)
        if self.shared.only is None:
            inner -= self.z * inner[self.goals, self._columns]
        inner[self.goals, self._columns] = 0.0
        return inner

    def _weighted(self, feature: Float[np.ndarray, " J"]) -> Sparse:
        """M̃ with each option multiplied by its feature."""
        pattern = self.shared.pattern
        entries = np.bincount(pattern.entry, weights=self.shared.arcs * feature, minlength=len(pattern.indices))
        return pattern.matrix(entries)

    def _divided(self, inner: Float[np.ndarray, "S G"]) -> Float[np.ndarray, "S G"]:
        return np.divide(inner, self.z, out=np.zeros_like(inner), where=self.z > 0)

    def curvature(
        self, start: Float[np.ndarray, "S G"], features: Float[np.ndarray, "J K"]
    ) -> tuple[Float[np.ndarray, "K K"], Float[np.ndarray, "K S G"]]:
        r"""Second derivatives of Σ start·V in θ, and the first derivatives of V.

        $\partial^2 V = (I - P_\pi)^{-1}\,\mathrm{Cov}_\pi(\phi + \partial V')$; what is of second order in ∂V adds up
        along ways, so that of it only $-\sum \text{start}\,\partial V\,\partial V^\top$ is left.
        """
        options, num = self.shared.pattern.options, features.shape[1]
        start = start.copy()
        start[self.goals, self._columns] = 0.0
        mass = self._inner_mass(start)
        used = self.shared.arcs * _row_products(mass, options.state, self.z, self.shared.pattern.head)
        inner = [self._inner_tangent(feature) for feature in features.T]
        arriving = [self._weighted(feature).T @ mass for feature in features.T]
        mixed = np.array([[np.vdot(one, other) for other in inner] for one in arriving]).reshape(num, num)
        slopes = np.stack([self._divided(each) for each in inner])
        rows, columns = np.nonzero(start)
        seen = slopes[:, rows, columns]
        total = features.T @ (used[:, None] * features) + mixed + mixed.T - (seen * start[rows, columns]) @ seen.T
        return total, slopes


def _row_products(
    left: Float[np.ndarray, "S G"],
    rows: Int[np.ndarray, " J"],
    right: Float[np.ndarray, "S G"],
    others: Int[np.ndarray, " J"],
) -> Float[np.ndarray, " J"]:
    """Σ_g left[rows, g]·right[others, g], a few rows at a time, so that they stay in the cache."""
    total = np.empty(len(rows))
    step = max(1, 100_000 // max(1, left.shape[1]))
    for k in range(0, len(rows), step):
        some = slice(k, k + step)
        total[some] = np.einsum("jg,jg->j", left[rows[some]], right[others[some]])
    return total


def shared_blocks(
    pattern: SharedPattern, reward: Float[np.ndarray, " J"], goals: Int[np.ndarray, " G"]
) -> list[tuple[Int[np.ndarray, " g"], SharedFactors]]:
    """Indices of goals about a common centre, with the factors of the system about it; a RuntimeError if singular."""
    costs = _costs(pattern, reward)
    left, blocks = np.arange(len(goals)), []
    while len(left):
        centre = int(goals[left[0]])
        # Not directed: an arc may be taken either way.
        distance = dijkstra(costs, directed=False, indices=centre)
        near = distance[goals[left]] <= REACH
        furthest = distance[np.isfinite(distance)].max(initial=0.0)
        potential = -np.where(np.isfinite(distance), distance, furthest)
        members = left[near]
        only = int(goals[members[0]]) if len(members) == 1 else None
        blocks.append((members, SharedFactors.about(pattern, reward, potential, only)))
        left = left[~near]
    return blocks


def alone(pattern: SharedPattern, reward: Float[np.ndarray, " J"], goal: int) -> SharedFactors:
    """The factors of one goal, about itself along arcs as they are directed, with the goal's row empty."""
    costs = _costs(pattern, reward)
    distance = dijkstra(sp.csr_array(costs.T), directed=True, indices=goal)
    furthest = distance[np.isfinite(distance)].max(initial=0.0)
    # States that cannot reach the goal have no share in its system; any potential will do that keeps entries finite.
    potential = -np.where(np.isfinite(distance), distance, furthest + 1.0)
    return SharedFactors.about(pattern, reward, potential, goal)


def _costs(pattern: SharedPattern, reward: Float[np.ndarray, " J"]) -> Sparse:
    """The cost of the best option between two states, where rewards above 0 cost nothing."""
    best = np.full(len(pattern.indices), -np.inf)
    np.maximum.at(best, pattern.entry, reward)
    # SciPy takes an entry of 0 for no edge.
    return pattern.matrix(np.maximum(-best, 1e-9))


def solved_block(shared: SharedFactors, goals: Int[np.ndarray, " G"]) -> SharedBlock:
    """exp V of goals about one centre."""
    columns = np.arange(len(goals))
    rhs = np.zeros((shared.pattern.options.num_states, len(goals)))
    rhs[goals, columns] = 1.0
    y = shared.solve(rhs)
    returns = y[goals, columns]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return SharedBlock(shared, goals, y / returns, returns)
