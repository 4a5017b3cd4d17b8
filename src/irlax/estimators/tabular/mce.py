"""Maximum causal entropy inverse reinforcement learning, with known dynamics."""

import functools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular.batch import minimise_many
from irlax.estimators.tabular.components import CrossValidation
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.fit_by_minimising import Estimation, fit_by_minimising, make_fit
from irlax.estimators.tabular.objectives import AbstractObjective, FeatureMatching
from irlax.estimators.tabular.observed_likelihood import ObservedLikelihood
from irlax.estimators.tabular.pairing import pair_up, pair_up_each
from irlax.estimators.tabular.solvers import LBFGS, AbstractSolver, SolverName, check_solver, choose_solver
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.iteration import Callback, Watch
from irlax.mdp import MDP
from irlax.planning import Plan, soft_plan
from irlax.planning.occupancy import visits_of
from irlax.precision import scope, to_device
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat, reward_at
from irlax.run_folder import RunLike, as_run_folder
from irlax.typing import Float

if TYPE_CHECKING:
    from irlax.engine import AbstractEngine
    from irlax.estimators.goals.goal_fit import GoalFit

ObjectiveName = Literal["feature-matching", "discounted-likelihood", "likelihood"]
OBJECTIVES = ("feature-matching", "discounted-likelihood", "likelihood")


@stored("mce-irl")
class MCEIRL(AbstractTabularIRL):
    r"""Infer a reward whose soft-optimal policy explains the demonstrations. Primer, section 3.

    `objective` names what is optimised, per episode:

    * "feature-matching": the dual $\mathbb{E}V_0 - \theta^\top f_D$, whose optimum matches the discounted
      feature expectations of the demonstrator. Convex for linear rewards. Needs whole episodes.
    * "discounted-likelihood": $\sum_t \gamma^t \log\pi_t(a_t|s_t)$, the Primer's definition.
    * "likelihood": every observed choice counts once, though the agent plans with γ; the usual likelihood in
      statistics and economics. The likelihoods are not concave under stochastic dynamics, but accept truncated
      episodes and gaps.

    `l2` adds ½·l2·‖θ‖²; "cv" chooses it by cross-validation over episodes. `tol` bounds the largest entry
    of the gradient. `solver` is "newton", "lbfgs", "dual-ascent" (the Primer's Algorithm 1), "adam", or one
    of their classes with its own settings; "auto" takes Newton for few parameters, L-BFGS for many and Adam
    for networks. `start` says where the model starts: where the demonstrations do, when there are any
    ("auto", "demos"), or as the MDP does ("mdp"). `low_memory` keeps √T·S values of a finite horizon instead of T·S
    (feature matching only), and takes about 1.5 times as long.
    """

    objective: ObjectiveName = "feature-matching"
    solver: SolverName | AbstractSolver = "auto"
    l2: float | Literal["cv"] = 0.0
    tol: float = 1e-8
    start: Start = "auto"
    low_memory: bool = False
    progress: bool | None = None

    def __check_init__(self) -> None:
        checks.one_of("objective", self.objective, OBJECTIVES)
        if self.l2 != "cv":
            checks.positive("l2", self.l2, zero=True)
        checks.positive("tol", self.tol)
        checks.one_of("start", self.start, ("auto", "demos", "mdp"))
        check_solver(self.solver)
        if self.low_memory and self.objective != "feature-matching":
            raise ValueError(
                f"`low_memory` needs objective='feature-matching', but it is {self.objective!r}. Leave it out."
            )

    @property
    def maximises_likelihood(self) -> bool:
        return self.objective == "likelihood"

    def settings(self) -> list[tuple[str, Any]]:
        return [("objective", self.objective), ("l2", self.l2)]

    def fit(
        self,
        mdp: MDP | Sequence[MDP],
        reward: AbstractReward | Sequence[AbstractReward],
        demos: Any = None,
        *,
        occupancy: Any = None,
        held_out: Demonstrations | None = None,
        callback: Callback | None = None,
        run: RunLike = None,
        engine: "AbstractEngine | None" = None,
    ) -> "TabularFit | GoalFit":
        """Learn `reward`, starting from its current parameters.

        The demonstrator is `Demonstrations`, their `DemoStatistics`, a policy array or a plan (`demos`), or an
        occupancy (`occupancy=`; for feature matching its sum over time will do). With lists of MDPs and demonstrators
        one reward is learned from all of them, each in proportion to its episodes. `held_out` demonstrations are
        scored, never learned from. `callback` receives every iterate, and may return True to stop. `run` is a folder
        (`RunFolder`) in which every iterate is recorded, and from which a killed fit can be resumed. `engine` (of
        `irlax.engine`) computes the folds of `l2="cv"`.

        If the demonstrations have goals, each episode ends at its own, and the result is a `GoalFit`.
        """
        started = time.perf_counter()
        if engine is not None:
            self._refuse_engine(demos)
        if isinstance(demos, Demonstrations) and demos.goals is not None:
            from irlax.estimators.goals.estimate import fit_goals

            watch = Watch(self.progress, callback, as_run_folder(run))
            return fit_goals(self, mdp, reward, demos, held_out=held_out, watch=watch, started=started)
        with scope():
            rewards, experts = pair_up(mdp, reward, demos, occupancy, self.start)
        cross_validation = None
        if self.l2 == "cv":
            from irlax.estimators.tabular.cross_validation import choose_l2

            cross_validation = choose_l2(self, rewards, experts, engine)
        with scope():
            solver = choose_solver(self.solver, rewards, [expert.mdp for expert in experts])
            return fit_by_minimising(
                self,
                self._estimation(rewards, experts, cross_validation),
                solver,
                Watch(self.progress, callback, as_run_folder(run)),
                held_out=held_out,
                started=started,
                cross_validation=cross_validation,
            )

    def _refuse_engine(self, demos: Any) -> None:
        if self.l2 != "cv":
            raise ValueError(f"`engine` computes the folds of l2='cv', but `l2` is {self.l2}. Leave it out.")
        if isinstance(demos, Demonstrations) and demos.goals is not None:
            raise ValueError("With goals the folds of l2='cv' are fitted in this process. Leave `engine` out.")

    def fit_many(
        self,
        mdp: MDP | Sequence[MDP],
        reward: AbstractReward | Sequence[AbstractReward],
        demos: Sequence[Any] | None = None,
        *,
        occupancy: Sequence[Any] | None = None,
    ) -> list[TabularFit]:
        """One fit for each demonstrator, by one `vmap` of L-BFGS.

        Each of `demos` (or of `occupancy`) is a demonstrator as `fit` takes it. `mdp` and `reward` are one for all, or
        lists; where they are lists, the MDPs must have the same number of states and actions, the same horizon and
        the same way of storing transitions, and the rewards the same parameters. On a processor that is not yet busy
        this takes about as long as the slowest fit alone: use it for seeds, resamples, regions or individuals.
        """
        if self.solver not in ("auto", "lbfgs") and not isinstance(self.solver, LBFGS):
            raise ValueError("`fit_many` runs L-BFGS: leave `solver` at 'auto', or pass 'lbfgs' or LBFGS(...).")
        if self.l2 == "cv":
            raise ValueError("`fit_many` takes a number for `l2`; choose it by `cross_validate` first.")
        solver = self.solver if isinstance(self.solver, LBFGS) else LBFGS()
        started = time.perf_counter()
        with scope():
            estimations = [
                self._estimation(*pairs) for pairs in pair_up_each(mdp, reward, demos, occupancy, self.start)
            ]
            problems = [estimation.to_problem() for estimation in estimations]
            found = minimise_many(solver, problems, self.tol)
            return [
                make_fit(self, estimation, problem, solution, started=started)
                for estimation, (problem, _), solution in zip(estimations, problems, found, strict=True)
            ]

    def _estimation(
        self,
        rewards: tuple[AbstractReward, ...],
        experts: tuple[Expert, ...],
        cross_validation: CrossValidation | None = None,
    ) -> Estimation:
        objectives, missing = self.objectives(rewards, experts)
        matching = self.objective == "feature-matching"

        def gap(theta: Any, slope: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
            return -slope if matching else feature_gap(theta, rewards, experts)

        return Estimation(
            objectives,
            rewards,
            experts,
            l2=float(self.l2) if cross_validation is None else cross_validation.l2,
            tol=self.tol,
            convex=matching and all(reward.is_linear for reward in rewards),
            plan=functools.partial(soft_plan_of, low_memory=self.low_memory),
            gap=gap if knows_features(rewards, experts) else None,
            missing_mass=missing,
        )

    def objectives(
        self, rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...]
    ) -> tuple[list[AbstractObjective], float]:
        """The objective of each MDP, and the largest share of discounted mass that is unobserved in any."""
        objectives: list[AbstractObjective] = []
        missing = 0.0
        for reward, expert in zip(rewards, experts, strict=True):
            if self.objective == "feature-matching":
                expert.refuse_choices_after_the_end(reward)
                visits, unobserved = expert.visits(warn=True)
                missing = max(missing, unobserved)
                objectives.append(
                    FeatureMatching(expert.mdp, reward.fold(expert.mdp), to_device(visits), self.low_memory)
                )
            else:
                discounted = self.objective == "discounted-likelihood"
                objectives.append(ObservedLikelihood.of(expert, reward, discounted=discounted).objective)
        return objectives, missing


def soft_plan_of(mdp: MDP, reward: AbstractReward, *, low_memory: bool = False) -> Plan:
    """The soft plan of a reward at its parameters."""
    return soft_plan(mdp, reward, low_memory=low_memory)


def knows_features(rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...]) -> bool:
    """Whether the feature expectations of all demonstrators are known."""
    return all(expert.knows_features(reward) for expert, reward in zip(experts, rewards, strict=True))


def feature_gap(
    theta: Any, rewards: tuple[AbstractReward, ...], experts: tuple[Expert, ...]
) -> Float[np.ndarray, " K"]:
    r"""$\mathbb{E}_D[\sum\gamma^t\nabla r] - \mathbb{E}_\pi[\sum\gamma^t\nabla r]$, over all MDPs by their weight."""
    total, weight = 0.0, sum(expert.weight for expert in experts)
    for reward, expert in zip(rewards, experts, strict=True):
        folded = reward.fold(expert.mdp)
        plan = soft_plan(expert.mdp, np.asarray(reward_at(folded, theta)).T)
        difference = expert.visits(warn=False)[0] - np.asarray(visits_of(expert.mdp, plan))
        total = total + expert.weight / weight * flat(folded.pull_back(theta, difference))
    return np.asarray(total)
