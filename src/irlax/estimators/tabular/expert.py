"""The demonstrator of a tabular fit: demonstrations, their statistics, a policy, or an occupancy."""

import dataclasses
import math
from typing import Any, Literal

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations, DemoStatistics
from irlax.estimators.tabular import aggregated
from irlax.estimators.tabular.choices import Choices, group_choices
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.whole_episodes import final_states, why_not_whole
from irlax.mdp import MDP
from irlax.planning.backup import HardBackup
from irlax.planning.occupancy import checked_policy, occupancy, visits
from irlax.planning.plan import Plan
from irlax.precision import scope, to_host
from irlax.registry import check_fields, stored
from irlax.rewards import AbstractReward
from irlax.rewards.reward import reward_at
from irlax.typing import Float, Int
from irlax.user_warnings import warn_user

Start = Literal["auto", "demos", "mdp"]
#: A larger share of unobserved discounted mass gives a warning.
MAX_MISSING_MASS = 0.01
#: An occupancy of more entries than this (800 MB) is kept only as its sum over time.
MAX_OCCUPANCY_ENTRIES = 100_000_000


@stored("expert")
class Expert(eqx.Module):
    """A demonstrator in one MDP, whose start distribution is that of the model."""

    mdp: MDP
    demos: Demonstrations | None
    #: γᵗ P(S_t = s, A_t = a), or its sum over time, which is all that feature matching needs; only for a demonstrator
    #: given as policy or occupancy.
    given_occupancy: Float[np.ndarray, "*T R A"] | None
    #: The weight of this demonstrator among several: its number of episodes, or 1.
    weight: float
    #: Whether it was given as a policy in which every available action has a positive probability.
    does_everything: bool = eqx.field(static=True, default=False)
    #: Sums over choices and episodes, in place of demonstrations.
    statistics: DemoStatistics | None = None

    @classmethod
    def of(cls, mdp: MDP, demonstrator: Any, given: Any, start: Start) -> "Expert":
        """The validated demonstrator: Demonstrations, DemoStatistics, a policy, a plan, or an occupancy (`given`)."""
        checks.one_of("start", start, ("auto", "demos", "mdp"))
        if (demonstrator is None) == (given is None):
            raise TypeError("Pass demonstrations or a policy, or `occupancy=`: exactly one of them.")
        if isinstance(demonstrator, Demonstrations):
            if demonstrator.goals is not None:
                raise ValueError(
                    "These demonstrations end at goals of their own, which this estimator does not take. Use MCEIRL, "
                    "MixtureIRL or SwitchingIRL, or fit to one MDP for each goal."
                )
            return cls._of_demos(mdp, demonstrator, start)
        if isinstance(demonstrator, DemoStatistics):
            return cls._of_statistics(mdp, demonstrator, start)
        if start == "demos":
            raise ValueError(
                "`start='demos'` needs demonstrations; with a policy or an occupancy pass 'mdp' or 'auto'."
            )
        if given is not None:
            return cls(mdp, None, _checked_occupancy(mdp, given), 1.0)
        if not isinstance(demonstrator, (Plan, np.ndarray)) and not hasattr(demonstrator, "__array__"):
            raise TypeError(
                f"The demonstrator must be Demonstrations, DemoStatistics, a policy array or a plan, but is a "
                f"{type(demonstrator).__name__}."
            )
        policy = demonstrator if isinstance(demonstrator, Plan) else checked_policy(mdp, demonstrator)
        entries = (mdp.horizon or 1) * math.prod(mdp.table_shape)
        occupancy_of = occupancy if entries <= MAX_OCCUPANCY_ENTRIES else visits
        if isinstance(policy, Plan):
            is_soft = not isinstance(policy.backup, HardBackup)
            everything = is_soft and np.array_equal(policy.mdp.available, mdp.available)
        else:
            everything = bool((np.asarray(policy) > 0)[..., np.asarray(mdp.available)].all())
        return cls(mdp, None, to_host(occupancy_of(mdp, policy)), 1.0, everything)

    @classmethod
    def with_goals(cls, mdp: MDP, demos: Demonstrations) -> "Expert":
        """Demonstrations that each end at a goal of their own, for the estimators that plan towards goals."""
        demos.check(mdp)
        return cls(mdp, demos, None, float(demos.weights.sum()))

    @property
    def has_goals(self) -> bool:
        """Whether the demonstrations name their goals."""
        return self.demos is not None and self.demos.goals is not None

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any]) -> "Expert":
        """The demonstrator of a file, validated as one given by a user."""
        check_fields(cls, "expert", fields)
        mdp, given = fields["mdp"], fields["given_occupancy"]
        observed = fields.get("statistics") if fields["demos"] is None else fields["demos"]
        if isinstance(observed, Demonstrations) and observed.goals is not None:
            return cls.with_goals(mdp, observed)
        if observed is not None:
            return cls.of(mdp, observed, given, "mdp")
        if given is None:
            raise ValueError("A demonstrator without demonstrations must have an occupancy.")
        # Not validated like a user's occupancy: one that irlax computed may be negative by a rounding error.
        lead = () if mdp.horizon is None or given.ndim == 2 else (mdp.horizon,)
        checks.has_shape("occupancy", given, (*lead, *mdp.table_shape), "as the MDP has it")
        checks.finite("occupancy", given)
        return cls(**fields)

    @classmethod
    def _of_statistics(cls, mdp: MDP, statistics: DemoStatistics, start: Start) -> "Expert":
        statistics.check(mdp)
        if start != "mdp":
            mdp = _with_starts(mdp, statistics.starts)
        if mdp.terminal is not None:
            aggregated.final_states(mdp, statistics)
        return cls(mdp, None, None, statistics.total_weight, statistics=statistics)

    @classmethod
    def _of_demos(cls, mdp: MDP, demos: Demonstrations, start: Start) -> "Expert":
        demos.check(mdp)
        if start != "mdp":
            mdp = _with_starts(mdp, np.bincount(demos.start_states, weights=demos.weights, minlength=mdp.num_states))
        expert = cls(mdp, demos, None, float(demos.weights.sum()))
        if mdp.terminal is not None:
            # At γ = 1 every objective depends on where episodes end.
            final_states(mdp, demos)
        return expert

    @property
    def recorded(self) -> Demonstrations | None:
        """The demonstrations, or the distinct choices of their statistics in the form of demonstrations.

        The episodes in the latter are not the observed ones. None for a policy or an occupancy, and, on a finite
        horizon, for statistics without the choices at each time.
        """
        if self.statistics is None or (self.mdp.horizon is not None and self.statistics.by_time is None):
            return self.demos
        return self.statistics.distinct_choices(by_time=self.mdp.horizon is not None)

    def visits(self, *, warn: bool) -> tuple[Float[np.ndarray, "A R"], float]:
        """Mean discounted visits of an episode, and the share of discounted mass that was not observed.

        Feature matching compares whole episodes. On an infinite horizon the unobserved part of truncated episodes is
        assumed to have the same distribution of visits as the observed part; otherwise the model would have more
        visits in total than the demonstrator, and the weight of a constant feature would be unbounded.
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
        if warn and missing > MAX_MISSING_MASS:
            warn_user(
                f"Truncated episodes leave {missing:.1%} of the discounted mass unobserved; feature matching assumes "
                f"that it looks like the rest. The likelihood objectives need no such assumption."
            )
        return mean * (whole / mean.sum()), float(missing)

    def _observed_visits(self) -> Float[np.ndarray, "A R"]:
        """Σ w γᵗ over the observed choices, and over the absorbing states that follow terminated episodes."""
        demos = self.demos
        assert demos is not None
        shape = self.mdp.table_shape[::-1]
        weight = self._discounts()
        rows, columns = self.mdp.rows.cells(demos.tabular_states, demos.actions)
        flat = np.bincount(columns * shape[1] + rows, weights=weight, minlength=shape[0] * shape[1])
        ended = np.flatnonzero(demos.terminated)
        final = final_states(self.mdp, demos)
        after = aggregated.visits_after_the_end(self.mdp, final, demos.lengths[ended], demos.weights[ended])
        return flat.reshape(shape) + after

    def is_whole(self) -> bool:
        """Whether the visits to states are known: episodes are whole, or the occupancy was given."""
        if self.given_occupancy is not None:
            return True
        if self._why_not_whole() is not None:
            return False
        try:
            self._final_states()
        except ValueError:
            # The final states are not recorded, or not absorbing.
            return False
        return True

    def knows_features(self, reward: AbstractReward) -> bool:
        """Whether feature expectations are known: visits to states are, and no unobserved choice changes them."""
        return self.is_whole() and self.choices_after_the_end(reward) is None

    def refuse_choices_after_the_end(self, reward: AbstractReward) -> None:
        """Raise a ValueError if feature expectations depend on unobserved choices after the end of episodes."""
        other_kind = self.given_occupancy is not None or self._why_not_whole() is not None
        why = None if other_kind else self.choices_after_the_end(reward)
        if why is not None:
            raise ValueError(
                f"Feature matching needs the features of all later steps, but {why}. Give the MDP one action in each "
                f"absorbing state (`available=`), or use MCEIRL with objective='likelihood' or 'discounted-likelihood'."
            )

    def _refuse_partial_episodes(self) -> None:
        why = self._why_not_whole()
        if why is not None:
            raise ValueError(
                f"Feature matching needs whole episodes, but {why}. Use MCEIRL with objective='likelihood' or "
                f"'discounted-likelihood', which take episodes as they are."
            )

    def _why_not_whole(self) -> str | None:
        """Why the episodes are not whole, as the end of a sentence; None if they are."""
        if self.statistics is not None:
            return aggregated.why_not_whole(self.mdp, self.statistics)
        assert self.demos is not None
        return why_not_whole(self.mdp, self.demos)

    def _final_states(self) -> Int[np.ndarray, " n"]:
        """The distinct absorbing states in which terminated episodes end."""
        if self.statistics is not None:
            return np.unique(aggregated.final_states(self.mdp, self.statistics))
        assert self.demos is not None
        return np.unique(final_states(self.mdp, self.demos))

    def choices_after_the_end(self, reward: AbstractReward) -> str | None:
        """Why feature expectations depend on unobserved choices, as the end of a sentence; None if they do not.

        After a terminated episode the absorbing state is visited for ever. If it has several actions of different
        reward, its visits are known, but the choices there are not.
        """
        if self.given_occupancy is not None or self.mdp.terminal is not None:
            return None
        final = self._final_states()
        if not len(final):
            return None
        with scope():
            probe = np.random.default_rng(0).normal(size=reward.num_parameters)
            parameters = Flattening.of(reward.parameters).unflatten(probe)
            rewards = np.asarray(reward_at(reward.fold(self.mdp), parameters))
            owner = self.mdp.state_of_row
        exists = np.asarray(self.mdp.available)
        different = []
        for state in final:
            by_action = rewards.T[owner == state][exists[owner == state]]
            if np.ptp(by_action) > 1e-12 * max(np.abs(by_action).max(), 1e-300):
                different.append(state)
        if not different:
            return None
        return (
            f"episodes end in absorbing states with several actions of different reward (states "
            f"{checks.some(different)}), and the choices there were not observed"
        )

    def choices(self, *, discounted: bool) -> Choices:
        """The observed choices, each with the weight γᵗ or 1, divided by the number of episodes."""
        mdp = self.mdp
        if self.statistics is not None:
            time, *cells, weight = aggregated.observed_choices(mdp, self.statistics, discounted=discounted)
            return group_choices(mdp, time, *mdp.rows.cells(*cells), weight / self.weight)
        if self.demos is not None:
            demos = self.demos
            weight = demos.choice_weights / demos.weights.sum()
            if discounted:
                weight = weight * float(mdp.discount) ** demos.times
            time = np.zeros(demos.num_steps, int) if mdp.horizon is None else demos.times
            return group_choices(mdp, time, *mdp.rows.cells(demos.tabular_states, demos.actions), weight)
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
                    "objective='likelihood' counts every choice once, and a policy on an infinite horizon makes "
                    "infinitely many. Use 'discounted-likelihood', or sample demonstrations with `rollout`."
                )
            if mdp.discount == 0:
                raise ValueError("objective='likelihood' needs demonstrations, or a policy with a discount above 0.")
            joint = joint / float(mdp.discount) ** np.arange(mdp.horizon)[:, None, None]
        joint = joint[None] if mdp.horizon is None else joint
        time, states, actions = np.nonzero(joint)
        choices = group_choices(mdp, time, states, actions, joint[time, states, actions])
        return dataclasses.replace(choices, places=None)

    def transitions(self) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Int[np.ndarray, " m"], np.ndarray]:
        """Observed transitions: states, actions, next states and weights γᵗ / N, for rewards over (s, a, s')."""
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
        return demos.tabular_states, demos.actions, after, self._discounts() / demos.weights.sum()

    def _discounts(self) -> Float[np.ndarray, " n"]:
        """w·γᵗ of each observed choice; without a horizon t counts from the first choice of the episode."""
        demos = self.demos
        assert demos is not None
        start = 0 if self.mdp.horizon is not None else np.repeat(demos.first_times, demos.lengths)
        return demos.choice_weights * float(self.mdp.discount) ** (demos.times - start)


def _with_starts(mdp: MDP, starts: Float[np.ndarray, " S"]) -> MDP:
    """The MDP whose start distribution is proportional to `starts`."""
    return eqx.tree_at(lambda mdp: mdp.initial, mdp, mdp.as_narrow(starts / starts.sum()))


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
