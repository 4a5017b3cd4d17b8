r"""Motives that follow a hidden Markov chain over the steps of an episode.

$$z_0 \sim \rho, \qquad P(z_{t+1} = j | z_t = i, s_t) = \frac{\exp(b_{ij} + \phi(s_t)^\top w_{ij})}{\sum_k
\exp(b_{ik} + \phi(s_t)^\top w_{ik})}, \qquad a_t \sim \pi_{z_t}(\cdot|s_t)$$

with $b_{ii} = w_{ii} = 0$: the others are log-odds of switching to j against staying. The likelihood is a forward
recursion in log space (Baum et al. 1970). Its derivative in the log policies of choices is the probability of each
motive at each step, and in the log probabilities of switches their expected number, as backward recursions give them.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from irlax.estimators.mixed.hidden import AbstractHidden
from irlax.estimators.mixed.lanes import Lanes
from irlax.estimators.mixed.switch_regression import maximised_switching
from irlax.typing import Array, Bool, Float, Int

#: The log-odds of switching at which a search starts: a motive lasts for about ten steps.
FIRST_ODDS = -2.2
#: The log-odds of a probability of 0: finite, because derivatives of an infinite one are not numbers.
NEVER = -1e30
#: A solver starts with at least about this many episodes that start with each motive, and as many switches of each
#: kind in episodes of exp(`LONG_EPISODE`) steps.
MIN_SWITCHES, LONG_EPISODE = 1e-2, 5.0
#: Below this many expected switches, a probability of 0 is tried in place of the estimate.
FEW_SWITCHES = 1e-2


class ChainParameters(NamedTuple):
    """Log-odds of motives at the start and of switches; all against a reference."""

    #: Of the first motive, against that of the reference.
    initial: Any
    #: b: a row for each motive, a column for each other motive in their order.
    base: Any
    #: w; None if switching does not depend on the state.
    slopes: Any = None


class Chain(AbstractHidden):
    """Motives of episodes in lanes; see the module."""

    #: The choice of each step, among the cells, and how often it counts: 0 for steps without one.
    cell: Int[Array, "L B"]
    count: Float[Array, "L B"]
    starts: Bool[Array, "L B"]
    #: The episode of each step, the number of episodes after the end of a lane.
    episode: Int[Array, "L B"]
    #: The last observed state before the step, over all MDPs.
    state: Int[Array, "L B"]
    #: φ(s), a row for each state of all MDPs; None if each state has its own w.
    features: Float[Array, "S F"] | None
    #: Which log-odds are free; the others are held at a probability of 0.
    free: ChainParameters
    #: Has a column for each log-odds of first motives: 1 for its motive, and a row of 0 for the reference.
    layout: Float[Array, "G odds"]
    #: The weight of the penalty ½‖w‖².
    l2: Float[Array, ""]
    num_episodes: int = eqx.field(static=True)
    num_groups: int = eqx.field(static=True)
    #: The number of features of states, or of states if each has its own w; None if switching does not depend on them.
    num_slopes: int | None = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        lanes: Lanes,
        cell: Int[np.ndarray, " n"],
        row_weights: Float[np.ndarray, " n"],
        *,
        states: Int[np.ndarray, " n"],
        num_motives: int,
        num_slopes: int | None = None,
        features: Float[np.ndarray, "S F"] | None = None,
        l2: float = 0.0,
    ) -> "Chain":
        """Of rows of demonstrations, each with its cell, its state, and how often it counts."""
        observed, num_episodes = lanes.row >= 0, int(lanes.episode.max()) + 1
        return cls(
            cell=jnp.asarray(np.where(observed, cell[lanes.row], 0), jnp.int32),
            count=jnp.asarray(np.where(observed, row_weights[lanes.row], 0.0)),
            # Empty steps are starts too, so that they have no effect on the steps before them.
            starts=jnp.asarray(lanes.starts | (lanes.episode < 0)),
            episode=jnp.asarray(np.where(lanes.episode < 0, num_episodes, lanes.episode), jnp.int32),
            state=jnp.asarray(np.where(lanes.before < 0, 0, states[lanes.before]), jnp.int32),
            features=None if features is None else jnp.asarray(features),
            free=jax.tree.map(lambda odds: jnp.ones(odds.shape, bool), _first_parameters(num_motives, num_slopes)),
            layout=jnp.eye(num_motives)[:, 1:],
            l2=jnp.asarray(l2),
            num_episodes=num_episodes,
            num_groups=num_motives,
            num_slopes=num_slopes,
        )

    def log_likelihoods(self, choices: Float[Array, "G C"], parameters: Any) -> Float[Array, " N"]:
        return self.given_steps(self.log_choices(choices), self.tables(parameters))

    def log_choices(self, choices: Float[Array, "G C"]) -> Float[Array, "L B G"]:
        """log π of the choice at each step under each motive; 0 for steps without one."""
        return jnp.moveaxis(choices[:, self.cell], 0, -1) * self.count[..., None]

    def tables(self, parameters: Any) -> "Tables":
        """The log probabilities of first motives, and of switches in each state."""
        return tables_of(parameters, self.free, self.layout, self.features)

    def given_steps(self, steps: Float[Array, "L B G"], tables: "Tables") -> Float[Array, " N"]:
        """The log likelihood of each episode, given log policies of steps and the tables."""
        by_step = self._by_step(steps, tables)
        return jnp.zeros(self.num_episodes, steps.dtype).at[self.episode].add(by_step, mode="drop")

    def _by_step(self, steps: Float[Array, "L B G"], tables: "Tables") -> Float[Array, "L B"]:
        """log p(a_t | a_0, …, a_{t−1}) of each step."""

        def step(filtered: Float[Array, "B G"], at: Any) -> tuple[Float[Array, "B G"], Float[Array, " B"]]:
            log_choice, starts, switch = at
            predicted = logsumexp(filtered[:, :, None] + switch, axis=1)
            joint = jnp.where(starts[:, None], tables.initial, predicted) + log_choice
            total = logsumexp(joint, axis=1)
            return joint - total[:, None], total

        # A lane begins with an episode, so that the first entries are not used.
        first = jnp.full(steps.shape[1:], -jnp.log(self.num_groups))
        return jax.lax.scan(step, first, (steps, self.starts, self.switches(tables)))[1]

    def switches(self, tables: "Tables") -> Float[Array, "L B G G"]:
        """The log probabilities of switches into each step."""
        if self.num_slopes is None:
            return jnp.broadcast_to(tables.switching[0], (*self.cell.shape, self.num_groups, self.num_groups))
        return tables.switching[self.state]

    def initial_parameters(self) -> ChainParameters:
        return _first_parameters(self.num_groups, self.num_slopes)

    def maximised(self, choices: Float[Array, "G C"], parameters: Any, weights: Float[Array, " N"]) -> ChainParameters:
        expected = _expected_switches(self, choices, parameters, weights)
        initial = np.maximum(np.asarray(expected.initial), 1e-300)
        logs = np.log(initial / initial.sum()).clip(np.log(1e-12))
        layout = np.asarray(self.layout)
        odds = layout.T @ (logs - logs[self.reference])
        base, slopes = maximised_switching(
            np.asarray(expected.switching), parameters.base, parameters.slopes, self.features, float(self.l2)
        )
        return ChainParameters(odds, base, slopes)

    def penalty(self, parameters: Any) -> Any:
        if parameters.slopes is None:
            return 0.0
        return 0.5 * self.l2 * (jnp.where(self.free.slopes, parameters.slopes, 0.0) ** 2).sum()

    def shares(self, parameters: Any, expected: Float[np.ndarray, "G C"]) -> Float[np.ndarray, " G"]:
        by_group = expected.sum(axis=1)
        return by_group / by_group.sum()

    def reordered(self, parameters: Any, order: Int[np.ndarray, " G"]) -> tuple["Chain", ChainParameters]:
        logits = (np.asarray(self.layout) @ parameters.initial)[order]
        slopes = None if parameters.slopes is None else _reordered(parameters.slopes, order)
        chain, initial = self._referred_to(logits, int(np.flatnonzero(order == self.reference)[0]))
        return chain, ChainParameters(initial, _reordered(parameters.base, order), slopes)

    @property
    def reference(self) -> int:
        """The motive against which those of other first motives are log-odds."""
        return int(np.argmin(np.asarray(self.layout).sum(axis=1)))

    def _referred_to(self, logits: Float[np.ndarray, " G"], reference: int) -> tuple["Chain", Float[np.ndarray, " o"]]:
        """The chain with another reference, and the log-odds of first motives against that."""
        layout = jnp.asarray(np.delete(np.eye(self.num_groups), reference, axis=1))
        chain = eqx.tree_at(lambda chain: chain.layout, self, layout)
        return chain, np.delete(logits - logits[reference], reference)

    def lifted(self, parameters: Any, total: float) -> tuple["Chain", ChainParameters]:
        logits = np.asarray(self.layout) @ parameters.initial
        # Against the likeliest one: log-odds against a probability of 0 would be infinite.
        chain, initial = self._referred_to(logits, int(np.argmax(logits)))
        floor = np.log(MIN_SWITCHES / total)
        initial, base = np.maximum(initial, floor), np.maximum(parameters.base, floor - LONG_EPISODE)
        return chain, ChainParameters(initial, base, parameters.slopes)

    def held(self, choices: Float[Array, "G C"], parameters: Any, weights: Float[Array, " N"]) -> "Chain":
        expected = _expected_switches(self, choices, parameters, weights)
        switches, starts = np.asarray(expected.switching).sum(axis=0), np.asarray(expected.initial)
        first = np.argmax(np.asarray(self.layout), axis=0)
        # Where a probability is almost 0, the chain without it is tried.
        trials = [
            lambda chain, g=g, k=k: chain.without_switch(g, k)
            for g, k in _off_diagonal(self.num_groups)
            if switches[g, k + (k >= g)] < FEW_SWITCHES
        ]
        trials += [lambda chain, k=k: chain.without_start(k) for k, g in enumerate(first) if starts[g] < FEW_SWITCHES]
        chain, least = self, float(_total(self, choices, parameters, weights))
        for trial in trials:
            without = trial(chain)
            if float(_total(without, choices, parameters, weights)) >= least - 1e-9 * abs(least):
                chain = without
        return chain

    def without_switch(self, group: int, column: int) -> "Chain":
        """The chain in which one kind of switch never happens."""
        free = self.free._replace(base=self.free.base.at[group, column].set(False))
        if free.slopes is not None:
            free = free._replace(slopes=free.slopes.at[:, group, column].set(False))
        return eqx.tree_at(lambda chain: chain.free, self, free)

    def without_start(self, column: int) -> "Chain":
        """The chain in which no episode starts with one of the motives."""
        free = self.free._replace(initial=self.free.initial.at[column].set(False))
        return eqx.tree_at(lambda chain: chain.free, self, free)

    def log_probabilities(self, parameters: Any) -> Float[np.ndarray, "G m"]:
        tables = _tables(self, parameters)
        switching = np.moveaxis(np.asarray(tables.switching), 1, 0).reshape(self.num_groups, -1)
        return np.concatenate([np.asarray(tables.initial)[:, None], switching], axis=1)

    @property
    def num_values(self) -> int:
        return self.cell.size * self.num_groups**2


class Tables(NamedTuple):
    """Log probabilities of first motives [G] and of switches [S, G, G], or expected numbers of these."""

    initial: Any
    switching: Any


def tables_of(
    parameters: ChainParameters, free: ChainParameters, layout: Float[Any, "G odds"], features: Any
) -> Tables:
    """The log probabilities that log-odds stand for; those that are not free stand for 0."""
    initial = jnp.where(free.initial, parameters.initial, NEVER)
    switch = jnp.asarray(parameters.base)[None]
    if parameters.slopes is not None:
        # Slopes of a switch that never happens have no effect.
        slopes = jnp.where(free.slopes, parameters.slopes, 0.0)
        switch = switch + (slopes if features is None else jnp.tensordot(features, slopes, 1))
    switch = jnp.where(free.base, switch, NEVER)
    stay = jnp.zeros((*switch.shape[:2], 1), switch.dtype)
    # Column k of row i is motive k before i, and motive k + 1 from there on: staying is between them.
    rows = [jnp.concatenate([switch[:, i, :i], stay[:, i], switch[:, i, i:]], axis=-1) for i in range(len(layout))]
    return Tables(jax.nn.log_softmax(layout @ initial), jax.nn.log_softmax(jnp.stack(rows, axis=1), axis=-1))


def _first_parameters(num_motives: int, num_slopes: int | None) -> ChainParameters:
    base = np.full((num_motives, num_motives - 1), FIRST_ODDS - np.log(max(num_motives - 1, 1)))
    slopes = None if num_slopes is None else np.zeros((num_slopes, *base.shape))
    return ChainParameters(np.zeros(num_motives - 1), base, slopes)


def _off_diagonal(num_groups: int) -> list[tuple[int, int]]:
    return [(g, k) for g in range(num_groups) for k in range(num_groups - 1)]


def _reordered(odds: Float[np.ndarray, "*S G odds"], order: Int[np.ndarray, " G"]) -> Float[np.ndarray, "*S G odds"]:
    """Log-odds of switches after the motives were put in another order."""
    num = odds.shape[-2]
    square = np.zeros((*odds.shape[:-2], num, num))
    for g, k in _off_diagonal(num):
        square[..., g, k + (k >= g)] = odds[..., g, k]
    square = square[..., order, :][..., order]
    result = np.empty(odds.shape)
    for g, k in _off_diagonal(num):
        result[..., g, k] = square[..., g, k + (k >= g)]
    return result


@eqx.filter_jit
def _total(chain: Chain, choices: Float[Array, "G C"], parameters: Any, weights: Float[Array, " N"]) -> Any:
    return weights @ chain.log_likelihoods(choices, parameters) - chain.penalty(parameters) * weights.sum()


@eqx.filter_jit
def _tables(chain: Chain, parameters: Any) -> Tables:
    return chain.tables(jax.tree.map(jnp.asarray, parameters))


@eqx.filter_jit
def _expected_switches(
    chain: Chain, choices: Float[Array, "G C"], parameters: Any, weights: Float[Array, " N"]
) -> Tables:
    """The expected numbers of episodes that start with each motive, and of switches in each state."""
    steps, tables = chain.log_choices(choices), chain.tables(parameters)
    return jax.grad(lambda tables: weights @ chain.given_steps(steps, tables))(tables)


@eqx.filter_jit
def motive_posterior(chain: Chain, choices: Float[Array, "G C"], parameters: Any) -> Float[Array, "L B G"]:
    """The probability of each motive at each step, given all choices of its episode."""
    steps, tables = chain.log_choices(choices), chain.tables(parameters)
    return jax.grad(lambda steps: chain.given_steps(steps, tables).sum())(steps)


@eqx.filter_jit
def predictive(chain: Chain, choices: Float[Array, "G C"], parameters: Any) -> Float[Array, "L B"]:
    """log p(a_t | earlier choices) of each step."""
    return chain._by_step(chain.log_choices(choices), chain.tables(parameters))


@eqx.filter_jit
def likeliest_path(chain: Chain, choices: Float[Array, "G C"], parameters: Any) -> Int[Array, "L B"]:
    """The motives that are likeliest together, given all choices of their episode (Viterbi 1967)."""
    steps, tables = chain.log_choices(choices), chain.tables(parameters)

    def forward(best: Float[Array, "B G"], at: Any) -> tuple[Any, Any]:
        log_choice, starts, switch = at
        through = best[:, :, None] + switch
        arrived = jnp.where(starts[:, None], tables.initial + best.max(axis=1, keepdims=True), through.max(axis=1))
        origin = jnp.where(starts[:, None], best.argmax(axis=1)[:, None], through.argmax(axis=1))
        return arrived + log_choice, origin

    def backward(motive: Int[Array, " B"], origin: Int[Array, "B G"]) -> tuple[Any, Any]:
        return jnp.take_along_axis(origin, motive[:, None], axis=1)[:, 0], motive

    first = jnp.zeros(steps.shape[1:])
    best, origins = jax.lax.scan(forward, first, (steps, chain.starts, chain.switches(tables)))
    return jax.lax.scan(backward, best.argmax(axis=1), origins, reverse=True)[1]
