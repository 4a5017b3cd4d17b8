"""Unobserved types: a finite mixture of rewards, fitted by expectation and maximisation and Newton's method."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.mixed.assessment import Words
from irlax.estimators.mixed.cells_of_experts import cells_of
from irlax.estimators.mixed.estimation import Estimated, bound_rewards, choose_l2
from irlax.estimators.mixed.mixture_fit import MixtureFit, mixture_problem
from irlax.estimators.mixed.search import Search
from irlax.estimators.mixed.types import individuals_of
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Start
from irlax.iteration import Callback, Session, Watch
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.status import warn_unless_success
from irlax.typing import PRNGKeyArray

#: EM ends once a step increases the log likelihood of an individual by less than this.
MIN_GAIN = 1e-4
WORDS = Words("type", "individuals", "fit fewer types")


@stored("mixture-irl")
class MixtureIRL(AbstractTabularIRL):
    r"""Infer the rewards of several unobserved types of individuals, and how frequent the types are.

    Individual i is of type g with probability s_g, keeps its type, and is soft-optimal for its type's reward:

    $$\ell(\theta, s) = \sum_i w_i \log \sum_g s_g \prod_{t} \pi_{\theta_g}(a_{it}|s_{it})$$

    where the product runs over all observed choices of the individual, each counted once. Heckman and Singer (1984);
    Arcidiacono and Jones (2003).

    EM (Dempster, Laird and Rubin 1977) alternates between the posterior of each individual's type and weighted fits
    of each type, warm-started from the last; it never lowers the likelihood. There is more than one local maximum:
    `num_starts` short runs start at parameters drawn around the one-type estimate, with the spread that estimates of
    single individuals would have, and the best of them is continued. Near the maximum, where EM is slow, Newton's
    method on ℓ itself takes over until no entry of its gradient (an individual's mean) exceeds `tol`. `max_steps`
    bounds the steps of both together.

    Types are in order of their shares, the most frequent first: the likelihood is the same in any order. `l2` adds
    ½·l2·‖θ_g‖² for each type; it helps if a type is so consistent that its parameters have no finite maximum. "cv"
    chooses it by cross-validation over individuals. If a type adds nothing to the likelihood, because no individual is
    of it or another type acts alike, there is no unique finite maximum, and the status is UNBOUNDED.
    """

    num_types: int = 2
    num_starts: int = 5
    l2: float | Literal["cv"] = 0.0
    tol: float = 1e-7
    max_steps: int = 500
    start: Start = "auto"
    progress: bool | None = None

    def __check_init__(self) -> None:
        checks.count("num_types", self.num_types)
        checks.count("num_starts", self.num_starts)
        if self.l2 != "cv":
            checks.positive("l2", self.l2, zero=True)
        checks.positive("tol", self.tol)
        checks.count("max_steps", self.max_steps)
        checks.one_of("start", self.start, ("auto", "demos", "mdp"))

    @property
    def maximises_likelihood(self) -> bool:
        return True

    def settings(self) -> list[tuple[str, Any]]:
        return [("num_types", self.num_types), ("num_starts", self.num_starts), ("l2", self.l2)]

    def fit(
        self,
        mdp: MDP | Sequence[MDP],
        reward: AbstractReward | Sequence[AbstractReward],
        demos: Demonstrations | Sequence[Demonstrations],
        *,
        key: PRNGKeyArray,
        individual: Any = None,
        held_out: Demonstrations | None = None,
        callback: Callback | None = None,
    ) -> MixtureFit:
        """Learn a reward for each type, and the shares of types, from demonstrations.

        With lists of MDPs, rewards and demonstrations the types have parameters in common in all of them; so observed
        types (`by_type`) and unobserved ones combine. An individual may have episodes in several.

        `individual` labels the individual of each episode (a list of labels for each MDP), if some have several: their
        episodes are of one type. An individual counts as often as its weight says, which is the same for all of its
        episodes; one of weight 0 has no effect on the fit, but its posterior is reported. `key` draws the starts.
        `held_out` episodes, an individual each, are scored and never learned from; for individuals with several see
        `MixtureFit.score`. `callback` receives every iterate from each start on, and may return True to stop.
        """
        started = time.perf_counter()
        with scope():
            rewards, experts = bound_rewards(mdp, reward, demos, self.start, num_groups=1)
            observed = [expert.demos for expert in experts if expert.demos is not None]
            names, person, weights = individuals_of(observed, individual)
            if np.count_nonzero(weights) < self.num_types:
                raise ValueError(
                    f"{self.num_types} types need as many individuals of positive weight, but there are "
                    f"{np.count_nonzero(weights)}."
                )
            cells = cells_of(rewards, experts, num_groups=self.num_types)
            problem = mixture_problem(
                cells, observed, person, weights, num_types=self.num_types, l2=0.0 if self.l2 == "cv" else self.l2
            )
            search = Search(self.num_starts, self.tol, self.max_steps, MIN_GAIN, start_share=1.0, words=WORDS)
            chosen = choose_l2(search, problem, experts, key, "individuals") if self.l2 == "cv" else None
            problem = problem if chosen is None else problem.with_l2(chosen.l2)
            with Session(type(self).__name__, total=self.max_steps, watch=Watch(self.progress, callback)) as session:
                end = Estimated.of(search, problem, rewards, experts, key=key, session=session)
            fit = MixtureFit(
                estimator=self,
                **end.common_fields(),
                shares=end.problem.shares(end.at),
                person=person,
                individuals=names,
                weights=weights,
                log_likelihood=float(weights @ end.problem.log_likelihoods(end.at)),
                seconds=time.perf_counter() - started,
                cross_validation=chosen,
            )
        if held_out is not None:
            fit = dataclasses.replace(fit, held_out_log_likelihood=fit.held_out(held_out)[0])
        warn_unless_success(fit.status, fit.reason)
        return fit
