"""A fit under the likelihood objective as a regression table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from irlax.analysis.identifiability import direction_text
from irlax.analysis.marks import marks_of
from irlax.analysis.regression import decimals, estimate_rows, pseudo_r_squared, regression_table
from irlax.analysis.standard_errors import Kind, not_identified, rank
from irlax.estimators.tabular.inference import Cluster, Weights, all_demos
from irlax.rewards.reward import flat
from irlax.tables import Summary, Table
from irlax.typing import Float

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit

_ERRORS = {"hessian": "inverse Hessian", "opg": "outer product of scores", "sandwich": "sandwich"}


def regression_table_of_fit(fit: "TabularFit", kind: Kind, cluster: Cluster, weights: Weights, level: float) -> Summary:
    """The reward's parameters with their marks, identified combinations of others, and the statistics of the fit."""
    information = fit.information
    names, estimates = fit.reward.parameter_names(), flat(fit.reward.parameters)
    errors = np.sqrt(np.diag(information.covariance(kind, cluster, weights)))
    marks = marks_of(information.hessian, names)
    panel = fit.panel
    dynamics = "at the given dynamics"
    if panel is not None and panel.transitions is not None:
        dynamics = "with the sampling error of the estimated transitions"
    assert fit.log_likelihood is not None
    table = regression_table(
        names,
        estimates,
        errors,
        level=level,
        title=f"{fit.method}: {type(fit.reward).__name__}",
        how=f"{error_method(kind, cluster, weights)}, {dynamics}",
        log_likelihood=fit.log_likelihood,
        rank=rank(information.hessian),
        observations=observations(fit),
        facts=choice_facts(fit, fit.log_likelihood) + transition_facts(fit),
        marks=None if marks.all_identified else marks.identified,
        notes=(*_few_individuals(fit, kind, cluster), *marks.notes, *(() if panel is None else panel.notes)),
    )
    if not len(marks.combinations):
        return table
    combined = linear_table(fit, marks.combinations, kind=kind, cluster=cluster, weights=weights, level=level)
    return Summary([*table.tables, combined])


def _few_individuals(fit: "TabularFit", kind: Kind, cluster: Cluster) -> list[str]:
    """Why the errors of a panel are not clustered, as a note."""
    if fit.panel is None or kind != "sandwich" or cluster is not None or fit.information.default_cluster is not None:
        return []
    return ["Not clustered, because individuals are too few for that: choices are independent given the state."]


def transition_facts(fit: "TabularFit") -> list[tuple[str, Any]]:
    """The log likelihood of transitions that were estimated, for a table."""
    if fit.panel is None or fit.panel.transitions is None:
        return []
    return [("log likelihood of the transitions", decimals(fit.panel.transitions.log_likelihood))]


def linear_table(
    fit: "TabularFit",
    combinations: Float[np.ndarray, "c K"],
    *,
    kind: Kind,
    cluster: Cluster,
    weights: Weights = "frequency",
    level: float,
    texts: Sequence[str] | None = None,
    title: str = "Identified combinations of parameters",
) -> Table:
    """Estimates of linear combinations of the parameters, with empty cells for those that are not identified."""
    information = fit.information
    names = fit.reward.parameter_names()
    covariance = information.identified_covariance(kind, cluster, weights)
    errors = np.sqrt(np.maximum(np.einsum("ck,kl,cl->c", combinations, covariance, combinations), 0))
    errors[not_identified(information.hessian, combinations)] = np.nan
    texts = [direction_text(row, names) for row in combinations] if texts is None else texts
    columns, rows = estimate_rows("combination", texts, combinations @ flat(fit.reward.parameters), errors, level)
    return Table(columns, rows, title)


def error_method(kind: Kind, cluster: Cluster, weights: Weights) -> str:
    """How standard errors were computed, as text for a table."""
    by = "" if cluster is None else ", clustered by individual" if isinstance(cluster, str) else ", clustered by label"
    return _ERRORS[kind] + by + (", weights from sampling" if weights == "sampling" else "")


def observations(fit: "TabularFit") -> float:
    """The number of observed choices, each counted by the weight of its episode."""
    return float(sum(demos.choice_weights.sum() for demos in all_demos(fit.experts)))


def choice_facts(fit: "TabularFit", log_likelihood: float) -> list[tuple[str, Any]]:
    """The pseudo-R² of choices, and the numbers of individuals and observations, for a table."""
    null, meaning = _null_log_likelihood(fit)
    return [
        (f"pseudo-R² of choices, against {meaning}", pseudo_r_squared(log_likelihood, null)),
        ("individuals", fit.num_episodes),
        ("observations", fit.num_choices),
        *([] if fit.num_choices == observations(fit) else [("observations, by weight", observations(fit))]),
    ]


def _null_log_likelihood(fit: "TabularFit") -> tuple[float, str]:
    """The log likelihood of a model without the state, and the name of that model.

    If every action is available in all states, its probabilities are the actions' shares, the fit of one constant for
    each action. Else the available actions have equal probabilities.
    """
    if all(expert.mdp.mask is None for expert in fit.experts):
        actions = np.concatenate([demos.actions for demos in all_demos(fit.experts)])
        weights = np.concatenate([demos.choice_weights for demos in all_demos(fit.experts)])
        taken = np.bincount(actions, weights=weights)
        taken = taken[taken > 0]
        return float(taken @ np.log(taken / taken.sum())), "the actions' shares"
    total = 0.0
    for expert in fit.experts:
        demos = expert.recorded
        assert demos is not None
        exist = expert.mdp.num_available[demos.tabular_states]
        total -= float(demos.choice_weights @ np.log(exist))
    return total, "equal chances"
