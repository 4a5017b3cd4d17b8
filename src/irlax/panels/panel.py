"""Panels: from a data frame to an MDP, demonstrations and a reward, in the user's words."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import numpy as np

from irlax.demos import Demonstrations
from irlax.demos.types import MOST
from irlax.estimators.mixed.mixed_fit import AbstractMixedFit
from irlax.estimators.tabular.estimated_transitions import EstimatedTransitions
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.mce import MCEIRL
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.mdp import MDP
from irlax.notebook_html import framed
from irlax.panels.formula import Design, Formula, Rewards, covariates_in, rewards_of
from irlax.panels.models import Counts, Model
from irlax.panels.states import label_of
from irlax.panels.variables import Discretisation, Variable
from irlax.rewards import LinearReward
from irlax.tables import Summary
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray

if TYPE_CHECKING:
    import pandas as pd

#: The absorbing state that follows the end of a life.
EXIT = "exit"
Transitions = Counts | Mapping[str, Model] | Array | Sequence[Any]


class Panel(eqx.Module):
    """Individuals observed period by period: states, choices, and the transitions estimated from them.

    Made by `Panel.from_frame` or `Panel.read`. `mdp(discount=...)`, `demos` and `reward(formula)` are what estimators
    take; `fit(formula, discount=...)` passes them on.
    """

    demos: Demonstrations
    variables: tuple[Variable, ...]
    actions: tuple[str, ...]
    #: The levels of the variables in each state; −1 in the last state if it is the exit.
    codes: Int[np.ndarray, "S V"]
    available: Bool[np.ndarray, "S A"]
    #: None where the transitions were given.
    transitions: EstimatedTransitions | None
    #: Next states and their probabilities.
    successors: Int[np.ndarray, "S A B"]
    probs: Float[np.ndarray, "S A B"]
    covariates: "pd.DataFrame | None"
    #: The name of the column of actions, and its values.
    action_column: str
    action_values: np.ndarray
    #: The name of the column of periods, and the period that is t = 0.
    period: str
    first_period: int
    individual: str
    #: Choices that were left out because their history is not known; see `history` in `from_frame`.
    without_history: int = 0

    @classmethod
    def from_frame(
        cls,
        frame: "pd.DataFrame",
        *,
        individual: str,
        period: str,
        state: str | Sequence[str] | Mapping[str, Discretisation],
        action: str,
        actions: Mapping[Any, str] | Sequence[Any] | None = None,
        transitions: Transitions | None = None,
        covariates: Sequence[str] = (),
        weight: str | None = None,
        exit: str | None = None,
        exit_given: Sequence[str] = (),
        available: Mapping[str, str | Callable[[Any], Any]] | None = None,
        history: Mapping[str, int] | None = None,
    ) -> "Panel":
        """From a pandas frame with a row for each individual and period, in any order, with gaps and late entries.

        The arguments name its columns. `state` lists the state variables, or maps each to how its values become levels:
        None (as they are: text, whole numbers, true and false), `Quantiles(20)`, `Edges([...])`, `Levels([...])`, or a
        function of the column. States are the combinations of levels that can occur. In formulae a bin has the mean
        of its rows.

        `actions` maps values of the column `action` to labels, and gives their order. `transitions` is how they are
        estimated: `Counts()` of next states given state and action (the default), or a model for each variable,
        {"mileage": Increments(...), "price": Chain(by_action=False)}; or probabilities that are known, [S, A, S'] or a
        scipy.sparse matrix for each action, over the states in the order of `panel.states`. `covariates` do not change
        within an individual. `weight` is the same on all rows of an individual. `exit` is true on the last row of an
        individual that left for good (died, retired, dropped out): an absorbing state of reward 0 follows, with a
        probability that depends on the action and the variables `exit_given` (with `Counts`: on the state).
        `available` maps the label of an action to where it exists: a condition on the state variables, "age >= 60", or
        a function of a frame of states.

        `history` extends the states by what was before: {"choice": 1} adds the state variable `last_choice`, the choice
        of the period before, and {"mileage": 2} both `last_mileage` and `last_mileage_2`. A reward may then depend on
        them: choices are still a Markov decision process, in the extended states. What happens next depends on the
        present state and action alone, unless a `Chain(given=["last_choice"])` says otherwise. Choices of which the
        history is not known, at the first period of an individual and after gaps, are left out.
        """
        from irlax.panels.building import build

        return build(
            frame,
            individual=individual,
            period=period,
            state=state,
            action=action,
            actions=actions,
            transitions=Counts() if transitions is None else transitions,
            covariates=covariates,
            weight=weight,
            exit_column=exit,
            exit_given=exit_given,
            available=available,
            history=history,
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str], **options: Any) -> "Panel":
        """From a .csv or .parquet file; `options` are the arguments of `from_frame`."""
        from irlax.panels.files import read_frame

        return cls.from_frame(read_frame(path), **options)

    @property
    def num_states(self) -> int:
        """S, the exit included."""
        return len(self.codes)

    @property
    def has_exit(self) -> bool:
        """Whether lives end: the last state is then absorbing, with reward 0."""
        return bool((self.codes[-1] < 0).any())

    @property
    def states(self) -> "pd.DataFrame":
        """The state variables of each state, as formulae see them; without the exit."""
        import pandas as pd

        codes = self.codes[(self.codes >= 0).all(axis=1)]
        return pd.DataFrame({v.name: v.column(codes[:, j]) for j, v in enumerate(self.variables)})

    @property
    def state_labels(self) -> list[str]:
        """A name for each state: "mileage 3, region north"."""
        return [EXIT if (row < 0).any() else label_of(self.variables, row) for row in self.codes]

    def mdp(self, *, discount: float, horizon: int | None = None) -> MDP:
        """The MDP of the panel, labelled; episodes start where individuals were first observed.

        With a `horizon` of T decisions lives are finite: t = 0 is the earliest period of the panel, which should be an
        age, and the last choice is made T − 1 later.
        """
        starts = np.bincount(self.demos.start_states, weights=self.demos.weights, minlength=self.num_states)
        mdp = MDP.from_successors(
            self.successors,
            self.probs,
            starts / starts.sum(),
            discount=discount,
            horizon=horizon,
            available=self.available,
        )
        return mdp.labelled(states=self.state_labels, actions=self.actions, time_unit=self.period)

    def reward(
        self, formula: Formula, *, known: Formula | None = None, fixed: Mapping[str, float] | None = None
    ) -> LinearReward:
        """The linear reward of a formula, with a parameter for each of its terms, all 0.

        Terms are made of the names of state variables, of actions (1 where the action is chosen), of covariates, of
        variables in the next period (`next_mileage`), and, where lives end, of `alive`, a constant for each period
        before the exit: "mileage:keep + replace + C(region):keep". A mapping names the parameters itself:
        {"RC": "-replace"}.
        There is no other constant: a reward that is earned whatever is chosen changes no choice.

        `known` is a formula for what is known of the reward, such as "wage:work", with coefficients of 1; `fixed` sets
        terms to given values: a normalisation.
        """
        first, *others = self.rewards(formula, known=known, fixed=fixed).of_type
        if others:
            raise ValueError("This formula has covariates, so each type has a reward of its own: use `fit`.")
        return first

    def rewards(
        self, formula: Formula, *, known: Formula | None = None, fixed: Mapping[str, float] | None = None
    ) -> Rewards:
        """The rewards of all types that the covariates in a formula distinguish."""
        used = covariates_in(formula, known, self.covariate_names)
        _, table = self.types_by(used)
        design = Design(
            self.variables,
            self.codes,
            self.available,
            self.successors,
            self.probs > 0,
            self.actions,
            self.action_column,
            self.action_values,
            {} if table is None else {name: table[name].to_numpy() for name in used},
        )
        return rewards_of(design, formula, known=known, fixed=fixed)

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """The names of the covariates."""
        return () if self.covariates is None else tuple(map(str, self.covariates.columns))

    def fit(
        self,
        formula: Formula,
        *,
        discount: float | Literal["estimate"],
        horizon: int | None = None,
        estimator: AbstractTabularIRL | None = None,
        by: str | Sequence[str] = (),
        known: Formula | None = None,
        fixed: Mapping[str, float] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> TabularFit | AbstractMixedFit:
        """Estimate the parameters of a reward by the likelihood of the choices.

        `formula`, `known` and `fixed` are as in `reward`, `discount` and `horizon` as in `mdp`; "estimate" estimates
        the discount too, and refuses with the reason where it is not identified (`fit.discount_profile` shows its
        likelihood). The estimator is `MCEIRL(objective="likelihood")` unless another is given: `TwoStepIRL()`, or
        `MixtureIRL(num_types=2)` for unobserved types and `SwitchingIRL(num_motives=2)` for motives that switch, which
        need a `key`. Where the formula has covariates, one set of parameters is learned from all types of individuals;
        `by` names covariates for each combination of which all parameters are separate.

        Transitions are estimated first, and the standard errors of the fit include their sampling error; by default
        they are clustered by individual.
        """
        from irlax.panels.fitting import fit_panel

        return fit_panel(
            self,
            formula,
            discount=discount,
            horizon=horizon,
            estimator=MCEIRL(objective="likelihood") if estimator is None else estimator,
            by=(by,) if isinstance(by, str) else tuple(by),
            known=known,
            fixed=fixed,
            key=key,
        )

    def summary(self) -> Summary:
        """What was found: individuals, periods, gaps, levels, cells never seen, transitions seen once."""
        from irlax.panels.overview import overview

        return overview(self)

    def __repr__(self) -> str:
        return f"Panel({self.demos.num_episodes:,} individuals, {self.demos.num_steps:,} choices)"

    def _repr_html_(self) -> str:
        return framed(self.summary().to_html())

    def types_by(self, names: Sequence[str]) -> "tuple[Int[np.ndarray, ' N'], pd.DataFrame | None]":
        """The type of each individual, and the covariates of each type, one of a kind; without names there is one."""
        if not names:
            return np.zeros(self.demos.num_episodes, int), None
        assert self.covariates is not None
        grouped = self.covariates[list(names)].groupby(list(names), sort=True, observed=True)
        table: Any = grouped.size().reset_index()[list(names)]
        if len(table) > MOST:
            raise ValueError(
                f"The covariates {', '.join(names)} have {len(table)} combinations, and each is planned for "
                f"separately. Round or group them into at most {MOST}."
            )
        return grouped.ngroup().to_numpy(), table
