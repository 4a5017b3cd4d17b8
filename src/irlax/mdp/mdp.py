"""Markov decision processes without a reward: what is known before a reward is learned from demonstrations."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from irlax import checks
from irlax.mdp.arguments import (
    CountedMoves,
    checked_available,
    checked_matrices,
    checked_smoothing,
    dense_dynamics,
    normalised,
    sparse_dynamics,
)
from irlax.mdp.build import (
    absorbing_states,
    as_moves,
    checked_actions,
    counts_to_probs,
    fill_unavailable,
    merge_repeated,
    numbered,
    successor_graph,
    successors_from_scipy,
    undiscounted_end,
)
from irlax.mdp.dynamics import AbstractDynamics
from irlax.mdp.labels import Labels, as_places, as_texts
from irlax.mdp.moves import Moves
from irlax.mdp.rows import ONE_ROW, AbstractRows, SeveralRows
from irlax.mdp.shards import Source, folder_source, loaded_table, sharded_dynamics
from irlax.precision import StaysOnDevice, is_placed, is_traced, scope, to_device
from irlax.tables import Summary
from irlax.typing import Array, Bool, Float, Int, Scalar, Shaped


class MDP(StaysOnDevice):
    """States, actions, discount γ, horizon T, initial distribution and transitions, without a reward.

    Decisions are taken at t = 0..T−1; `horizon` None means that they never end. Build one with `from_dense`,
    `from_successors`, `from_scipy`, `from_counts` or `from_actions`, which check their arguments; `labelled` names its
    states and actions.

    Primer, Definition 2.1.
    """

    dynamics: AbstractDynamics
    initial: Float[Array, " S"]
    discount: Scalar
    #: Action-major; None when every action exists everywhere.
    mask: Bool[Array, "A R"] | None = None
    #: The terminal states of an undiscounted problem without a horizon; None in every other problem.
    terminal: Bool[Array, " S"] | None = None
    #: Which rows of tables over states and actions belong to which state.
    rows: AbstractRows = ONE_ROW
    horizon: int | None = eqx.field(static=True, default=None)
    labels: Labels = Labels()
    #: Whether every episode ends at a goal of its own, which demonstrations name; no state need be absorbing then.
    ends_at_goal: bool = eqx.field(static=True, default=False)

    @classmethod
    def from_dense(
        cls,
        transitions: Any,
        initial: Any,
        *,
        discount: Scalar,
        horizon: int | None = None,
        available: Any = None,
        ends_at_goal: bool = False,
    ) -> "MDP":
        """From P[s, a, s'].

        `available[s, a]` says which actions exist where; transition rows of the others are ignored. With `ends_at_goal`
        every episode ends at a goal of its own (`Demonstrations.goals`), so that `discount=1` needs no absorbing state.
        """
        shape = np.shape(checks.as_floats("transitions", transitions))
        if len(shape) != 3 or shape[0] != shape[2]:
            raise ValueError(f"`transitions` must have shape (S, A, S), but has {shape}.")
        available = checked_available(available, shape[:2])
        transitions = checks.probabilities("transitions", transitions, where=available, advice=checks.COUNTS)
        if not is_traced(transitions):
            transitions = fill_unavailable(transitions, available)
        rest: Any = {"initial": initial, "discount": discount, "horizon": horizon, "available": available}
        return _assembled(dense_dynamics, (transitions,), **rest, ends_at_goal=ends_at_goal)

    @classmethod
    def from_successors(
        cls,
        successors: Any,
        probs: Any,
        initial: Any,
        *,
        discount: Scalar,
        horizon: int | None = None,
        available: Any = None,
        ends_at_goal: bool = False,
    ) -> "MDP":
        """From sparse lists: `successors[s, a, b]` follows with probability `probs[s, a, b]`.

        A successor that is listed twice for one state and action counts with the sum of its probabilities.
        `ends_at_goal` is as in `from_dense`.
        """
        successors = checks.as_integers("successors", successors)
        shape = np.shape(checks.as_floats("probs", probs))
        if len(shape) != 3:
            raise ValueError(f"`probs` must have shape (S, A, B), but has {shape}.")
        checks.has_shape("successors", successors, shape, "(S, A, B), as `probs`")
        available = checked_available(available, shape[:2])
        probs = checks.probabilities("probs", probs, where=available, advice=checks.COUNTS)
        if not is_traced(successors):
            present = np.broadcast_to(True if available is None else available[..., None], shape)
            checks.in_range("successors", np.where(present, successors, 0), shape[0], "states")
        rest: Any = {"initial": initial, "discount": discount, "horizon": horizon, "available": available}
        rest |= {"ends_at_goal": ends_at_goal}
        if is_traced(successors, probs):
            return _assembled(sparse_dynamics, (successors, probs, available), **rest)
        moves = as_moves(successors, probs)
        if moves is not None:
            return _assembled(Moves.of, moves, **rest)
        return _assembled(sparse_dynamics, (*merge_repeated(successors, probs, available), available), **rest)

    @classmethod
    def from_scipy(
        cls,
        transitions: Sequence[Any],
        initial: Any,
        *,
        discount: Scalar,
        horizon: int | None = None,
        available: Any = None,
    ) -> "MDP":
        """From one scipy.sparse (S, S) matrix per action."""
        matrices = checked_matrices(transitions)
        successors, probs = successors_from_scipy(matrices)
        return cls.from_successors(successors, probs, initial, discount=discount, horizon=horizon, available=available)

    @classmethod
    def from_counts(
        cls,
        counts: Any,
        initial: Any,
        *,
        discount: Scalar,
        horizon: int | None = None,
        available: Any = None,
        smoothing: Any = 0.0,
        unseen: Literal["error", "unavailable", "stay", "uniform"] = "error",
    ) -> "MDP":
        """From observed transition counts: an array [S, A, S'] or one scipy.sparse matrix per action.

        `smoothing` is added to the counts before they are normalised: a number for every next state alike,
        or an array [S, A, S'] that is zero where a transition cannot happen. `initial` may be counts too.

        A state and action that was never observed has no estimate. `unseen` says what to do: refuse ("error"),
        let the action not exist there ("unavailable"), or assume that it changes nothing ("stay") or leads
        anywhere with equal probability ("uniform").
        """
        checks.one_of("unseen", unseen, ("error", "unavailable", "stay", "uniform"))
        sparse = isinstance(counts, (list, tuple)) and any(sp.issparse(matrix) for matrix in counts)
        if sparse and np.ndim(smoothing) == 0 and smoothing == 0 and unseen != "uniform":
            probs, available = counts_to_probs(checked_matrices(counts), available, unseen)
            return cls.from_scipy(probs, normalised(initial), discount=discount, horizon=horizon, available=available)
        table = np.stack([matrix.toarray() for matrix in checked_matrices(counts)], axis=1) if sparse else counts
        table = checks.as_floats("counts", table)
        if table.ndim != 3 or table.shape[0] != table.shape[2]:
            raise ValueError(f"`counts` must have shape (S, A, S), but has {table.shape}.")
        table = table + checked_smoothing(smoothing, table.shape)
        probs, available = counts_to_probs(table, available, unseen)
        return cls.from_dense(probs, normalised(initial), discount=discount, horizon=horizon, available=available)

    @classmethod
    def from_statistics(
        cls,
        statistics: "CountedMoves",
        *,
        discount: Scalar | None = None,
        horizon: int | None = None,
        available: Any = None,
        smoothing: Any = 0.0,
        unseen: Literal["error", "unavailable", "stay", "uniform"] = "error",
    ) -> "MDP":
        """From `DemoStatistics`: its starts and its counts of moves, as `from_counts` takes them.

        `discount` is that of the statistics unless given. An absorbing state, in which no choice is observed, needs
        `unseen="stay"`.
        """
        return cls.from_counts(
            list(statistics.transitions),
            statistics.starts,
            discount=statistics.discount if discount is None else discount,
            horizon=horizon,
            available=available,
            smoothing=smoothing,
            unseen=unseen,
        )

    @classmethod
    def from_actions(
        cls,
        states: Any,
        successors: Any,
        initial: Any,
        *,
        discount: Scalar,
        probs: Any = None,
        horizon: int | None = None,
        ends_at_goal: bool = False,
    ) -> "MDP":
        """From a list of N actions, each of one state: for states that differ much in how many they have.

        Action n can be taken in `states[n]` and leads to `successors[n, b]` with probability `probs[n, b]`, or, without
        `probs`, to `successors[n]` for certain. The actions of a state are numbered in the order in which they are
        listed, 0, 1, ...

        Where room for the most actions in every state would be wasteful, a state with many takes several rows of all
        tables over states and actions (rewards, features, policies, visits). These have the shape `table_shape`, and
        `cells` says where in them each action stands:

            roads = MDP.from_actions(start, end, initial, discount=0.99)
            length = np.zeros(roads.table_shape)
            length[roads.cells(start)] = metres        # in the order in which roads were listed

        `ends_at_goal` is as in `from_dense`.
        """
        listed = checked_actions(states, successors, probs, len(np.atleast_1d(initial)))
        rest: Any = {"initial": initial, "discount": discount, "horizon": horizon, "ends_at_goal": ends_at_goal}
        counts = np.bincount(listed.states, minlength=len(np.atleast_1d(initial)))
        several = SeveralRows.of(counts)
        shape, full = (several.num_rows(len(counts)), several.width), (len(counts), int(counts.max()))
        if np.prod(full) <= 2 * np.prod(shape):
            followers, probs, available = listed.tables(full, (listed.states, listed.numbers))
            return cls.from_successors(followers, probs, available=available, **rest)
        followers, probs, available = listed.tables(shape, several.cells(listed.states, listed.numbers))
        owner = np.asarray(several.repeat(np.arange(len(counts))))
        by_row = (*merge_repeated(followers, probs, available), available, owner)
        return _assembled(sparse_dynamics, by_row, available=available, rows=several, **rest)

    @classmethod
    def from_dynamics(
        cls,
        dynamics: AbstractDynamics,
        initial: Any,
        *,
        discount: Scalar,
        horizon: int | None = None,
        available: Any = None,
    ) -> "MDP":
        """From dynamics of any class, such as one of your own; the other arguments are checked as usual."""
        if not isinstance(dynamics, AbstractDynamics):
            raise TypeError(f"`dynamics` must be an AbstractDynamics, but is a {type(dynamics).__name__}.")
        available = checked_available(available, (dynamics.num_states, dynamics.num_actions))
        rest: Any = {"initial": initial, "discount": discount, "horizon": horizon, "available": available}
        return _assembled(lambda given: given, (dynamics,), **rest)

    @property
    def num_states(self) -> int:
        """S."""
        return self.dynamics.num_states

    @property
    def num_actions(self) -> int:
        """A: as many as the state with the most of them has."""
        return self.rows.num_actions(self.dynamics.num_actions)

    @property
    def table_shape(self) -> tuple[int, int]:
        """The shape of tables over states and actions: (S, A), unless some states take several rows."""
        return self.rows.num_rows(self.num_states), self.dynamics.num_actions

    @property
    def state_of_row(self) -> Int[np.ndarray, " R"]:
        """The state that each row of a table belongs to."""
        return np.asarray(self.rows.repeat(np.arange(self.num_states)))

    def cells(self, states: Any, actions: Any = None) -> tuple[Int[np.ndarray, "*n"], Int[np.ndarray, "*n"]]:
        """Row and column of states and actions in tables over them: (states, actions), unless states take several rows.

        `plan.policy[mdp.cells(states, actions)]` holds their probabilities, and so on. Without `actions` they are
        numbered as `from_actions` numbers them: the k-th time that a state is listed stands for its k-th action.
        """
        states = checks.as_integers("states", states)
        checks.in_range("states", states, self.num_states, "states")
        if actions is None:
            checks.has_shape("states", states, (None,), "(N,), one for each action")
            actions = numbered(states)
        states, actions = np.broadcast_arrays(states, checks.as_integers("actions", actions))
        checks.in_range("actions", actions, self.num_actions, "actions")
        absent = ~self.exist(states, actions)
        if absent.any():
            first = tuple(np.argwhere(absent)[0])
            raise ValueError(f"Action {actions[first]} is not available in state {states[first]}.")
        return self.rows.cells(states, actions)

    def exist(self, states: Int[np.ndarray, "*n"], actions: Int[np.ndarray, "*n"]) -> Bool[np.ndarray, "*n"]:
        """Whether each action is available in its state."""
        if not self.rows.one_per_state:
            return np.asarray(actions < self.num_available[states])
        return np.ones(np.shape(actions), bool) if self.mask is None else np.asarray(self.mask)[actions, states]

    def as_narrow(self, values: Float[Array, "..."]) -> Float[Array, "..."]:
        """Probabilities or a reward at the precision of this problem: float32 if that was asked for, else as it is."""
        return values.astype(np.float32) if self.initial.dtype == np.float32 else values

    @property
    def available(self) -> Bool[Array, "R A"]:
        """Which actions exist where."""
        if self.mask is None:
            return np.ones(self.table_shape, bool)
        return self.mask.T if is_traced(self.mask) else np.asarray(self.mask).T

    @property
    def num_available(self) -> Int[np.ndarray, " S"]:
        """How many actions exist in each state."""
        return np.asarray(self.rows.sum(np.asarray(self.available).sum(axis=1)))

    @property
    def absorbing(self) -> Bool[np.ndarray, " S"]:
        """States that no available action leaves."""
        return absorbing_states(self.dynamics, self.rows, np.asarray(self.available))

    def successor_graph(self, chosen: Bool[np.ndarray, "R A"] | None = None) -> sp.csr_array:
        """An (S, S) matrix that is positive where a chosen action, by default any available, can lead from s to s'."""
        return successor_graph(self.dynamics, self.rows, np.asarray(self.available) if chosen is None else chosen)

    def align(self, table: Shaped[Array, "S A S"]) -> Shaped[Array, "..."]:
        """A table over (s, a, s'), aligned with the transitions that the dynamics store."""
        self.require_one_row("A table over (s, a, s')")
        return self.dynamics.align(table)

    def single_precision(self) -> "MDP":
        """The same problem in float32, for half the memory and about twice the speed.

        Planning, occupancies and fits in it compute in float32. Values are then right to about 1e-6 of the largest of
        them for each ten steps of a finite horizon, occupancies to about 1e-5 of theirs; on an infinite horizon the
        certificate says it. Fits reach a gradient of about 1e-5, so ask for no more (`tol=1e-4`).
        """
        with scope():
            narrow = jax.tree.map(_narrowed, self.dynamics)
            return eqx.tree_at(
                lambda mdp: (mdp.dynamics, mdp.initial), self, (narrow, np.asarray(self.initial, np.float32))
            )

    def sharded(self, mesh: Mesh) -> "MDP":
        """The same problem with its states spread over the devices of a mesh with one axis.

        Planners, occupancies and fits then run on all of them. Each device holds its share of the transitions; what is
        exchanged at each step is one number for each state. The devices must divide the number of states.
        """
        self.require_one_row("`MDP.sharded`")
        if len(mesh.axis_names) != 1:
            raise ValueError(f"`mesh` must have one axis, but has {mesh.axis_names}.")
        if self.num_states % mesh.size:
            raise ValueError(
                f"{self.num_states} states do not divide evenly over {mesh.size} devices. Add states that nothing leads"
                f" to (each with one action, back to itself) to make it {-(-self.num_states // mesh.size) * mesh.size}."
            )
        (axis,), size = mesh.axis_names, self.num_states
        # Without the axis types of the given mesh: the placement of intermediate arrays is left to the compiler.
        mesh = Mesh(mesh.devices, mesh.axis_names)

        def spread(leaf: Any) -> Any:
            last = np.ndim(leaf) > 0 and np.shape(leaf)[-1] == size
            where = [None] * (np.ndim(leaf) - 1) + [axis] if last else [None] * np.ndim(leaf)
            return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec(*where)))

        with scope():
            arrays, rest = eqx.partition(self, eqx.is_array_like)
            placed = jax.tree.map(lambda leaf: spread(leaf) if np.ndim(leaf) else leaf, arrays)
            return eqx.combine(placed, rest)

    @classmethod
    def from_shards(
        cls,
        source: Source | str | os.PathLike[str],
        mesh: Mesh,
        *,
        num_states: int | None = None,
        discount: Scalar,
        horizon: int | None = None,
        single_precision: bool = False,
    ) -> "MDP":
        """From parts that each process loads for its own devices, so that none of them ever holds all transitions.

        `source(first, last)` returns the states first, …, last − 1: `successors` and `probs` [n, A, B] as in
        `from_successors`, and `initial` [n], in a tuple; `successors` may be [n, 1, B] where all actions share them. It
        is called for a few states at a time, and may compute them in JAX, on the device. Or `source` is a folder of
        parts, which `irlax.mdp.save_part` wrote. `mesh` has one axis, over which states are spread as by `sharded`.
        `single_precision` loads them as `mdp.single_precision()` would store them.
        """
        if isinstance(source, (str, os.PathLike)):
            read, found = folder_source(source)
            num_states = found if num_states is None else num_states
        else:
            read = source
        if num_states is None:
            raise TypeError("`num_states` is needed where `source` is a function.")
        discount, horizon = checks.discount(discount), checks.horizon(horizon)
        if horizon is None and discount == 1:
            raise ValueError("`from_shards` looks for no absorbing states: give a horizon, or a discount below 1.")
        with scope():
            dtype = np.float32 if single_precision else np.float64
            dynamics, initial = sharded_dynamics(read, checks.count("num_states", num_states), mesh, dtype)
            return cls(dynamics, initial, discount, horizon=horizon)

    def load_table(self, source: Callable[[int, int], Any]) -> Float[Array, "S *rest"]:
        """A table with a row for each state, such as features [S, K], where the states of this MDP are.

        `source(first, last)` returns the rows of the states first, …, last − 1; it is called as that of `from_shards`
        is. The table is stored in the precision of the MDP, and rewards and planners take it as it is.
        """
        if not isinstance(self.initial, jax.Array) or not is_placed(self.initial):
            raise ValueError(
                "`load_table` needs an MDP whose states are spread over devices: use `MDP.from_shards` or "
                "`mdp.sharded`, with `jax.make_mesh((1,), ('states',))` for one device."
            )
        with scope():
            return loaded_table(source, self.initial)

    @property
    def spans_processes(self) -> bool:
        """Whether some of its transitions are on other processes, so that they can be computed with, but not read."""
        arrays = (leaf for leaf in jax.tree.leaves(self.dynamics) if isinstance(leaf, jax.Array))
        return any(not is_traced(leaf) and not leaf.is_fully_addressable for leaf in arrays)

    def require_one_row(self, what: str) -> None:
        """A ValueError, in the name of what needs tables with one row for each state, if some states take several."""
        if not self.rows.one_per_state:
            raise ValueError(
                f"{what} needs tables with one row for each state, but in this MDP some states take several rows "
                f"(tables have shape {self.table_shape}, for {self.num_states} states with up to {self.num_actions} "
                f"actions). If it is small, build it with `from_successors` and `available=`."
            )

    def replace(self, **changes: Any) -> "MDP":
        """The same problem with another `discount`, `horizon` or `initial`, checked again; single precision is kept."""
        unknown = set(changes) - {"discount", "horizon", "initial"}
        if unknown:
            raise TypeError(f"`replace` takes discount, horizon and initial, but got {', '.join(sorted(unknown))}.")
        kept = {"initial": self.initial, "discount": self.discount, "horizon": self.horizon} | changes
        available = None if self.mask is None else self.mask.T
        kept |= {"available": available, "rows": self.rows, "ends_at_goal": self.ends_at_goal}
        replaced = _assembled(lambda dynamics: dynamics, (self.dynamics,), **kept)
        return dataclasses.replace(replaced, initial=self.as_narrow(replaced.initial), labels=self.labels)

    def labelled(
        self,
        *,
        states: Iterable[str] | None = None,
        actions: Iterable[str] | None = None,
        layout: Iterable[str] | None = None,
        state_unit: str | None = None,
        action_unit: str | None = None,
        time_unit: str | None = None,
        places: Any = None,
    ) -> "MDP":
        """The same problem with names for display; labels that are not given stay as they are.

        `layout` draws a gridworld, a string a row, walls as "#". `places` are where states lie on a map: (x, y) of
        each, or (x₀, y₀, x₁, y₁) of links. Files keep labels, reports and figures show them, and no result depends on
        them.

            machine = machine.labelled(states=["new", "worn", "broken"], actions=["keep", "replace"], time_unit="month")
        """
        several = {"states": states, "actions": actions, "layout": layout}
        given: dict[str, Any] = {name: as_texts(name, texts) for name, texts in several.items() if texts is not None}
        units = {"state_unit": state_unit, "action_unit": action_unit, "time_unit": time_unit}
        given |= {name: as_texts(name, [unit])[0] for name, unit in units.items() if unit is not None}
        if places is not None:
            given["places"] = as_places(places)
        labels = dataclasses.replace(self.labels, **given)
        labels.check(self.num_states, self.num_actions)
        return dataclasses.replace(self, labels=labels)

    def summary(self) -> Summary:
        """Sizes, discount, horizon and labels, as a table."""
        from irlax.mdp.overview import summary

        return summary(self)

    def plot(self, values: Any = None, *, name: str = "", title: str = "", ax: Any = None) -> Any:
        """The states as a matplotlib figure: the cells of a gridworld, or a map where states have places.

        `values` [S] are shown by colour; `name` is what they are, for the colour bar. Without a layout and places (see
        `labelled`) values are bars, of at most 30 states, and without values the picture is the graph of possible
        moves, of at most 60 states. With `ax` it is drawn on these axes, which are returned.
        """
        from irlax.mdp.drawing import mdp_picture

        return mdp_picture(self, values, name=name, title=title, ax=ax)

    def __repr__(self) -> str:
        from irlax.mdp.overview import text

        return text(self)

    def _repr_html_(self) -> str:
        from irlax.mdp.overview import as_html

        return as_html(self)


def _narrowed(leaf: Any) -> Any:
    return jnp.asarray(leaf, jnp.float32) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def _assembled(
    build: Callable[..., AbstractDynamics],
    arrays: tuple[Any, ...],
    *,
    initial: Any,
    discount: Any,
    horizon: Any,
    available: Any,
    rows: AbstractRows = ONE_ROW,
    ends_at_goal: bool = False,
) -> MDP:
    """Check what all constructors share, then put the parts together."""
    with scope(arrays, initial, discount, available):
        dynamics = build(*arrays)
        checks.has_shape("initial", checks.as_floats("initial", initial), (dynamics.num_states,), "(S,)")
        initial = checks.probabilities("initial", initial)
        discount, horizon = checks.discount(discount), checks.horizon(horizon)
        terminal = None
        undiscounted = horizon is None and not is_traced(discount) and discount == 1 and not ends_at_goal
        if undiscounted and not is_traced(dynamics, available):
            everywhere = np.ones((rows.num_rows(dynamics.num_states), dynamics.num_actions), bool)
            exists = everywhere if available is None else np.asarray(available)
            terminal = to_device(undiscounted_end(dynamics, rows, exists))
        mask = available
        if mask is not None:
            # On the host where it can be: by JAX a program would be compiled.
            mask = to_device(mask.T) if isinstance(mask, np.ndarray) else jnp.asarray(mask).T
        return MDP(dynamics, initial, discount, mask, terminal, rows, horizon, ends_at_goal=ends_at_goal)
