"""A panel's fit: an estimator in the panel's MDP, and what its tables have to say about it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.mixed.mixed_fit import AbstractMixedFit
from irlax.estimators.mixed.mixture import MixtureIRL
from irlax.estimators.mixed.switching import SwitchingIRL
from irlax.estimators.tabular.discount_profile import WEAKLY
from irlax.estimators.tabular.estimated_transitions import EstimatedTransitions
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.panel_model import PanelModel
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.mdp import MDP
from irlax.panels.formula import Formula, Rewards, covariates_in
from irlax.panels.hints import hints
from irlax.rewards import LinearReward
from irlax.status import NotIdentifiedWarning
from irlax.typing import Int, PRNGKeyArray
from irlax.user_warnings import warn_user

if TYPE_CHECKING:
    from irlax.panels.panel import Panel

#: Where the search for an estimated discount starts.
FIRST_DISCOUNT = 0.9


def fit_panel(
    panel: "Panel",
    formula: Formula,
    *,
    discount: Any,
    horizon: int | None,
    estimator: Any,
    by: Sequence[str],
    known: Formula | None,
    fixed: Mapping[str, float] | None,
    key: PRNGKeyArray | None,
) -> TabularFit | AbstractMixedFit:
    """See `Panel.fit`."""
    if not isinstance(estimator, AbstractTabularIRL):
        raise TypeError(
            f"`estimator` must be one such as MCEIRL() or TwoStepIRL(), but is a {type(estimator).__name__}."
        )
    unknown = [name for name in by if name not in panel.covariate_names]
    if unknown:
        raise ValueError(f"`by` must name covariates of the panel, {list(panel.covariate_names)}, but names {unknown}.")
    made = panel.rewards(formula, known=known, fixed=fixed)
    rewards, types = _rewards_by_type(panel, made, covariates_in(formula, known, panel.covariate_names), by)
    estimated = discount == "estimate"
    mdp = panel.mdp(discount=FIRST_DISCOUNT if estimated else discount, horizon=horizon)
    if isinstance(estimator, (MixtureIRL, SwitchingIRL)):
        if estimated:
            raise ValueError("The discount of a mixture or of switching motives is not estimated: give a number.")
        if len(rewards) > 1:
            raise ValueError("What is mixed is unobserved: leave out `by`, and covariates in the formula.")
        if key is None:
            raise TypeError("This estimator starts at random parameters: pass `key=jax.random.key(0)`, for instance.")
        mixed = estimator.fit(mdp, rewards[0], panel.demos, key=key)
        model = _model(panel, panel.transitions)
        found = hints(panel, [each[0] for each in mixed.all_rewards], mixed.experts)
        notes = (*_notes(panel, made, known, mixed.mdp, model), *found)
        return dataclasses.replace(mixed, panel=dataclasses.replace(model, notes=notes))
    parts = [panel.demos.select(types == g) for g in range(len(rewards))]
    several = [mdp] * len(parts), rewards, parts
    method: Any = estimator
    fit = method.fit(*(one[0] for one in several)) if len(parts) == 1 else method.fit(*several)
    assert isinstance(fit, TabularFit)
    transitions = panel.transitions
    if transitions is not None:
        transitions = dataclasses.replace(transitions, draws=_split(transitions, panel.demos, types, len(parts)))
    model = _model(panel, transitions)
    fit = dataclasses.replace(fit, panel=model)
    more: tuple[str, ...] = ()
    if estimated:
        profile = fit.discount_profile()
        if not profile.identified:
            raise ValueError(f"The discount cannot be estimated. {profile.reason} Give a number: `discount=0.95`.")
        if profile.weak:
            more = (f"Look: the discount is identified {WEAKLY}",)
            warn_user(f"The discount is estimated, but {WEAKLY}", NotIdentifiedWarning)
        fit, model = profile.fit, dataclasses.replace(model, discount=profile.found)
    notes = (*_notes(panel, made, known, fit.mdp, model), *hints(panel, fit.rewards, fit.experts), *more)
    return dataclasses.replace(fit, panel=dataclasses.replace(model, notes=notes))


def _rewards_by_type(
    panel: "Panel", made: Rewards, used: Sequence[str], by: Sequence[str]
) -> tuple[list[LinearReward], Int[np.ndarray, " N"]]:
    """The reward of each type, and the type of each individual; with `by` each group has parameters of its own."""
    together, table = panel.types_by([*used, *(name for name in by if name not in used)])
    if table is None:
        return list(made.of_type), together
    own, _ = panel.types_by(used)
    group, names = panel.types_by(by)
    # The reward and the group of each type are those of any of its individuals.
    first = np.unique(together, return_index=True)[1]
    rewards = [made.of_type[own[i]] for i in first]
    if names is None:
        return rewards, together
    texts = [", ".join(f"{name} {value}" for name, value in row.items()) for _, row in names.iterrows()]
    return [_own_block(reward, int(group[i]), texts) for reward, i in zip(rewards, first, strict=True)], together


def _own_block(reward: LinearReward, which: int, groups: Sequence[str]) -> LinearReward:
    """The reward with a copy of its parameters for each group, of which all but one's have no effect."""
    features = np.asarray(reward.features)
    parts = [features if g == which else np.zeros_like(features) for g in range(len(groups))]
    names = [f"{name} [{group}]" for group in groups for name in reward.names]
    return LinearReward(np.concatenate(parts, axis=-1), names=names, known=reward.known)


def _split(
    transitions: EstimatedTransitions, demos: Demonstrations, types: Int[np.ndarray, " N"], num: int
) -> tuple[np.ndarray, ...]:
    (draws,) = transitions.draws
    return tuple(draws[types[demos.episode] == g] for g in range(num))


def _model(panel: "Panel", transitions: EstimatedTransitions | None) -> PanelModel:
    return PanelModel(
        transitions,
        tuple(variable.name for variable in panel.variables),
        tuple(variable.labels for variable in panel.variables),
        panel.codes,
    )


def _notes(panel: "Panel", made: Rewards, known: Formula | None, mdp: MDP, model: PanelModel) -> list[str]:
    """The assumptions and normalisations."""
    estimated = panel.transitions
    lines = [
        "Transitions: known."
        if estimated is None
        else f"Transitions: {estimated.description}; estimated from this panel, {estimated.num_free:,} free."
    ]
    lines += [f"State: `{variable.name}` has {variable.how}." for variable in panel.variables if variable.is_coarse]
    if model.discount is None:
        lines.append(f"Set: discount γ = {float(mdp.discount):g}; as if it were known.")
    else:
        lines.append(f"Estimated: discount {model.discount.text()}; its error is in the standard errors.")
    lines.append("Set: utility shocks of scale 1 (type I extreme value).")
    lines.append(
        "Set: the exit earns 0."
        if panel.has_exit
        else "Set: no constant, because a reward that is earned whatever is chosen changes no choice."
    )
    if mdp.horizon is not None:
        first, last = panel.first_period, panel.first_period + mdp.horizon - 1
        lines.append(f"Set: the first choice is made in `{panel.period}` {first}, the last in {last}; 0 follows.")
    if (panel.demos.weights != 1).any():
        lines.append("Set: weights are frequencies; `weights='sampling'` takes them for sampling weights.")
    if known:
        texts = [known] if isinstance(known, str) else [f"{name} = {text}" for name, text in known.items()]
        lines.append(f"Set: known part of the reward {'; '.join(texts)}, with coefficient 1.")
    if made.fixed:
        lines.append("Set: " + ", ".join(f"{name} = {value:g}" for name, value in made.fixed) + ".")
    return lines
