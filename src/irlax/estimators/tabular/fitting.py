"""What the gradient-based tabular estimators share: from objectives to a finished fit."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.status import Status, complain
from irlax.estimators.tabular.existence import Search, optimum_exists
from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.fit import Certificate, Extra, History, TabularFit, total_log_likelihood
from irlax.estimators.tabular.objectives import AbstractObjective
from irlax.estimators.tabular.problem import Evaluation, Flattening, Problem, largest
from irlax.estimators.tabular.solvers import DENSE_HESSIAN, AbstractSolver, Iterate, Minimum, Newton, Watch
from irlax.estimators.tabular.trust_region import exact_step, steihaug_step
from irlax.estimators.tabular.undiscounted import start_where_values_exist
from irlax.mdp import MDP
from irlax.planning import Plan
from irlax.precision import scope
from irlax.progress import progress
from irlax.rewards import AbstractReward, TabularReward
from irlax.rewards.reward import flat
from irlax.typing import Float

#: A quasi-Newton step this short, in units of the features, tells the Newton decrement well enough.
NEAR = 0.03
#: Log units below the maximum that the noise of an efficient estimator does not explain: the maximum would reject it at
#: the 5% level (χ² with one degree of freedom, halved).
FAR_BELOW = 1.92
#: Newton steps to the maximum, where its distance is asked for.
TO_THE_TOP = 30


def matched(
    mdp: MDP | Sequence[MDP],
    reward: AbstractReward | Sequence[AbstractReward],
    demonstrator: Any,
    occupancy: Any,
    start: Start,
) -> tuple[tuple[AbstractReward, ...], tuple[Expert, ...]]:
    """One reward and one expert for each MDP, all rewards with the same parameters."""
    several = not isinstance(mdp, MDP)
    mdps = list(mdp) if isinstance(mdp, Sequence) else [mdp]
    for given in mdps:
        if not isinstance(given, MDP):
            raise TypeError(f"`mdp` must be an MDP or a list of them, but is a {type(given).__name__}.")

    def one_for_each(name: str, things: Any) -> list[Any]:
        if not several or things is None:
            return [things] * len(mdps)
        if not isinstance(things, (list, tuple)) or len(things) != len(mdps):
            raise TypeError(f"With {len(mdps)} MDPs, `{name}` must be a list of as many.")
        return list(things)

    rewards = list(reward) if isinstance(reward, Sequence) else [reward] * len(mdps)
    if len(rewards) != len(mdps):
        raise TypeError(f"With {len(mdps)} MDPs, `reward` must be one reward, or a list of as many.")
    for given in rewards:
        if not isinstance(given, AbstractReward):
            raise TypeError(
                f"`reward` must be a reward to learn, such as LinearReward(features), but is a {type(given).__name__}."
            )
    bound = tuple(given.bind(mdp) for given, mdp in zip(rewards, mdps, strict=True))
    if len({given.num_parameters for given in bound}) > 1:
        raise ValueError("The rewards of several MDPs must share their parameters, but differ in how many they have.")
    for given, problem in zip(bound, mdps, strict=True):
        _refuse_reward_after_the_end(given, problem)
    demonstrators = one_for_each("demos", demonstrator)
    occupancies = one_for_each("occupancy", occupancy)
    experts = [Expert.of(*parts, start) for parts in zip(mdps, demonstrators, occupancies, strict=True)]
    return bound, tuple(experts)


def matched_one_by_one(
    mdp: Any, reward: Any, demos: Any, occupancy: Any, start: Start
) -> list[tuple[tuple[AbstractReward, ...], tuple[Expert, ...]]]:
    """As `matched`, a problem for each demonstrator; an MDP or a reward that is not in a list serves for all."""
    given = demos if occupancy is None else occupancy
    if not isinstance(given, (list, tuple)) or not given or (demos is None) == (occupancy is None):
        raise TypeError("Pass a list of demonstrators, or a list as `occupancy=`: exactly one of them.")

    def for_each(name: str, thing: Any) -> list[Any]:
        if not isinstance(thing, (list, tuple)):
            return [thing] * len(given)
        if len(thing) != len(given):
            raise ValueError(f"`{name}` lists {len(thing)}, but there are {len(given)} demonstrators.")
        return list(thing)

    mdps, rewards = for_each("mdp", mdp), for_each("reward", reward)
    bound: dict[tuple[int, int], Any] = {}
    cases = []
    for one, learned, demonstrator in zip(mdps, rewards, given, strict=True):
        pair = (demonstrator, None) if occupancy is None else (None, demonstrator)
        case = matched(one, bound.get((id(one), id(learned)), learned), *pair, start)
        # Bound once for each MDP, so that what problems share is seen to be shared.
        bound[id(one), id(learned)] = case[0][0]
        cases.append(case)
    return cases


def minimised(
    objectives: Sequence[AbstractObjective],
    rewards: tuple[AbstractReward, ...],
    experts: tuple[Expert, ...],
    *,
    method: str,
    settings: tuple[tuple[str, Any], ...],
    solver: AbstractSolver,
    l2: float,
    tol: float,
    convex: bool,
    plan: Callable[[MDP, AbstractReward], Plan],
    gap: Callable[[Any, Float[np.ndarray, " K"]], Float[np.ndarray, " K"]] | None,
    held_out: Demonstrations | None,
    shown: bool | None,
    callback: Callable[[Iterate], None] | None,
    began: float,
    missing_mass: float = 0.0,
    extras: tuple[Extra, ...] = (),
) -> TabularFit:
    """Minimise the objectives together, then gather everything about the one θ that was found.

    `gap` is told θ and the slope of the objective there, without its penalty. `began` is when the user's call did, by
    `time.perf_counter`.
    """
    problem, first = posed(objectives, rewards, experts, l2)
    with progress(method, getattr(solver, "max_steps", None), shown=shown) as bar:

        def tell(iterate: Iterate) -> None:
            bar.update(iterate.step, f"loss {iterate.loss:.6g}  gradient {iterate.gradient:.2g}")

        listeners = (tell,) if callback is None else (tell, callback)
        found = solver.minimise(problem, first, Watch(problem, tol, listeners))
    arrived = float(largest(found.at.gradient, np.asarray(problem.scale))) <= tol
    search = Search(problem, rewards, experts, found.at, arrived or found.status.success)
    status, certificate = judged(search, found, l2=l2, convex=convex)
    theta = problem.flattening.unflatten(jnp.asarray(found.at.x / np.asarray(problem.scale)))
    learned = tuple(reward.with_parameters(on_host(theta)) for reward in rewards)
    plans = tuple(plan(expert.mdp, reward) for expert, reward in zip(experts, learned, strict=True))
    observed = all(expert.recorded is not None for expert in experts)
    plans_and_experts = list(zip(plans, experts, strict=True))
    fit = TabularFit(
        method=method,
        settings=settings,
        rewards=learned,
        plans=plans,
        experts=experts,
        status=status,
        feature_gap=None if gap is None else gap(theta, problem.raw_gradient(found.at.gradient) - l2 * flat(theta)),
        certificate=certificate,
        log_likelihood=sum(total_log_likelihood(*pair) for pair in plans_and_experts) if observed else None,
        held_out_log_likelihood=None if held_out is None else _held_out(plans, experts, held_out),
        history=History(
            np.array([iterate.loss for iterate in found.history]),
            np.array([iterate.gradient for iterate in found.history]),
        ),
        seconds=time.perf_counter() - began,
        missing_mass=missing_mass,
        extras=extras,
    )
    complain(status, _advice(status, certificate, tol))
    return fit


def _advice(status: Status, certificate: Certificate, tol: float) -> str:
    if status is Status.UNBOUNDED:
        return "Pass `l2=` (say 1e-3) for a finite one."
    if status is Status.UNCERTAIN:
        return "Pass `l2=` (say 1e-6) for an objective that has one."
    if status is Status.FAR_BELOW:
        return (
            f"Its log likelihood is {certificate.below_maximum:.3g} below the maximum. Take more steps "
            f"(`iterations=None`), or maximise the likelihood with MCEIRL(objective='likelihood')."
        )
    return f"Its largest gradient is {certificate.gradient:.2g}, the tolerance {tol:.2g}."


def posed(
    objectives: Sequence[AbstractObjective],
    rewards: tuple[AbstractReward, ...],
    experts: tuple[Expert, ...],
    l2: float,
) -> tuple[Problem, Float[np.ndarray, " K"]]:
    """The problem in scaled parameters, and where it starts: at the reward's own parameters, if it has values there."""
    weights = np.array([expert.weight for expert in experts])
    scale = np.max([reward.scales(expert.mdp) for reward, expert in zip(rewards, experts, strict=True)], axis=0)
    problem = Problem(
        tuple(objectives),
        jnp.asarray(weights / weights.sum()),
        Flattening.of(rewards[0].parameters),
        jnp.asarray(scale),
        jnp.asarray(l2),
    )
    return problem, start_where_values_exist(problem, flat(rewards[0].parameters) * scale, rewards)


def judged(search: Search, found: Minimum, *, l2: float, convex: bool) -> tuple[Status, Certificate]:
    """Whether an optimum was found, and how far it can be."""
    certificate = _certified(search, found, l2=l2, convex=convex)
    status = found.status
    if status is Status.STEPS_TAKEN:
        # Such an estimate is no optimum itself: whether there is one is asked where the likelihood is highest.
        top = Newton(max_steps=TO_THE_TOP).go_on(search.problem, search.at, Watch(search.problem, 1e-8, ())).at
        certificate, status = _measured(search, top, certificate)
        search = search._replace(at=top)
    linear = all(reward.is_linear for reward in search.rewards)
    if status is Status.PLATEAU and linear:
        # Where the loss hardly falls the gradient can be anything; only of networks can nothing better be asked.
        status = Status.STALLED
    if l2 > 0 or not linear or not np.isfinite(search.at.loss):
        return status, certificate
    exists = optimum_exists(search)
    if exists is False:
        return Status.UNBOUNDED, certificate
    return (Status.UNCERTAIN if exists is None and status.success else status), certificate


def _measured(search: Search, top: Evaluation, certificate: Certificate) -> tuple[Certificate, Status]:
    """How far below its maximum an estimate leaves the log likelihood, whose maximum it was not made for."""
    below = max(0.0, search.at.loss - top.loss) * sum(expert.weight for expert in search.experts)
    measured = eqx.tree_at(lambda it: it.below_maximum, certificate, below, is_leaf=lambda leaf: leaf is None)
    return measured, Status.FAR_BELOW if below > FAR_BELOW else Status.STEPS_TAKEN


def _certified(search: Search, found: Minimum, *, l2: float, convex: bool) -> Certificate:
    problem, at, gradient = search.problem, search.at, search.at.gradient
    size, raw = float(largest(gradient, np.asarray(problem.scale))), problem.raw_gradient(gradient)
    if l2 > 0:
        return Certificate(size, duality_gap=float(raw @ raw) / (2 * l2) if convex else None)
    if not np.isfinite(at.loss) or len(gradient) > 10 * DENSE_HESSIAN:
        return Certificate(size)
    estimate = found.quasi_newton_step
    if estimate is not None and np.abs(estimate).max(initial=0.0) < NEAR:
        return Certificate(size, newton_decrement=-float(estimate @ gradient) / 2)
    if len(gradient) <= DENSE_HESSIAN:
        return Certificate(size, newton_decrement=exact_step(problem.hessian(at), gradient, np.inf)[1])
    step = steihaug_step(lambda v: problem.hessian_product(at, v), gradient, 1e6)
    return Certificate(size, newton_decrement=step[1])


def _held_out(plans: Sequence[Plan], experts: tuple[Expert, ...], held_out: Demonstrations) -> float:
    if len(experts) != 1 or not isinstance(held_out, Demonstrations):
        raise TypeError("`held_out` must be Demonstrations, for a fit to one MDP.")
    (plan,), (expert,) = plans, experts
    return total_log_likelihood(plan, Expert.of(expert.mdp, held_out, None, "mdp"))


def _refuse_reward_after_the_end(reward: AbstractReward, mdp: MDP) -> None:
    if mdp.terminal is None:
        return
    with scope():
        probe = np.random.default_rng(0).normal(size=reward.num_parameters)
        tree = Flattening.of(reward.parameters).unflatten(jnp.asarray(probe))
        paid = np.asarray(reward.fold(mdp)(tree)).T * np.asarray(mdp.available)
    if np.abs(paid[np.asarray(mdp.terminal)]).max() == 0 or _is_free_table(reward):
        return
    if not reward.is_linear:
        raise ValueError(
            f"discount = 1 with no horizon: a reward must be 0 in absorbing states, where it would be earned for ever, "
            f"and a {type(reward).__name__} is not. Give a horizon, or discount."
        )
    raise ValueError(
        "discount = 1 with no horizon: features must be 0 in absorbing states, where a reward would be earned for "
        "ever. Set those rows to 0, give a horizon, or discount."
    )


def _is_free_table(reward: AbstractReward) -> bool:
    """A tabular reward's entries in absorbing states are free, have no effect, and stay at their start, 0."""
    return isinstance(reward, TabularReward)


def on_host(tree: Any) -> Any:
    """The tree with NumPy arrays for its leaves."""
    return jax.tree.map(np.asarray, tree)


def settings_of(estimator: eqx.Module, *names: str) -> tuple[tuple[str, Any], ...]:
    """The named fields of an estimator, for its summary."""
    shown = []
    for name in names:
        value = getattr(estimator, name)
        shown.append((name, value if isinstance(value, (str, int, float)) else type(value).__name__))
    return tuple(shown)
