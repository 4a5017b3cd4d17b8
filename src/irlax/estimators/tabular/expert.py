"""The demonstrator as the tabular estimators see it: demonstrations, their statistics, a policy, or an occupancy."""

import dataclasses
import math
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations, DemoStatistics
from irlax.estimators.tabular import aggregated
from irlax.estimators.tabular.problem import Flattening
from irlax.mdp import MDP
from irlax.planning.backup import HardBackup
from irlax.planning.occupancy import checked_policy, occupancy, visits
from irlax.planning.plan import Plan
from irlax.precision import scope
from irlax.registry import check_fields, stored
from irlax.rewards import AbstractReward
from irlax.typing import Float, Int
from irlax.user_warnings import warn_user

Start = Literal["auto", "demos", "mdp"]
#: Above this share of missing discounted mass a warning is given.
MISSING_WARNS = 0.01
#: A policy with an occupancy of more entries than this (800 MB) is summed over time at once.
MANY_ENTRIES = 100_000_000


class Choices(eqx.Module):
    """Observed choices grouped by time: row t of [T, M] holds choices made at t, padded with weight 0.

    An infinite horizon has one group: the policy is the same at all times. States and actions are the rows and columns
    at which they stand in tables (`MDP.cells`).
    """

    states: Int[np.ndarray, "T M"]
    actions: Int[np.ndarray, "T M"]
    weights: Float[np.ndarray, "T M"]
    #: Where each row of the demonstrations stands in the grid, rows of weight 0 too; None for a policy, which has none.
    places: tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]] | None = None


@stored("expert")
class Expert(eqx.Module):
    """A demonstrator in one MDP, whose start distribution is the one that the model is to use."""

    mdp: MDP
    demos: Demonstrations | None
    #: γᵗ P(S_t = s, A_t = a), or its sum over time, which is all that feature matching needs; only for a demonstrator
    #: given as policy or occupancy.
    given_occupancy: Float[np.ndarray, "*T R A"] | None
    #: How much this demonstrator counts beside others: its number of episodes, or 1.
    weight: float
    #: Whether it was given as a policy under which every available action has a chance.
    does_everything: bool = eqx.field(static=True, default=False)
    #: In place of demonstrations, their sums over choices and episodes.
    statistics: DemoStatistics | None = None

    @classmethod
    def of(cls, mdp: MDP, demonstrator: Any, given: Any, start: Start) -> "Expert":
        """Tell the kinds of demonstrator apart, and check the one that came."""
        checks.one_of("start", start, ("auto", "demos", "mdp"))
        if (demonstrator is None) == (given is None):
            raise TypeError("Pass demonstrations or a policy, or `occupancy=`: exactly one of them.")
        if isinstance(demonstrator, Demonstrations):
            return cls._of_demos(mdp, demonstrator, start)
        if isinstance(demonstrator, DemoStatistics):
            return cls._of_statistics(mdp, demonstrator, start)
        if start == "demos":
            raise ValueError("`start='demos'` needs demonstrations; a policy or an occupancy starts as the MDP does.")
        if given is not None:
            return cls(mdp, None, _checked_occupancy(mdp, given), 1.0)
        if not isinstance(demonstrator, (Plan, np.ndarray)) and not hasattr(demonstrator, "__array__"):
            raise TypeError(
                f"The demonstrator must be Demonstrations, DemoStatistics, a policy array or a plan, but is a "
                f"{type(demonstrator).__name__}."
            )
        policy = demonstrator if isinstance(demonstrator, Plan) else checked_policy(mdp, demonstrator)
        entries = (mdp.horizon or 1) * math.prod(mdp.table_shape)
        where = occupancy if entries <= MANY_ENTRIES else visits
        if isinstance(policy, Plan):
            softly = not isinstance(policy.backup, HardBackup)
            everything = softly and np.array_equal(policy.mdp.available, mdp.available)
        else:
            everything = bool((np.asarray(policy) > 0)[..., np.asarray(mdp.available)].all())
        return cls(mdp, None, np.asarray(where(mdp, policy)), 1.0, everything)

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any]) -> "Expert":
        """The demonstrator of a file, checked as that of a user is."""
        check_fields(cls, "expert", fields)
        mdp, given = fields["mdp"], fields["given_occupancy"]
        observed = fields.get("statistics") if fields["demos"] is None else fields["demos"]
        if observed is not None:
            return cls.of(mdp, observed, given, "mdp")
        if given is None:
            raise ValueError("A demonstrator without demonstrations must have an occupancy.")
        # Not checked as a user's occupancy is: one that was solved for may be negative by a rounding error.
        lead = () if mdp.horizon is None or given.ndim == 2 else (mdp.horizon,)
        checks.has_shape("occupancy", given, (*lead, *mdp.table_shape), "as the MDP has it")
        checks.finite("occupancy", given)
        return cls(**fields)

    @classmethod
    def _of_statistics(cls, mdp: MDP, statistics: DemoStatistics, start: Start) -> "Expert":
        statistics.check(mdp)
        if start != "mdp":
            mdp = _started(mdp, statistics.starts)
        if mdp.terminal is not None:
            aggregated.final_states(mdp, statistics)
        return cls(mdp, None, None, statistics.total_weight, statistics=statistics)

    @classmethod
    def _of_demos(cls, mdp: MDP, demos: Demonstrations, start: Start) -> "Expert":
        demos.check(mdp)
        if start != "mdp":
            mdp = _started(mdp, np.bincount(demos.start_states, weights=demos.weights, minlength=mdp.num_states))
        expert = cls(mdp, demos, None, float(demos.weights.sum()))
        if mdp.terminal is not None:
            # Here ends are part of the problem, whatever the objective.
            expert._final_states(demos, np.flatnonzero(demos.terminated))
        return expert

    @property
    def recorded(self) -> Demonstrations | None:
        """Rows over which sums of choices are taken: the demonstrations, or the distinct choices of their statistics.

        Of statistics the episodes are not those of the demonstrations. None for a policy or an occupancy, and for
        statistics that do not hold the choices at each time where these matter.
        """
        if self.statistics is None or (self.mdp.horizon is not None and self.statistics.by_time is None):
            return self.demos
        return self.statistics.distinct_choices(by_time=self.mdp.horizon is not None)

    def visits(self, *, warn: bool) -> tuple[Float[np.ndarray, "A R"], float]:
        """Mean discounted visits of an episode, and the share of discounted mass that nobody observed.

        Feature matching compares whole episodes. What is missing of truncated ones on an infinite horizon is
        taken to look like the rest; else the reward of merely going on would be unbounded.
        """
        if self.given_occupancy is not None:
            joint = self.given_occupancy
            return (joint if joint.ndim == 2 else joint.sum(axis=0)).T, 0.0
        self._refuse_partial_episodes()
        if self.statistics is not None:
            mean = aggregated.visits_of_episodes(self.mdp, self.statistics) / self.weight
        else:
            mean = self._observed_visits() / self.weight
        if self.mdp.horizon is not None or self.mdp.terminal is not None:
            return mean, 0.0
        whole = 1 / (1 - float(self.mdp.discount))
        missing = 1 - mean.sum() / whole
        if warn and missing > MISSING_WARNS:
            warn_user(
                f"Truncated episodes leave {missing:.1%} of the discounted mass unobserved; feature matching takes it "
                f"to look like the rest. The likelihood objectives need no such assumption."
            )
        return mean * (whole / mean.sum()), float(missing)

    def _observed_visits(self) -> Float[np.ndarray, "A R"]:
        """Σ w γᵗ over the choices of whole demonstrations, and over what follows terminated ones."""
        demos = self.demos
        assert demos is not None
        shape = self.mdp.table_shape[::-1]
        weight = np.repeat(demos.weights, demos.lengths) * float(self.mdp.discount) ** demos.times
        rows, columns = self.mdp.rows.cells(demos.tabular_states, demos.actions)
        flat = np.bincount(columns * shape[1] + rows, weights=weight, minlength=shape[0] * shape[1])
        ended = np.flatnonzero(demos.terminated)
        final = self._final_states(demos, ended)
        after = aggregated.visits_after_the_end(self.mdp, final, demos.lengths[ended], demos.weights[ended])
        return flat.reshape(shape) + after

    def is_whole(self) -> bool:
        """Whether visits to states are known: episodes are whole, or the occupancy was given."""
        if self.given_occupancy is not None:
            return True
        if self._lacks() is not None:
            return False
        try:
            self._ends()
        except ValueError:
            # Where episodes end is not said, or not possible.
            return False
        return True

    def knows_features(self, reward: AbstractReward) -> bool:
        """Whether feature expectations are known: visits to states are, and no choice that nobody saw matters."""
        return self.is_whole() and self.choices_after_the_end(reward) is None

    def refuse_choices_after_the_end(self, reward: AbstractReward) -> None:
        """A ValueError where feature expectations depend on choices that nobody saw."""
        unknown = self.given_occupancy is not None or self._lacks() is not None
        why = None if unknown else self.choices_after_the_end(reward)
        if why is not None:
            raise ValueError(
                f"Feature matching needs the features of all that follows, but {why}. Give the MDP one action in each "
                f"absorbing state (`available=`), or use MCEIRL with objective='likelihood' or 'discounted-likelihood'."
            )

    def _refuse_partial_episodes(self) -> None:
        lacks = self._lacks()
        if lacks is not None:
            raise ValueError(
                f"Feature matching wants whole episodes, but {lacks}. Use MCEIRL with objective='likelihood' or "
                f"'discounted-likelihood', which take episodes as they are."
            )

    def _lacks(self) -> str | None:
        """What keeps the episodes from being whole."""
        if self.statistics is not None:
            return aggregated.lacks(self.mdp, self.statistics)
        demos, mdp = self.demos, self.mdp
        assert demos is not None
        late = demos.times[demos.offsets[:-1]] != 0
        if late.any():
            first = demos.where(int(demos.offsets[np.argmax(late)]))
            return f"{late.sum()} do not start at t = 0 (the first is {first})"
        gaps = (np.diff(demos.episode) == 0) & (np.diff(demos.times) != 1)
        if gaps.any():
            return f"there are gaps in time, the first after {demos.where(int(np.argmax(gaps)))}"
        if mdp.horizon is not None:
            short = ~demos.terminated & (demos.lengths < mdp.horizon)
            wanted = f"have {mdp.horizon} steps, though they are not terminated"
        elif mdp.terminal is not None:
            short, wanted = ~demos.terminated, "reach an absorbing state"
        else:
            return None
        if short.any():
            last = demos.where(int(demos.offsets[np.argmax(short) + 1]) - 1)
            return f"{short.sum()} of {demos.num_episodes} do not {wanted} (the first ends at {last})"
        return None

    def _ends(self) -> Int[np.ndarray, " n"]:
        """The absorbing states in which terminated episodes end."""
        if self.statistics is not None:
            return np.unique(aggregated.final_states(self.mdp, self.statistics))
        assert self.demos is not None
        return np.unique(self._final_states(self.demos, np.flatnonzero(self.demos.terminated)))

    def _final_states(self, demos: Demonstrations, ended: np.ndarray) -> np.ndarray:
        """The absorbing state in which each terminated episode ends; at γ = 1, where all of them pay nothing, any."""
        if not len(ended):
            return ended
        absorbing, last = self.mdp.absorbing, demos.offsets[ended + 1] - 1
        if demos.next_states is not None:
            final = demos.next_states[last]
            wrong = ~absorbing[final]
        elif absorbing.sum() == 1 or (self.mdp.terminal is not None and absorbing.any()):
            final = np.full(len(ended), np.argmax(absorbing))
            with scope():
                arrives = np.asarray(self.mdp.dynamics.backward(jnp.asarray(absorbing, float)))
            wrong = arrives.T[self.mdp.rows.cells(demos.tabular_states[last], demos.actions[last])] <= 0
        else:
            raise ValueError(
                f"Terminated episodes are followed by an absorbing state for ever, but the MDP has {absorbing.sum()} "
                f"of them and the demonstrations do not say which: give `next_states`."
            )
        if wrong.any():
            first = int(last[np.argmax(wrong)])
            where = "" if demos.next_states is None else f", in state {demos.next_states[first]}"
            raise ValueError(
                f"{wrong.sum()} episodes are marked terminated, but do not lead into a state that is absorbing in the "
                f"MDP (the first ends at {demos.where(first)}{where}). If they were cut short, they are truncated."
            )
        return final

    def choices_after_the_end(self, reward: AbstractReward) -> str | None:
        """Why the demonstrator's features are not known: what it would choose after the end matters, and nobody saw it.

        An absorbing state follows a terminated episode for ever. If it has several actions, and the reward tells them
        apart, its visits are known and its choices are not.
        """
        if self.given_occupancy is not None or self.mdp.terminal is not None:
            return None
        ends = self._ends()
        with scope():
            probe = jnp.asarray(np.random.default_rng(0).normal(size=reward.num_parameters))
            paid = np.asarray(reward.fold(self.mdp)(Flattening.of(reward.parameters).unflatten(probe)))
            owner = self.mdp.state_of_row
        exists = np.asarray(self.mdp.available)
        apart = []
        for state in ends:
            here = paid.T[owner == state][exists[owner == state]]
            if np.ptp(here) > 1e-12 * max(np.abs(here).max(), 1e-300):
                apart.append(state)
        if not apart:
            return None
        return (
            f"episodes end in absorbing states with several actions, between which this reward makes a difference "
            f"(states {checks.some(apart)}), and what would be chosen there for ever after was not observed"
        )

    def choices(self, *, discounted: bool) -> Choices:
        """Observed choices with their weights, γᵗ or 1 each, divided by the number of episodes."""
        mdp = self.mdp
        if self.statistics is not None:
            time, *cells, weight = aggregated.observed_choices(mdp, self.statistics, discounted=discounted)
            return grouped(mdp, time, *mdp.rows.cells(*cells), weight / self.weight)
        if self.demos is not None:
            demos = self.demos
            weight = np.repeat(demos.weights, demos.lengths) / demos.weights.sum()
            if discounted:
                weight = weight * float(mdp.discount) ** demos.times
            time = np.zeros(demos.num_steps, int) if mdp.horizon is None else demos.times
            return grouped(mdp, time, *mdp.rows.cells(demos.tabular_states, demos.actions), weight)
        joint = self.given_occupancy
        assert joint is not None
        if mdp.horizon is not None and joint.ndim == 2:
            raise ValueError(
                "The likelihood objectives need the demonstrator's occupancy at each time, (T, S, A), but only its sum "
                "over time is known. Use 'feature-matching', or sample demonstrations with `rollout`."
            )
        if not discounted and mdp.discount != 1:
            if mdp.horizon is None:
                raise ValueError(
                    "objective='likelihood' counts every choice once, and an endless policy makes infinitely many. Use "
                    "'discounted-likelihood', or sample demonstrations with `rollout`."
                )
            if mdp.discount == 0:
                raise ValueError("objective='likelihood' needs demonstrations, or a policy with a discount above 0.")
            joint = joint / float(mdp.discount) ** np.arange(mdp.horizon)[:, None, None]
        joint = joint[None] if mdp.horizon is None else joint
        time, states, actions = np.nonzero(joint)
        seen = grouped(mdp, time, states, actions, joint[time, states, actions])
        return dataclasses.replace(seen, places=None)

    def transitions(self) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Int[np.ndarray, " m"], np.ndarray]:
        """Observed moves (s, a, s') with weight γᵗ / N, for models that look at each transition's own reward."""
        self._refuse_partial_episodes()
        aggregated.refuse_statistics(self.statistics, "A reward over (s, a, s') under the path model")
        demos = self.demos
        assert demos is not None
        rows, after = demos.moves()
        if len(rows) < demos.num_steps:
            raise ValueError(
                "A reward over (s, a, s') under the path model needs every next state, the last one too: "
                "give `next_states`."
            )
        weight = np.repeat(demos.weights, demos.lengths) * float(self.mdp.discount) ** demos.times
        return demos.tabular_states, demos.actions, after, weight / demos.weights.sum()


def _started(mdp: MDP, starts: Float[np.ndarray, " S"]) -> MDP:
    """The MDP that starts as often in each state as was counted."""
    return eqx.tree_at(lambda mdp: mdp.initial, mdp, mdp.as_narrow(starts / starts.sum()))


def grouped(mdp: MDP, time: np.ndarray, states: np.ndarray, actions: np.ndarray, weight: np.ndarray) -> Choices:
    """Add up equal choices, given by their cells in tables, and lay them out in one row for each time."""
    periods = 1 if mdp.horizon is None else mdp.horizon
    num_rows, num_columns = mdp.table_shape
    code = (time * num_rows + states) * num_columns + actions
    unique, inverse = np.unique(code, return_inverse=True)
    total = np.bincount(inverse, weights=weight, minlength=len(unique))
    place, action = np.divmod(unique, num_columns)
    period, state = np.divmod(place, num_rows)
    counts = np.bincount(period, minlength=periods)
    column = np.arange(len(unique)) - np.repeat(np.cumsum(counts) - counts, counts)
    # A power of two, so that other data of like size meet the same shape, and what was compiled for it.
    width = 2 ** int(np.ceil(np.log2(max(int(counts.max(initial=0)), 1))))
    shape = (periods, min(width, num_rows * num_columns))
    # Padding must point at a choice that exists: log π of one that does not is −inf, and 0 · −inf is NaN.
    first_action = 0 if mdp.mask is None else int(np.argmax(np.asarray(mdp.mask)[:, 0]))
    places = (period[inverse], column[inverse])
    grid = Choices(np.zeros(shape, int), np.full(shape, first_action), np.zeros(shape), places)
    for target, source in ((grid.states, state), (grid.actions, action), (grid.weights, total)):
        target[period, column] = source
    return grid


def _checked_occupancy(mdp: MDP, given: Any) -> Float[np.ndarray, "*T R A"]:
    joint = checks.as_floats("occupancy", given)
    summed = mdp.horizon is None or joint.ndim == 2
    lead = () if summed else (mdp.horizon,)
    meaning = "(S, A)" if summed else "(T, S, A), or (S, A) summed over time"
    checks.has_shape("occupancy", joint, (*lead, *mdp.table_shape), meaning)
    checks.finite("occupancy", joint)
    if (joint < 0).any():
        raise ValueError(f"`occupancy` must not be negative, but is at {checks.places(joint < 0)}.")
    if mdp.mask is not None and (joint * ~np.asarray(mdp.available) > 0).any():
        raise ValueError("`occupancy` has mass on actions that do not exist.")
    if mdp.terminal is None:
        discount = float(mdp.discount)
        whole = 1 / (1 - discount) if mdp.horizon is None else (discount ** np.arange(mdp.horizon)).sum()
        if abs(joint.sum() - whole) > 1e-6 * whole:
            raise ValueError(
                f"`occupancy` must have the discounted mass Σγᵗ = {whole:.6g}, but sums to {joint.sum():.6g}. "
                f"Discount and horizon must be those of the MDP."
            )
    return joint
