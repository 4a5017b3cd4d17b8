"""Cross-validation over episodes: held-out likelihoods, and the choice of the penalty by them."""

import warnings
from typing import TYPE_CHECKING

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular.aggregated import refuse_statistics
from irlax.estimators.tabular.components import CrossValidation
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.log_likelihood import total_log_likelihood
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


def choose_l2(estimator: "MCEIRL", rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...]) -> CrossValidation:
    """The l2 with the best held-out log likelihood over five folds of episodes."""
    for expert in experts:
        refuse_statistics(expert.statistics, "`l2='cv'`")
    if any(expert.demos is None for expert in experts):
        raise ValueError("`l2='cv'` needs demonstrations to hold out; a policy or an occupancy has none.")
    folds = [fold_of_episodes(expert.demos) for expert in experts if expert.demos is not None]
    scores = np.zeros(len(CANDIDATES))
    num_choices = sum(float(expert.demos.choice_weights.sum()) for expert in experts if expert.demos is not None)
    for fold in range(FOLDS):
        training = [_part(expert, parts != fold) for expert, parts in zip(experts, folds, strict=True)]
        held_out = [_part(expert, parts == fold) for expert, parts in zip(experts, folds, strict=True)]
        start = rewards
        # From the strongest penalty to the weakest, each fit starts where the one before ended.
        for index in reversed(range(len(CANDIDATES))):
            trial = eqx.tree_at(lambda estimator: estimator.l2, estimator, CANDIDATES[index])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnfinishedWarning)
                fit = trial.fit([part.mdp for part in training], list(start), [part.demos for part in training])
            start = fit.rewards
            scores[index] += sum(map(total_log_likelihood, fit.plans, held_out))
    best = int(np.argmax(scores))
    return CrossValidation(CANDIDATES[best], float(scores[best] / num_choices))


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
    estimator: "MCEIRL", mdp: MDP, reward: AbstractReward, demos: Demonstrations, *, folds: int = FOLDS
) -> Float[np.ndarray, " folds"]:
    """The held-out log likelihood per choice of each fold of episodes, after learning from the other folds.

    Compare rewards, penalties or objectives by the mean of these; episodes are in the same folds every time.
    """
    checks.count("folds", folds, 2)
    if isinstance(demos, Demonstrations) and demos.goals is not None:
        parts = fold_of_episodes(demos, folds)
        fits = (estimator.fit(mdp, reward, demos.select((parts != fold) & (parts >= 0))) for fold in range(folds))
        return np.array([fit.score(demos.select(parts == fold)) for fold, fit in enumerate(fits)])
    with scope():
        expert = Expert.of(mdp, demos, None, estimator.start)
    assert expert.demos is not None
    parts = fold_of_episodes(expert.demos, folds)
    scores = []
    for fold in range(folds):
        training, held_out = _part(expert, parts != fold), _part(expert, parts == fold)
        fit = estimator.fit(mdp, reward, training.demos)
        weights = held_out.demos.choice_weights if held_out.demos is not None else np.zeros(0)
        assert isinstance(fit, TabularFit)
        scores.append(total_log_likelihood(fit.plan, held_out) / weights.sum())
    return np.array(scores)
