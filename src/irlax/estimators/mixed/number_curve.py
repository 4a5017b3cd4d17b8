"""How many types or motives there are: information criteria and held-out likelihoods, as a curve over the number."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.analysis.standard_errors import rank
from irlax.demos import Demonstrations
from irlax.estimators.mixed.mixture import MixtureIRL
from irlax.estimators.mixed.switching import SwitchingIRL
from irlax.estimators.tabular.cross_validation import FOLDS, fold_of_episodes
from irlax.mdp import MDP
from irlax.rewards import AbstractReward
from irlax.status import UnfinishedWarning
from irlax.tables import AbstractTabulated, Table
from irlax.typing import Bool, Float, Int, PRNGKeyArray


class NumberCurve(AbstractTabulated):
    """Fits with each number of types or motives, compared."""

    #: What is counted: "types" or "motives".
    unit: str = eqx.field(static=True)
    numbers: Int[np.ndarray, " n"]
    log_likelihood: Float[np.ndarray, " n"]
    #: The number of identified parameters.
    rank: Int[np.ndarray, " n"]
    aic: Float[np.ndarray, " n"]
    bic: Float[np.ndarray, " n"]
    #: Whether the fit ended in success: others have a type or motive too many, or none of a finite reward.
    converged: Bool[np.ndarray, " n"]
    #: Log likelihoods of a choice in held-out episodes, a column for each fold.
    held_out: Float[np.ndarray, "n folds"]

    def best(self, by: Literal["held-out", "bic", "aic"] = "held-out") -> int:
        """The number with the best value of a criterion."""
        checks.one_of("by", by, ("held-out", "bic", "aic"))
        values = {"held-out": -self.held_out.mean(axis=1), "bic": self.bic, "aic": self.aic}[by]
        return int(self.numbers[np.nanargmin(values)])

    def table(self) -> Table:
        """The criteria of each number."""
        spread = self.held_out.std(axis=1, ddof=1) / np.sqrt(self.held_out.shape[1])
        columns = (self.unit, "log likelihood", "parameters", "AIC", "BIC", "held out, a choice", "s.e.", "converged")
        values = (self.log_likelihood, self.rank, self.aic, self.bic, self.held_out.mean(axis=1), spread)
        rows = [
            (str(number), *(each[i].item() for each in values), "yes" if self.converged[i] else "no")
            for i, number in enumerate(self.numbers)
        ]
        chosen = f"Best: {self.best()} by held-out likelihood, {self.best('bic')} by BIC, {self.best('aic')} by AIC."
        return Table(columns, rows, title=f"The number of {self.unit}", notes=[chosen])

    def _shown(self) -> Table:
        return self.table()

    def plot(self) -> Any:
        """Held-out likelihood and information criteria over the number, as a matplotlib figure."""
        from irlax.report import plots

        figure, axes = plots.blank(2)
        mean = self.held_out.mean(axis=1)
        spread = self.held_out.std(axis=1, ddof=1) / np.sqrt(self.held_out.shape[1])
        axes[0, 0].errorbar(self.numbers, mean, spread, marker="o", color=plots.COLOURS[0])
        axes[0, 0].set_ylabel("held-out log likelihood a choice")
        for colour, name in zip(plots.COLOURS, ("bic", "aic"), strict=False):
            axes[0, 1].plot(self.numbers, getattr(self, name), marker="o", color=colour, label=name.upper())
        axes[0, 1].legend(frameon=False)
        for ax in axes[0]:
            ax.set_xlabel(f"number of {self.unit}")
            ax.set_xticks(self.numbers)
        return figure


def compare_numbers(
    estimator: MixtureIRL | SwitchingIRL,
    mdp: MDP,
    reward: AbstractReward,
    demos: Demonstrations,
    *,
    key: PRNGKeyArray,
    numbers: Sequence[int] = (1, 2, 3, 4),
    folds: int = FOLDS,
) -> NumberCurve:
    """Fit each number of types or motives to all episodes, and to all but each fold of them.

    BIC counts individuals for a mixture, and choices for motives that switch; P is the number of identified parameters.
    Held-out episodes have their types or motives summed out. All numbers have the same folds.
    """
    if not isinstance(estimator, (MixtureIRL, SwitchingIRL)):
        raise TypeError(f"`estimator` must be a MixtureIRL or SwitchingIRL, but is a {type(estimator).__name__}.")
    numbers = [checks.count("numbers", number) for number in numbers]
    checks.count("folds", folds, 2)
    field = "num_types" if isinstance(estimator, MixtureIRL) else "num_motives"
    parts = fold_of_episodes(demos, folds)
    fits, held_out = [], np.zeros((len(numbers), folds))
    with warnings.catch_warnings():
        # One type or motive too many is what is looked for: the curve says so.
        warnings.simplefilter("ignore", UnfinishedWarning)
        for i, number in enumerate(numbers):
            trial = dataclasses.replace(estimator, **{field: number})
            fits.append(trial.fit(mdp, reward, demos, key=key))
            for fold in range(folds):
                training = demos.select((parts != fold) & (parts >= 0))
                held_out[i, fold] = trial.fit(mdp, reward, training, key=key).score(demos.select(parts == fold))
    ranks = np.array([rank(fit.information.hessian) for fit in fits])
    likelihood = np.array([fit.log_likelihood for fit in fits])
    counted = float(demos.weights.sum() if isinstance(estimator, MixtureIRL) else demos.choice_weights.sum())
    return NumberCurve(
        field.removeprefix("num_"),
        np.array(numbers),
        likelihood,
        ranks,
        2 * ranks - 2 * likelihood,
        ranks * np.log(counted) - 2 * likelihood,
        np.array([fit.converged for fit in fits]),
        held_out,
    )
