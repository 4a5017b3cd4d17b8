"""Cross-validation over episodes: held-out likelihoods, and the choice of the penalty by them."""

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.engine import AbstractEngine
from irlax.estimators.tabular.aggregated import refuse_statistics
from irlax.estimators.tabular.components import CrossValidation
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.log_likelihood import total_log_likelihood
from irlax.estimators.tabular.on_engine import problem_of, rows_on
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.rewards import AbstractReward
from irlax.status import UnfinishedWarning
from irlax.typing import Float

if TYPE_CHECKING:
    from irlax.estimators.tabular.mce import MCEIRL

#: The values of l2 that are tried, from almost no penalty to a very strong one.
CANDIDATES = tuple(float(l2) for l2 in np.logspace(-5, 1, 13))
FOLDS = 5


def choose_l2(
    estimator: "MCEIRL",
    rewards: tuple[AbstractReward, ...],
    experts: tuple[Expert, ...],
    engine: AbstractEngine | None = None,
) -> CrossValidation:
    """The l2 with the best held-out log likelihood over five folds of episodes, each of them a task of the engine."""
    for expert in experts:
        refuse_statistics(expert.statistics, "`l2='cv'`")
    if any(expert.demos is None for expert in experts):
        raise ValueError("`l2='cv'` needs demonstrations to hold out; a policy or an occupancy has none.")
    num_choices = sum(float(expert.demos.choice_weights.sum()) for expert in experts if expert.demos is not None)
    problem = (estimator, rewards, experts)
    if engine is None:
        found = [_scores_of_penalties(problem, fold) for fold in range(FOLDS)]
    else:
        rows = rows_on(engine, fold_of_penalties, [{"fold": fold} for fold in range(FOLDS)], problem=problem, out=None)
        found = [np.array(row["scores"]) for row in rows]
    scores = np.sum(found, axis=0)
    best = int(np.argmax(scores))
    return CrossValidation(CANDIDATES[best], float(scores[best] / num_choices))


def fold_of_penalties(fold: int, problem: str, folder: Path) -> dict[str, Any]:
    """The task of a sweep: the held-out log likelihood of a fold, for each penalty."""
    return {"scores": _scores_of_penalties(problem_of(folder, problem), fold).tolist()}


def _scores_of_penalties(problem: tuple[Any, ...], fold: int) -> Float[np.ndarray, " candidates"]:
    estimator, rewards, experts = problem
    folds = [fold_of_episodes(expert.demos) for expert in experts if expert.demos is not None]
    training = [_part(expert, parts != fold) for expert, parts in zip(experts, folds, strict=True)]
    held_out = [_part(expert, parts == fold) for expert, parts in zip(experts, folds, strict=True)]
    start, scores = rewards, np.zeros(len(CANDIDATES))
    # From the strongest penalty to the weakest, each fit starts where the one before ended.
    for index in reversed(range(len(CANDIDATES))):
        trial = eqx.tree_at(lambda estimator: estimator.l2, estimator, CANDIDATES[index])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfinishedWarning)
            fit = trial.fit([part.mdp for part in training], list(start), [part.demos for part in training])
        start = fit.rewards
        scores[index] = sum(map(total_log_likelihood, fit.plans, held_out))
    return scores


def fold_of_episodes(demos: Demonstrations, folds: int = FOLDS) -> np.ndarray:
    """The fold of each episode, at random with a fixed seed; −1 for episodes of weight 0."""
    counted = np.flatnonzero(demos.weights > 0)
    if len(counted) < folds:
        raise ValueError(
            f"Cross-validation in {folds} folds needs as many episodes with a weight above 0, but there are "
            f"{len(counted)}."
        )
    # Episodes of weight 0 are in no fold, so that no fold consists of these only.
    parts = np.full(demos.num_episodes, -1)
    parts[counted] = np.random.default_rng(0).permutation(len(counted)) % folds
    return parts


def _part(expert: Expert, episodes: np.ndarray) -> Expert:
    """The expert with all other episodes at weight 0; shapes stay the same, so that nothing is compiled again."""
    assert expert.demos is not None
    weights = expert.demos.weights * episodes
    demos = eqx.tree_at(lambda demos: demos.weights, expert.demos, weights)
    return eqx.tree_at(lambda expert: (expert.demos, expert.weight), expert, (demos, float(weights.sum())))


def cross_validate(
    estimator: "MCEIRL",
    mdp: MDP,
    reward: AbstractReward,
    demos: Demonstrations,
    *,
    folds: int = FOLDS,
    engine: AbstractEngine | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Float[np.ndarray, " folds"]:
    """The held-out log likelihood per choice of each fold of episodes, after learning from the other folds.

    Compare rewards, penalties or objectives by the mean of these; episodes are in the same folds every time. With an
    `engine` (of `irlax.engine`) each fold is a task of a sweep, whose folder is `out`.
    """
    checks.count("folds", folds, 2)
    problem = (estimator, mdp, reward, demos)
    if engine is None and out is None:
        return np.array([_score(problem, fold, folds) for fold in range(folds)])
    cases = [{"fold": fold, "folds": folds} for fold in range(folds)]
    return np.array([row["score"] for row in rows_on(engine, score_of_fold, cases, problem=problem, out=out)])


def score_of_fold(fold: int, folds: int, problem: str, folder: Path) -> dict[str, Any]:
    """The task of a sweep: the held-out log likelihood per choice of one fold."""
    return {"score": _score(problem_of(folder, problem), fold, folds)}


def _score(problem: tuple[Any, ...], fold: int, folds: int) -> float:
    estimator, mdp, reward, demos = problem
    if isinstance(demos, Demonstrations) and demos.goals is not None:
        parts = fold_of_episodes(demos, folds)
        fit = estimator.fit(mdp, reward, demos.select((parts != fold) & (parts >= 0)))
        return float(fit.score(demos.select(parts == fold)))
    with scope():
        expert = Expert.of(mdp, demos, None, estimator.start)
    assert expert.demos is not None
    parts = fold_of_episodes(expert.demos, folds)
    training, held_out = _part(expert, parts != fold), _part(expert, parts == fold)
    fit = estimator.fit(mdp, reward, training.demos)
    assert isinstance(fit, TabularFit) and held_out.demos is not None
    return float(total_log_likelihood(fit.plan, held_out) / held_out.demos.choice_weights.sum())
