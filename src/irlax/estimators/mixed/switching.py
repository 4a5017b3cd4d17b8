"""Rewards that switch: hidden motives that follow a Markov chain, each with a reward of its own."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.mixed.assessment import Words
from irlax.estimators.mixed.cells import AbstractCells
from irlax.estimators.mixed.cells_of_experts import cells_of
from irlax.estimators.mixed.estimation import Estimated, bound_rewards, choose_l2
from irlax.estimators.mixed.hidden_problem import HiddenProblem
from irlax.estimators.mixed.lanes import Lanes, checked_features
from irlax.estimators.mixed.motive_chain import MotiveChain
from irlax.estimators.mixed.search import Search
from irlax.estimators.mixed.switching_fit import SwitchingFit, chain_of
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert, Start
from irlax.iteration import Callback, Session, Watch
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.registry import stored
from irlax.status import warn_unless_success
from irlax.typing import Float, PRNGKeyArray

#: EM ends once a step increases the log likelihood of a choice by less than this.
MIN_GAIN = 2e-5
#: Starts are spread as estimates from this many choices would be: motives differ more than whole episodes do.
START_CHOICES = 25


@stored("switching-irl")
class SwitchingIRL(AbstractTabularIRL):
    r"""Infer the rewards of motives that switch over time, when they switch, and which was present at each step.

    The hidden motive $z_t$ follows a Markov chain over the steps of an episode, and choices are soft-optimal for the
    reward of the present motive, as if it would stay:

    $$p(a_0, \ldots, a_{T-1} | s) = \sum_{z} \rho_{z_0} \pi_{\theta_{z_0}}(a_0|s_0) \prod_{t\ge 1}
    P(z_t | z_{t-1}, s_{t-1})\, \pi_{\theta_{z_t}}(a_t|s_t)$$

    With `by_state` the probabilities of switching after step t depend on the state in it, by a multinomial logistic
    regression: each state (or each of the `switching_features` that `fit` takes) moves the log-odds of switches, with
    the penalty ½·switching_l2·‖w‖² that draws states of which little is known to the common log-odds. Ke et al. (2025)
    infer such motives of animals; a mixture (`MixtureIRL`) is a chain that never switches.

    The likelihood is maximised by EM from `num_starts` starts (the best short run is continued), then by a solver on
    all parameters, until no entry of the gradient (an episode's mean) exceeds `tol`; there is more than one local
    maximum. Motives are in order of how many choices they make. `l2` adds ½·l2·‖θ‖² for each motive; "cv" chooses it
    by cross-validation over episodes. A switch that the data say never happens has the probability 0, which has no
    standard error.
    """

    num_motives: int = 2
    by_state: bool = False
    num_starts: int = 5
    l2: float | Literal["cv"] = 0.0
    switching_l2: float = 0.01
    tol: float = 1e-6
    max_steps: int = 3000
    start: Start = "auto"
    progress: bool | None = None

    def __check_init__(self) -> None:
        checks.count("num_motives", self.num_motives)
        checks.count("num_starts", self.num_starts)
        if self.l2 != "cv":
            checks.positive("l2", self.l2, zero=True)
        checks.positive("switching_l2", self.switching_l2, zero=True)
        checks.positive("tol", self.tol)
        checks.count("max_steps", self.max_steps)
        checks.one_of("start", self.start, ("auto", "demos", "mdp"))

    @property
    def maximises_likelihood(self) -> bool:
        return True

    def settings(self) -> list[tuple[str, Any]]:
        settings = [("num_motives", self.num_motives), ("num_starts", self.num_starts), ("l2", self.l2)]
        return [*settings, *([("by_state", True), ("switching_l2", self.switching_l2)] if self.by_state else [])]

    def fit(
        self,
        mdp: MDP | Sequence[MDP],
        reward: Any,
        demos: Demonstrations | Sequence[Demonstrations],
        *,
        key: PRNGKeyArray,
        switching_features: Any = None,
        held_out: Demonstrations | None = None,
        callback: Callback | None = None,
    ) -> SwitchingFit:
        """Learn a reward for each motive, and how motives switch, from demonstrations.

        `reward` is the class of every motive's reward, or a list with one for each motive, which may have features of
        their own. With lists of MDPs, rewards and demonstrations, motives are common to all of them. Time goes on in
        gaps between the rows of an episode: motives may switch there, with `by_state` as in the last observed state.
        `key` draws the starts. `switching_features` [S, F] are what switching depends on with `by_state`; without them
        each state has log-odds of its own. `held_out` episodes are scored and never learned from. `callback` receives
        every iterate from each start on, and may return True to stop.
        """
        started = time.perf_counter()
        if switching_features is not None and not self.by_state:
            raise ValueError("`switching_features` are for switching that depends on the state: pass `by_state=True`.")
        with scope():
            rewards, experts = bound_rewards(mdp, reward, demos, self.start, num_groups=self.num_motives)
            features = self._features(experts, switching_features)
            cells = cells_of(rewards, experts, num_groups=self.num_motives)
            l2 = 0.0 if self.l2 == "cv" else self.l2
            problem = self._problem(cells, experts, features, l2)
            length = sum(float(expert.demos.choice_weights.sum()) for expert in experts if expert.demos is not None)
            length /= problem.total
            search = Search(
                self.num_starts,
                self.tol,
                self.max_steps,
                MIN_GAIN * length,
                start_share=min(1.0, START_CHOICES / length),
                words=self._words,
            )
            chosen = choose_l2(search, problem, experts, key, "episodes") if self.l2 == "cv" else None
            problem = problem if chosen is None else problem.with_l2(chosen.l2)
            with Session(type(self).__name__, total=self.max_steps, watch=Watch(self.progress, callback)) as session:
                end = Estimated.of(search, problem, rewards, experts, key=key, session=session)
            weights = np.asarray(end.problem.loss.weights) * end.problem.total
            fit = SwitchingFit(
                estimator=self,
                **end.common_fields(),
                chain=MotiveChain.of(end.problem.hidden, end.problem.rest(end.at.x)),  # type: ignore[arg-type]
                log_likelihood=float(weights @ end.problem.log_likelihoods(end.at)),
                seconds=time.perf_counter() - started,
                cross_validation=chosen,
                own_classes=len(rewards) > 1,
            )
        if held_out is not None:
            fit = dataclasses.replace(fit, held_out_log_likelihood=fit.log_likelihood_of(held_out))
        warn_unless_success(fit.status, fit.reason)
        return fit

    @property
    def _words(self) -> Words:
        cure = "it never stays for a second step, or always switches to one other, so fit fewer motives"
        if self.by_state and not self.switching_l2:
            cure = "in a state all or none of its steps end in a switch, so pass `switching_l2=`"
        return Words("motive", "episodes", cure)

    def _features(self, experts: tuple[Expert, ...], given: Any) -> Float[np.ndarray, "S F"] | None:
        """The features of the states of all MDPs, one after the other; None if there are none."""
        if len({expert.mdp.num_states for expert in experts}) > 1 and self.by_state:
            raise ValueError("With `by_state` all MDPs must have the same states.")
        return None if given is None else checked_features(given, experts[0].mdp.num_states)

    def _problem(
        self,
        cells: AbstractCells,
        experts: tuple[Expert, ...],
        features: Float[np.ndarray, "S F"] | None,
        l2: float,
    ) -> HiddenProblem:
        demos = [expert.demos for expert in experts if expert.demos is not None]
        num_slopes = None
        if self.by_state:
            num_slopes = experts[0].mdp.num_states if features is None else features.shape[1]
        chain = chain_of(
            demos,
            cells.cell,
            Lanes.of(demos),
            num_motives=self.num_motives,
            num_slopes=num_slopes,
            features=features,
            l2=self.switching_l2,
        )
        return HiddenProblem.of(cells, chain, np.concatenate([each.weights for each in demos]), l2)
