"""The result of fitting motives that switch."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.analysis.standard_errors import Kind, rank, summed_by
from irlax.demos import Demonstrations
from irlax.estimators.mixed.cells_of_experts import cells_of
from irlax.estimators.mixed.chain import Chain, likeliest_path, motive_posterior, predictive
from irlax.estimators.mixed.hidden_problem import HiddenProblem
from irlax.estimators.mixed.lanes import Lanes
from irlax.estimators.mixed.mixed_fit import AbstractMixedFit, restored_fields
from irlax.estimators.mixed.motive_chain import MotiveChain
from irlax.estimators.mixed.towards_goals import TowardsGoals, log_policy_under
from irlax.estimators.tabular.components import Certificate, CrossValidation
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.memo import Memo
from irlax.estimators.tabular.panel_model import PanelModel
from irlax.iteration import History
from irlax.planning import Plan
from irlax.precision import scope
from irlax.registry import stored
from irlax.report.html import Page
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.status import Status
from irlax.tables import Summary
from irlax.typing import Float, Int, PRNGKeyArray


@stored("switching-fit")
class SwitchingFit(AbstractMixedFit):
    """Rewards of K motives, the most frequent first, and the chain by which they switch."""

    estimator: AbstractTabularIRL = eqx.field(static=True)
    all_rewards: tuple[tuple[AbstractReward, ...], ...]
    all_plans: tuple[tuple[Plan | TowardsGoals, ...], ...]
    chain: MotiveChain
    experts: tuple[Expert, ...]
    status: Status = eqx.field(static=True)
    certificate: Certificate
    #: Σ log p over all episodes, with motives summed out.
    log_likelihood: float
    #: Minus the mean log likelihood of an episode, along the best of the runs, and the size of its gradient.
    history: History
    seconds: float
    #: Whether a class of reward was given for each motive, instead of one for all.
    own_classes: bool = eqx.field(static=True, default=False)
    #: What is wrong and what to do, if the status is not a success.
    reason: str = eqx.field(static=True, default="")
    held_out_log_likelihood: float | None = None
    cross_validation: CrossValidation | None = None
    panel: PanelModel | None = None
    _memo: Memo = eqx.field(init=False, repr=False, static=True, default_factory=Memo)

    @property
    def num_motives(self) -> int:
        """K."""
        return len(self.rewards)

    @property
    def parameters(self) -> tuple[Float[np.ndarray, " k"], ...]:
        """θ of each motive."""
        return tuple(flat(reward.parameters) for reward in self.rewards)

    @property
    def initial(self) -> Float[np.ndarray, " K"]:
        """The probability of each motive at the first step of an episode."""
        return self.chain.tables().initial

    @property
    def switching(self) -> Float[np.ndarray, "*S K K"]:
        """P(next motive | present motive): [K, K], or [S, K, K] if it depends on the state."""
        table = self.chain.tables().switching
        return table if self.chain.slopes is not None else table[0]

    @property
    def shares(self) -> Float[np.ndarray, " K"]:
        """The share of observed choices that each motive is expected to have made."""
        weights = np.concatenate([demos.choice_weights for demos in self.demos])
        return weights @ self._posterior / weights.sum()

    @property
    def mean_switching(self) -> Float[np.ndarray, "K K"]:
        """The probabilities of switching; if they depend on the state, their mean over a motive's observed steps."""
        table = self.switching
        if table.ndim == 2:
            return table
        states = np.concatenate([demos.tabular_states for demos in self.demos])
        weights = np.concatenate([demos.choice_weights for demos in self.demos])[:, None] * self._posterior
        visits = summed_by(weights, states, table.shape[0])
        return np.einsum("sk,skj->kj", visits, table) / np.maximum(visits.sum(axis=0), 1e-300)[:, None]

    @property
    def _posterior(self) -> Float[np.ndarray, "n K"]:
        def compute() -> Float[np.ndarray, "n K"]:
            parts = [self._decoded(demos, m) for m, demos in enumerate(self.demos)]
            return np.concatenate([part.posterior() for part in parts])

        return self._memo.once("posterior", (self.all_plans, self.experts), compute)

    def motive_probabilities(self, demos: Demonstrations | None = None) -> Float[np.ndarray, "n K"]:
        """The probability of each motive at each row, given all choices of its episode; of the fit's data by default.

        Other demonstrations are in the (first) MDP.
        """
        return self._posterior if demos is None else self._decoded(demos).posterior()

    def likeliest_motives(self, demos: Demonstrations | None = None) -> Int[np.ndarray, " n"]:
        """The path of motives that is likeliest as a whole, given all choices of an episode (Viterbi 1967)."""
        if demos is not None:
            return self._decoded(demos).path()
        return np.concatenate([self._decoded(each, m).path() for m, each in enumerate(self.demos)])

    def log_predictive(self, demos: Demonstrations) -> Float[np.ndarray, " n"]:
        """log p(a_t | earlier choices of the episode) of each row; they sum to the log likelihood."""
        return self._decoded(demos).log_predictive()

    def log_likelihood_of(self, demos: Demonstrations) -> float:
        """The log likelihood of other demonstrations in the (first) MDP, by weight, with motives summed out."""
        return float(np.repeat(demos.weights, demos.lengths) @ self.log_predictive(demos))

    def score(self, demos: Demonstrations) -> float:
        """The log likelihood of other demonstrations in the (first) MDP, mean over choices, with motives summed out."""
        total = self.log_likelihood_of(demos)
        return total / float(demos.choice_weights.sum())

    def _decoded(self, demos: Demonstrations, m: int = 0) -> "Decoded":
        if not isinstance(demos, Demonstrations):
            raise TypeError(f"`demos` must be Demonstrations, but is a {type(demos).__name__}.")
        demos.check(self.experts[m].mdp)
        with scope():
            choices = np.stack([log_policy_under(plan, demos) for plan in self.all_plans[m]])
            lanes = Lanes.of([demos])
            chain = self._chain([demos], np.arange(demos.num_steps), lanes)
            return Decoded(lanes, chain, jnp.asarray(choices), self.chain)

    def _chain(self, demos: list[Demonstrations], cell: Int[np.ndarray, " n"], lanes: Lanes) -> Chain:
        """The chain over demonstrations, with what the estimate holds at 0."""
        estimate = self.chain
        chain = chain_of(
            demos,
            cell,
            lanes,
            num_motives=estimate.num_motives,
            num_slopes=None if estimate.slopes is None else len(estimate.slopes),
            features=estimate.features,
            l2=estimate.l2,
        )
        return estimate.given_to(chain)

    def simulate(
        self,
        num: int | None = None,
        *,
        key: PRNGKeyArray,
        length: int | None = None,
        starts: Any = None,
        goals: Any = None,
    ) -> tuple[Demonstrations, np.ndarray]:
        """Episodes of the model in the (first) MDP, and the motive at each of their rows.

        With goals there is one episode for each pair of `starts` and `goals`, or there are `num` episodes with pairs of
        the demonstrations, drawn by weight; each ends at its goal, so that `length` is for fits without goals.
        """
        if self.goals is None:
            from irlax.estimators.mixed.simulation import simulate_motives

            if num is None or starts is not None or goals is not None:
                raise ValueError("Pass `num`, the number of episodes; `starts` and `goals` are for fits with goals.")
            model = (self.policies, self.initial, self.switching)
            return simulate_motives(self.mdp, *model, num=num, key=key, length=length)
        from irlax.estimators.mixed.goal_simulation import pairs_of, simulate_motives_to_goals

        if length is not None:
            raise ValueError("Episodes with goals are as long as the way to their goal: leave `length` out.")
        pairs_key, episodes_key = jax.random.split(key)
        pairs = pairs_of(self.demos[0], num, starts, goals, key=pairs_key)
        plans = [plan.plan(np.unique(pairs[1])) for plan in self.plans if isinstance(plan, TowardsGoals)]
        return simulate_motives_to_goals(plans, self.initial, self.switching, *pairs, key=episodes_key)

    def hidden_problem(self) -> HiddenProblem:
        classes = range(self.num_motives) if self.own_classes else (0,)
        by_class = [tuple(rewards[k] for rewards in self.all_rewards) for k in classes]
        cells = cells_of(by_class, self.experts, num_groups=self.num_motives)
        return HiddenProblem.of(cells, self._chain(self.demos, cells.cell, Lanes.of(self.demos)), self.weights, self.l2)

    def unit_of_episodes(self) -> Int[np.ndarray, " N"]:
        return np.arange(len(self.weights))

    def hidden_parameters(self) -> Any:
        return self.chain.parameters

    def hidden_penalty(self) -> Float[np.ndarray, " Q"]:
        """The penalty on the log-odds of switches that depend on the state."""
        sizes = [self.chain.initial_odds.size, self.chain.base.size]
        slopes = 0 if self.chain.slopes is None else self.chain.slopes.size
        return np.concatenate([np.zeros(sum(sizes)), np.full(slopes, self.chain.l2)])

    @property
    def weights(self) -> Float[np.ndarray, " N"]:
        """The weight of each episode, over all MDPs."""
        return np.concatenate([demos.weights for demos in self.demos])

    def covariance(self, kind: Kind = "hessian") -> Float[np.ndarray, "Q Q"]:
        """The joint covariance of (θ₁, …, θ_K, first motives, switches); NaN for what is not identified.

        By the inverse Hessian of the likelihood in which motives are summed out, the outer product of episodes' scores,
        or the sandwich of both; for probabilities by the delta method from their log-odds. Switches are in the order of
        `switching`. Probabilities that are held at 0 have no standard error.
        Where a panel's transitions were estimated, their sampling error is included (Newey and McFadden 1994).
        """
        result = self.covariance_of_rewards_and(self.chain.jacobian(), kind, self.weights)
        tables = self.chain.tables()
        zero = len(self.estimates) + np.flatnonzero(np.concatenate([tables.initial, tables.switching.ravel()]) == 0)
        result[zero, :] = result[:, zero] = np.nan
        return result

    def standard_errors(self, kind: Kind = "hessian") -> tuple[Float[np.ndarray, " k"], ...]:
        """Standard errors of each motive's parameters, including the uncertainty about motives."""
        errors = self._errors(kind)
        ends = np.cumsum([len(theta) for theta in self.parameters])
        return tuple(np.split(errors[: ends[-1]], ends[:-1]))

    def initial_errors(self, kind: Kind = "hessian") -> Float[np.ndarray, " K"]:
        """Standard errors of the probabilities of first motives."""
        size = len(self.estimates)
        return self._errors(kind)[size : size + self.num_motives]

    def switching_errors(self, kind: Kind = "hessian") -> Float[np.ndarray, "*S K K"]:
        """Standard errors of the probabilities of switching."""
        return self._errors(kind)[len(self.estimates) + self.num_motives :].reshape(self.switching.shape)

    def _errors(self, kind: Kind) -> Float[np.ndarray, " Q"]:
        return np.sqrt(
            self._memo.once(f"covariance {kind}", (self.all_rewards,), lambda: np.diag(self.covariance(kind)))
        )

    @property
    def rank(self) -> int:
        """The number of identified parameters."""
        return rank(self.information.hessian)

    @property
    def aic(self) -> float:
        """2P − 2·log likelihood, with P identified parameters; NaN unless the fit ended in success."""
        return 2.0 * self.rank - 2 * self.log_likelihood if self.converged else np.nan

    @property
    def bic(self) -> float:
        """P·log(number of choices) − 2·log likelihood, by which numbers of motives are compared: less is better."""
        if not self.converged:
            return np.nan
        return self.rank * float(np.log(self.num_choices)) - 2 * self.log_likelihood

    def summary(self) -> Summary:
        from irlax.estimators.mixed.switching_summary import summary

        return summary(self)

    def describe(self) -> dict[str, Any]:
        from irlax.estimators.mixed.switching_summary import description

        return description(self)

    def page(self) -> Page:
        from irlax.estimators.mixed.switching_page import switching_page

        return switching_page(self)

    def plot(self) -> Any:
        """The probability of each motive over the steps of the first episodes, as a matplotlib figure."""
        from irlax.estimators.mixed.switching_page import motives_figure

        return motives_figure(self)

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any]) -> "SwitchingFit":
        """The fit, with its plans computed again."""
        fields = restored_fields(cls, "switching-fit", fields)
        if len(fields["all_rewards"][0]) != fields["chain"].num_motives:
            raise ValueError(f"There are {len(fields['all_rewards'][0])} rewards for other motives.")
        return cls(**fields)


class Decoded(eqx.Module):
    """Demonstrations under the estimated motives."""

    lanes: Lanes
    chain: Chain
    choices: Float[Any, "K C"]
    estimate: MotiveChain

    def _run(self, function: Any) -> np.ndarray:
        with scope():
            parameters = jax.tree.map(jnp.asarray, self.estimate.parameters)
            return self.lanes.of_rows(np.asarray(function(self.chain, self.choices, parameters)))

    def posterior(self) -> Float[np.ndarray, "n K"]:
        """The probability of each motive at each row."""
        return self._run(motive_posterior)

    def path(self) -> Int[np.ndarray, " n"]:
        """The likeliest path of motives."""
        return self._run(likeliest_path)

    def log_predictive(self) -> Float[np.ndarray, " n"]:
        """log p(a_t | earlier choices) of each row."""
        return self._run(predictive)


def chain_of(
    demos: list[Demonstrations],
    cell: Int[np.ndarray, " n"],
    lanes: Lanes,
    *,
    num_motives: int,
    num_slopes: int | None,
    features: Float[np.ndarray, "S F"] | None,
    l2: float,
) -> Chain:
    """The chain over demonstrations; `cell` is the index of each row's choice."""
    counts = [np.ones(each.num_steps) if each.row_weights is None else each.row_weights for each in demos]
    return Chain.of(
        lanes,
        cell,
        np.concatenate(counts),
        states=np.concatenate([each.tabular_states for each in demos]),
        num_motives=num_motives,
        num_slopes=num_slopes,
        features=features,
        l2=l2,
    )
