"""Maximum Entropy inverse reinforcement learning: the non-causal ancestor, risk-seeking where the world is random."""

import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.fit_by_minimising import Goal, fit_by_minimising
from irlax.estimators.tabular.objectives import PathMatching
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.solvers import AbstractSolver, SolverName, check_solver, choose_solver
from irlax.estimators.tabular.tabular_fit import TabularFit, plan_of
from irlax.iteration import Callback, Watch
from irlax.mdp import MDP
from irlax.planning import Plan
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.run_folder import RunLike, as_run_folder


@stored("max-ent-irl")
class MaxEntIRL(AbstractTabularIRL):
    r"""Infer a reward under which the demonstrated *paths* are likely. Primer, section 3.3; Ziebart et al. (2008).

    A path has probability ∝ Π P(s'|s,a) · exp(return), given its start: the model credits the agent with
    the luck of the draw. With deterministic dynamics this is `MCEIRL`; with random ones it is biased, and
    is here to be compared with. A reward over (s, a, s') is matched on the transitions that were observed.

    The arguments are those of `MCEIRL`, without the choice of objective.
    """

    solver: SolverName | AbstractSolver = "auto"
    l2: float = 0.0
    tol: float = 1e-8
    start: Start = "auto"
    progress: bool | None = None

    def __check_init__(self) -> None:
        checks.positive("l2", self.l2, zero=True)
        checks.positive("tol", self.tol)
        checks.one_of("start", self.start, ("auto", "demos", "mdp"))
        check_solver(self.solver)

    @property
    def maximises_likelihood(self) -> bool:
        return False

    def settings(self) -> list[tuple[str, Any]]:
        return [("l2", self.l2)]

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
    ) -> TabularFit:
        """Learn `reward`; see `MCEIRL.fit`. `feature_gap` is what the model *believes* it lacks."""
        started = time.perf_counter()
        with scope():
            rewards, experts = pair_up(mdp, reward, demos, occupancy, self.start)
            goal = Goal(
                [_objective(*pair) for pair in zip(rewards, experts, strict=True)],
                rewards,
                experts,
                l2=self.l2,
                tol=self.tol,
                convex=all(reward.is_linear for reward in rewards),
                plan=_path,
                gap=lambda theta, slope: -slope,
                missing_mass=max(expert.visits(warn=True)[1] for expert in experts),
            )
            solver = choose_solver(self.solver, rewards, [expert.mdp for expert in experts])
            watch = Watch(self.progress, callback, as_run_folder(run))
            return fit_by_minimising(self, goal, solver, watch, held_out=held_out, started=started)


def _objective(reward: AbstractReward, expert: Expert) -> PathMatching:
    expert.refuse_choices_after_the_end(reward)
    visits = jnp.asarray(expert.visits(warn=False)[0])
    unfolded = reward.unfold(expert.mdp)
    by_transition = jax.eval_shape(unfolded, reward.parameters)[1]
    if by_transition is None:
        return PathMatching(expert.mdp, unfolded, visits, None)
    return PathMatching(expert.mdp, unfolded, visits, _observed_transitions(expert, visits))


def _observed_transitions(expert: Expert, visits: Any) -> Any:
    """Discounted visits to each transition, aligned: the data's own where there are data, else the dynamics'."""
    dynamics = expert.mdp.dynamics
    if expert.given_occupancy is not None:
        return dynamics.for_all_next(visits) * dynamics.transitions().probs
    states, actions, after, weight = expert.transitions()
    table = jnp.zeros((expert.mdp.num_states, expert.mdp.num_actions, expert.mdp.num_states))
    seen = expert.mdp.align(table.at[states, actions, after].add(weight))
    # A successor that is listed twice has its share of what was seen in either place; padding has none.
    probs, of_both = dynamics.transitions().probs, dynamics.align(jnp.asarray(dynamics.to_dense()))
    seen = jnp.where(probs > 0, seen * probs / jnp.where(of_both > 0, of_both, 1), 0)
    # After a terminated episode, and in the unobserved tail of a truncated one, transitions follow the dynamics.
    rest = visits - _by_action(expert, states, actions, weight)
    return seen + dynamics.for_all_next(rest) * probs


def _by_action(expert: Expert, states: np.ndarray, actions: np.ndarray, weight: np.ndarray) -> Any:
    return jnp.zeros((expert.mdp.num_actions, expert.mdp.num_states)).at[actions, states].add(weight)


def _path(mdp: MDP, reward: AbstractReward) -> Plan:
    return plan_of("path", mdp, reward)
