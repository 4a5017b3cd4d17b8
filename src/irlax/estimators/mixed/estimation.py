"""From hidden groups to a fit: pairing of arguments, the choice of the penalty, and the fields that all fits share."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.mixed.hidden_problem import HiddenProblem
from irlax.estimators.mixed.mixed_fit import plans_of
from irlax.estimators.mixed.search import Search
from irlax.estimators.tabular.components import Certificate, CrossValidation
from irlax.estimators.tabular.cross_validation import CANDIDATES, FOLDS
from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.fit_by_minimising import on_host
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.problem import Evaluation, Flattening, largest
from irlax.iteration import History, Session
from irlax.mdp import MDP
from irlax.rewards import AbstractReward
from irlax.status import Status
from irlax.typing import PRNGKeyArray

#: The rewards of one class of groups, or of each group, by MDP.
Rewards = list[tuple[AbstractReward, ...]]


def bound_rewards(
    mdp: MDP | Sequence[MDP], reward: Any, demos: Any, start: Start, *, num_groups: int
) -> tuple[Rewards, tuple[Expert, ...]]:
    """The rewards of groups, bound to each MDP, and the experts.

    `reward` is one for all groups and MDPs, or for one MDP a list with one for each group; for several MDPs it is a
    list with an entry for each of them, each such a reward or such a list.
    """
    goals = _have_goals(demos if isinstance(demos, Sequence) else [demos], start)
    several = not isinstance(mdp, MDP)
    entries = list(reward) if several and isinstance(reward, Sequence) else [reward]
    own = {len(entry) for entry in entries if isinstance(entry, Sequence)}
    if not own:
        bound, experts = pair_up(mdp, reward, demos, None, start, goals=goals)
        return [bound], experts
    if own != {num_groups} or not all(isinstance(entry, Sequence) for entry in entries):
        several_groups = f", or a list of {num_groups}, one for each group" if num_groups > 1 else " for all groups"
        raise ValueError(
            f"`reward` must be one reward{several_groups} (in each MDP), but is a list of "
            f"{', '.join(map(str, sorted(own)))}."
        )
    rewards: Rewards = []
    experts: tuple[Expert, ...] = ()
    for g in range(num_groups):
        of_group = [entry[g] for entry in entries] if len(entries) > 1 else entries[0][g]
        bound, experts = pair_up(mdp, of_group, demos, None, start, goals=goals)
        rewards.append(bound)
    return rewards, experts


def _have_goals(demos: Sequence[Any], start: Start) -> bool:
    """Whether all demonstrations name their goals; a ValueError if only some do."""
    if not all(isinstance(each, Demonstrations) for each in demos):
        raise TypeError("Hidden groups are estimated from Demonstrations: of one MDP, or a list for several.")
    named = {each.goals is not None for each in demos}
    if len(named) > 1:
        raise ValueError("The demonstrations in all MDPs must have goals, or none of them, but only some have.")
    if named == {True} and start == "mdp":
        raise ValueError("Demonstrations with goals start where they start: leave `start` at 'auto'.")
    return named == {True}


class Estimated(NamedTuple):
    """The end of a search, with the rewards at it."""

    at: Evaluation
    problem: HiddenProblem
    status: Status
    reason: str
    certificate: Certificate
    history: History
    all_rewards: tuple[tuple[AbstractReward, ...], ...]
    experts: tuple[Expert, ...]

    @classmethod
    def of(
        cls,
        search: Search,
        problem: HiddenProblem,
        rewards: Rewards,
        experts: tuple[Expert, ...],
        *,
        key: PRNGKeyArray,
        session: Session,
    ) -> "Estimated":
        """The result of a search."""
        end, history, problem = search.run(problem, key, session)
        scale = np.asarray(problem.to_problem().scale)
        thetas = problem.cells.split(end.at.x / scale)
        classes = rewards * len(thetas) if len(rewards) == 1 else rewards
        all_rewards = tuple(
            tuple(_with_vector(of_group[m], theta) for of_group, theta in zip(classes, thetas, strict=True))
            for m in range(len(experts))
        )
        gradient = float(largest(end.at.gradient, scale))
        return cls(
            end.at,
            problem,
            end.status,
            end.reason,
            Certificate(gradient, newton_decrement=end.newton_decrement),
            History.of(history),
            all_rewards,
            experts,
        )

    def common_fields(self) -> dict[str, Any]:
        """The fields that fits of all kinds of groups have."""
        return {
            "all_rewards": self.all_rewards,
            "all_plans": plans_of(self.all_rewards, self.experts),
            "experts": self.experts,
            "status": self.status,
            "certificate": self.certificate,
            "history": self.history,
            "reason": self.reason,
        }


def _with_vector(reward: AbstractReward, theta: np.ndarray) -> AbstractReward:
    return reward.with_parameters(on_host(Flattening.of(reward.parameters).unflatten(theta)))


def choose_l2(
    search: Search, problem: HiddenProblem, experts: tuple[Expert, ...], key: PRNGKeyArray, units: str
) -> CrossValidation:
    """The l2 with the best held-out log likelihood over five folds of units."""
    weights = np.asarray(problem.loss.weights)
    (counted,) = np.nonzero(weights)
    if len(counted) < FOLDS:
        raise ValueError(f"`l2='cv'` needs {FOLDS} {units} to hold out in turn, but there are {len(counted)}.")
    fold = np.full(len(weights), -1)
    fold[counted] = np.random.default_rng(0).permutation(len(counted)) % FOLDS
    scores = np.zeros(len(CANDIDATES))
    for k in range(FOLDS):
        training, x = problem.with_weights(weights * (fold != k), float(len(counted))), None
        # From the weakest penalty to the strongest, each fit starts where the last ended: strong ones make groups
        # alike.
        for index, l2 in enumerate(CANDIDATES):
            penalised = training.with_l2(l2)
            if x is None:
                end, _, final = search.run(penalised, key, Session(""))
            else:
                end, final = search.maximise(penalised, x, Session(""))
            x = end.at.x
            scores[index] += (weights * (fold == k)) @ final.log_likelihoods(end.at)
    best = int(np.argmax(scores))
    choices = sum(float(expert.demos.choice_weights.sum()) for expert in experts if expert.demos is not None)
    return CrossValidation(CANDIDATES[best], float(scores[best] * problem.total / choices))
