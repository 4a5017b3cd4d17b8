"""Standard errors, the bootstrap and tests of nested rewards, for fits under the likelihood objective."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import equinox as eqx
import jax
import numpy as np

from irlax import checks
from irlax.analysis.standard_errors import (
    Kind,
    covariance,
    identified_covariance,
    identified_part_errors,
    inverse_where_identified,
    likelihood_ratio_test,
    rank,
    seen_basis,
    summed_by,
    without_rounding,
)
from irlax.demos import Demonstrations
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.fit_by_minimising import make_problem
from irlax.estimators.tabular.objectives import Likelihood
from irlax.estimators.tabular.observed_likelihood import ObservedLikelihood
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.small_problem import SmallObjective, SmallProblem
from irlax.precision import scope
from irlax.rewards.reward import flat
from irlax.status import Status
from irlax.tables import Table
from irlax.typing import Array, Float, Int

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit

Cluster = Literal["episode"] | np.ndarray | None
#: Whether the weights of episodes are frequencies, or inverse sampling probabilities.
Weights = Literal["frequency", "sampling"]
#: Clustered scores whose variance along some direction is below this share of what the model implies have none there.
SINGULAR = 1e-6


def standard_errors(fit: "TabularFit", kind: Kind, cluster: Cluster, weights: Weights) -> Float[np.ndarray, " K"]:
    """Square roots of the diagonal of the estimates' covariance."""
    return np.sqrt(np.diag(fit.information.covariance(kind, cluster, weights)))


class Information(NamedTuple):
    """Curvature and scores of the likelihood at the estimate, from which standard errors are computed."""

    #: Second derivatives of minus the total log likelihood.
    hessian: Float[np.ndarray, "K K"]
    #: First derivatives of the log likelihood of each observed choice.
    scores: Float[np.ndarray, "n K"]
    #: The episode of each choice, over all MDPs, the weight of each episode, and of each choice within its episode.
    episode: Int[np.ndarray, " n"]
    weights: Float[np.ndarray, " N"]
    row_weights: Float[np.ndarray, " n"]
    #: The second derivative of the quadratic penalty.
    penalty: float = 0.0
    #: Whether the rows are the distinct choices of statistics, so that episodes are not known.
    from_statistics: bool = False
    #: What the estimation of the transitions adds to the score of each choice; None where they were given.
    corrections: Float[np.ndarray, "n K"] | None = None

    def covariance(self, kind: Kind, cluster: Cluster, weights: Weights) -> Float[np.ndarray, "K K"]:
        """The covariance of the estimates, NaN where they are not identified."""
        return covariance(kind, self.hessian, *self._parts(kind, cluster, weights))

    def identified_covariance(
        self, kind: Kind, cluster: Cluster, weights: Weights = "frequency"
    ) -> Float[np.ndarray, "K K"]:
        """The same with numbers everywhere: right for what depends on identified combinations alone."""
        return identified_covariance(kind, self.hessian, *self._parts(kind, cluster, weights))

    def influence(self, cluster: Cluster) -> Float[np.ndarray, "clusters K"]:
        """What each cluster adds to the estimates: H⁻¹ times its score, which with weights is multiplied by √w."""
        return self.clustered("sandwich", cluster, "frequency") @ self.inverse

    @property
    def default_cluster(self) -> Cluster:
        """ "episode", or None where clustered scores cannot tell how much the estimates vary.

        At the optimum scores sum to 0. So a parameter of one individual alone would have a standard error of 0, and so
        would some combination of parameters of no more individuals than they are.
        """
        if self.from_statistics:
            return "episode"
        if len(self.weights) < 2:
            return None
        # Of which, in units of one standard error by the Hessian, the identity is expected.
        known = self.summed(self.scores, "episode", "frequency") @ seen_basis(self.hessian)
        return "episode" if np.linalg.eigvalsh(known.T @ known).min(initial=1.0) > SINGULAR else None

    @property
    def inverse(self) -> Float[np.ndarray, "K K"]:
        """H⁻¹ on the directions that are identified."""
        return inverse_where_identified(self.hessian, self.penalty)

    def covariance_of(
        self,
        slopes: Float[np.ndarray, "Q K"],
        first_step: Float[np.ndarray, "n Q"] | None,
        kind: Kind,
        cluster: Cluster,
    ) -> Float[np.ndarray, "Q Q"]:
        """The covariance of Q functions of the estimates and of the transitions, by the delta method.

        `slopes` are their derivatives in the parameters; `first_step` is what each choice adds to them through the
        transitions directly, where these were estimated.
        """
        if self.corrections is None or first_step is None:
            return slopes @ self.identified_covariance(kind, cluster) @ slopes.T
        if kind == "sandwich":
            rows = (self.scores + self.corrections) @ self.inverse @ slopes.T + first_step
            summed = self.summed(rows, cluster, "frequency")
            return summed.T @ summed
        given = identified_covariance(kind, self.hessian, self.clustered(kind, cluster, "frequency"), self.penalty)
        rows = self.corrections @ self.inverse @ slopes.T + first_step
        counted = self.summed(rows, None, "frequency")
        return slopes @ given @ slopes.T + counted.T @ counted

    def _parts(self, kind: Kind, cluster: Cluster, weights: Weights) -> tuple[Any, ...]:
        """Scores, penalty and corrections; the sandwich has the latter in its scores, with their correlations."""
        scores = self.clustered(kind, cluster, weights)
        if self.corrections is None or kind == "sandwich":
            return scores, self.penalty
        return scores, self.penalty, self.summed(self.corrections, None, "frequency")

    def clustered(self, kind: Kind, cluster: Cluster, weights: Weights) -> Float[np.ndarray, "clusters K"]:
        r"""Scores summed within clusters, whose outer products add up to the middle matrix B of the sandwich.

        An episode of frequency w counts as w episodes with the score s: B = Σ w ssᵀ. With a sampling weight w it is one
        episode with the score ws: B = Σ w² ssᵀ. Rows with weights of their own count likewise. Episodes with the same
        label are summed with their weights first. With estimated transitions the scores of the sandwich are corrected
        for that.
        """
        checks.one_of("weights", weights, ("frequency", "sampling"))
        if kind == "hessian" and cluster is not None:
            raise ValueError("The inverse Hessian has no clusters: use 'sandwich' (or 'opg') with `cluster=`.")
        if kind != "sandwich" and weights == "sampling":
            raise ValueError("Weights from sampling need kind='sandwich': the others take them to be frequencies.")
        if self.from_statistics and (cluster is not None or weights == "sampling"):
            raise ValueError(
                "Clustered standard errors and weights from sampling need the scores of each episode, but this fit is "
                "to statistics, which hold only sums over them. Leave out `cluster` and `weights`, or fit to "
                "Demonstrations."
            )
        corrected = kind == "sandwich" and self.corrections is not None
        return self.summed(self.scores + self.corrections if corrected else self.scores, cluster, weights)

    def summed(self, rows: Float[np.ndarray, "n Q"], cluster: Cluster, weights: Weights) -> Float[np.ndarray, "c Q"]:
        """Rows of observed choices, summed within clusters and weighted as `clustered` says."""
        counted = np.sqrt(self.weights) if weights == "frequency" else self.weights
        if cluster is None:
            inner = np.sqrt(self.row_weights) if weights == "frequency" else self.row_weights
            return (counted[self.episode] * inner)[:, None] * rows
        rows = self.row_weights[:, None] * rows
        if isinstance(cluster, str):
            checks.one_of("cluster", cluster, ("episode",))
            _refuse_one_cluster(len(self.weights))
            return counted[:, None] * summed_by(rows, self.episode, len(self.weights))
        labels = np.asarray(cluster)
        checks.has_shape("cluster", labels, self.weights.shape, "a label for each episode")
        names, index = np.unique(labels, return_inverse=True)
        _refuse_one_cluster(len(names))
        weighted = self.weights[self.episode][:, None] * rows
        return summed_by(weighted, index[self.episode], len(names))


def _refuse_one_cluster(num: int) -> None:
    if num < 2:
        raise ValueError(
            "Clustered standard errors need several clusters, but there is one. Leave out `cluster`, and pass "
            "kind='sandwich' or 'hessian'."
        )


def identified_errors(fit: "TabularFit") -> Float[np.ndarray, " K"]:
    """Standard errors of the identified part of each parameter, by the inverse Hessian on the identified directions."""
    information = fit.information
    return identified_part_errors(information.hessian, information.penalty)


def episodes_of(
    demos: list[Demonstrations],
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " N"], Float[np.ndarray, " n"]]:
    """The episode of each choice, counted over all demonstrations, the weights of episodes, and those of rows."""
    offsets = np.cumsum([0, *(each.num_episodes for each in demos)])
    episode = np.concatenate([each.episode + offset for each, offset in zip(demos, offsets[:-1], strict=True)])
    rows = [np.ones(each.num_steps) if each.row_weights is None else each.row_weights for each in demos]
    return episode, np.concatenate([each.weights for each in demos]), np.concatenate(rows)


def all_demos(experts: Sequence[Expert]) -> list[Demonstrations]:
    """The demonstrations, or the distinct choices of their statistics, of each expert that has any."""
    found = [expert.recorded for expert in experts]
    return [demos for demos in found if demos is not None]


def refuse_unless_likelihood(fit: "TabularFit") -> None:
    """Raise a ValueError unless the fit has standard errors: converged, to observed choices, by maximum likelihood."""
    if not fit.estimator.maximises_likelihood:
        raise ValueError("Standard errors need a maximum likelihood estimate: fit with MCEIRL(objective='likelihood').")
    if fit.log_likelihood is None:
        raise ValueError("Standard errors need demonstrations; this fit was to a policy or an occupancy.")
    if not fit.converged:
        raise ValueError(f"The fit {fit.status.value}, so it has no standard errors.")


def information_of(fit: "TabularFit") -> Information:
    """Curvature and scores of the likelihood at the estimate; `fit.information` keeps them."""
    refuse_unless_likelihood(fit)
    if fit.panel is not None and fit.panel.discount is not None:
        from irlax.estimators.tabular.discount_information import joint_information, without_discount

        return without_discount(joint_information(fit))
    theta = flat(fit.reward.parameters)
    scores, objectives = [], []
    with scope():
        for reward, expert in zip(fit.rewards, fit.experts, strict=True):
            likelihood, flattening = ObservedLikelihood.of(expert, reward), Flattening.of(reward.parameters)
            scores.append(likelihood.by_row(_scores(likelihood.objective, flattening, theta)))
            objectives.append(likelihood.objective)
        # The problem of the fit, without its penalty: second derivatives are then by the program of Newton's method.
        compiled, x = make_problem(objectives, fit.rewards, fit.experts, 0.0)
        problem = SmallProblem.of(compiled)
        curvature, scale = without_rounding(problem.hessian(problem.evaluate(x))), np.asarray(problem.scale)
    total = curvature * np.outer(scale, scale) * sum(expert.weight for expert in fit.experts)
    episodes = episodes_of(all_demos(fit.experts))
    penalty = fit.l2 * sum(expert.weight for expert in fit.experts)
    counted = any(expert.statistics is not None for expert in fit.experts)
    found = Information(total, np.concatenate(scores), *episodes, penalty, counted)
    return found if fit.panel is None else found._replace(corrections=fit.panel.corrections(fit))


def _scores(likelihood: Likelihood, flattening: Flattening, theta: Float[np.ndarray, " K"]) -> Float[Array, "T M K"]:
    """∂ log π / ∂θ of each distinct choice."""
    small = SmallObjective.of(likelihood, len(theta))
    if small is None:
        return _slopes(likelihood, flattening, theta)
    return small.scores(small.plan(theta), np.asarray(likelihood.actions), np.asarray(likelihood.states))


@eqx.filter_jit
def _slopes(likelihood: Likelihood, flattening: Flattening, theta: Float[Array, " K"]) -> Float[Array, "T M K"]:
    return jax.jacfwd(lambda theta: likelihood.log_policy(flattening.unflatten(theta))[0])(theta)


def compare_nested(smaller: "TabularFit", larger: "TabularFit") -> Table:
    """See `TabularFit.compare_nested`."""
    for fit in (smaller, larger):
        refuse_unless_likelihood(fit)
        if fit.l2:
            raise ValueError(f"The test is of maximum likelihood estimates, but a fit has the penalty l2 = {fit.l2:g}.")
        if fit.status is Status.STEPS_TAKEN:
            raise ValueError(f"The test is of maximum likelihood estimates, but a fit {fit.status.value}.")
    if not _same_choices(all_demos(smaller.experts), all_demos(larger.experts)):
        raise ValueError("Both fits must be to the same demonstrations, but theirs differ.")
    restrictions = rank(larger.information.hessian) - rank(smaller.information.hessian)
    if restrictions < 1:
        raise ValueError("The larger reward must have more identified directions than the smaller one, but it has not.")
    assert smaller.log_likelihood is not None and larger.log_likelihood is not None
    table = likelihood_ratio_test(smaller.log_likelihood, larger.log_likelihood, restrictions)
    if larger.panel is None or larger.panel.transitions is None:
        return table
    # Twice a gain in the likelihood of the choices is χ² if nothing else was estimated, and choices are independent.
    note = (
        "At the estimated transitions, as if they were known, and without clustering; `wald` takes both into account."
    )
    return dataclasses.replace(table, notes=(note,))


def _same_choices(some: list[Demonstrations], others: list[Demonstrations]) -> bool:
    """Whether two lists hold the same rows; with labels they may be divided differently: by covariates, or not."""
    if any(each.labels is None for each in (*some, *others)):
        names = ("states", "actions", "times", "offsets", "weights", "choice_weights")
        return len(some) == len(others) and all(
            np.array_equal(getattr(one, name), getattr(other, name))
            for one, other in zip(some, others, strict=True)
            for name in names
        )
    return all(map(np.array_equal, _rows_by_label(some), _rows_by_label(others)))


def _rows_by_label(demos: list[Demonstrations]) -> list[np.ndarray]:
    """The columns of all rows, in order of label and time."""
    names = ("times", "states", "actions", "choice_weights")
    columns = [np.concatenate([getattr(each, name) for each in demos]) for name in names]
    labels = np.concatenate([np.asarray(each.labels)[each.episode] for each in demos])
    order = np.lexsort((columns[0], labels))
    return [column[order] for column in (*columns, labels)]
