"""Rewards that drift: a random walk of the reward's parameters, over steps or over episodes."""

import dataclasses
import time
import warnings
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.linalg import null_space

from irlax import checks
from irlax.analysis.standard_errors import hidden, null_directions, without_rounding
from irlax.demos import Demonstrations
from irlax.estimators.mixed.drifting_evidence import (
    Sized,
    at_sizes,
    log_size_errors,
    maximise_evidence,
    sizes_and_weights,
)
from irlax.estimators.mixed.drifting_fit import DriftingFit
from irlax.estimators.mixed.drifting_model import Drift, Mode, local
from irlax.estimators.mixed.drifting_periods import Clock, Over, checked_clock, group_periods
from irlax.estimators.tabular.components import Certificate
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Start
from irlax.estimators.tabular.mce import MCEIRL
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.iteration import Callback, History, Session, Watch
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.status import Status, UnfinishedWarning, warn_unless_success
from irlax.typing import Bool, Float, Int

Sizes = float | tuple[float, ...] | Literal["each", "common"]


def _sizes(given: Any) -> Any:
    """Sizes of drift as plain numbers, also from an array."""
    if isinstance(given, str) or np.ndim(given) == 0:
        return given.item() if isinstance(given, np.generic) else given
    return tuple(checks.as_floats("drift", given).ravel().tolist())


@stored("drifting-irl")
class DriftingIRL(AbstractTabularIRL):
    r"""Infer a reward whose parameters drift, how fast they do, and whether they do at all.

    $$\theta_t = \theta_{t-1} + \varepsilon_t, \qquad \varepsilon_{tk} \sim N(0, \sigma_k^2), \qquad
      a_{it} \sim \pi_{\theta_t}(\cdot \mid s_{it})$$

    In each period the person is soft-optimal for the present θ as if it would stay: nobody plans for a change of their
    own reward. Ashwood, Jha and Pillow (2022) infer such rewards; the size σ is estimated as Roy et al. (2021) estimate
    the drift of psychophysical weights, by maximising the evidence, the probability of the choices with all θ
    integrated out by Laplace's approximation. The paths are the mode of the posterior, found by Newton's method in
    O(periods·K³), and bands come from its inverse Hessian.

    `over` says what time is: the steps of an episode, or the episodes of an individual, in their order. θ is constant
    for `every` steps or episodes. With `shared` all individuals have one path; else each has its own, with the same σ.

    `drift` is σ: "each" estimates one for each parameter, "common" one for all (in units of the reward: σ_k times the
    largest absolute value of feature k); numbers fix it, and 0 is `MCEIRL`. `first` is the standard deviation of a
    normal prior of θ in the first period, with mean 0; None is a flat prior, which paths of individuals' own cannot
    have. `tol` bounds the derivatives of the log evidence in log σ. `start` is as in `MCEIRL`.
    """

    over: Over = "steps"
    every: int = 1
    shared: bool = True
    drift: Sizes = eqx.field(converter=_sizes, default="each")
    first: float | None = None
    tol: float = 1e-3
    max_steps: int = 100
    start: Start = "auto"
    progress: bool | None = None

    def __check_init__(self) -> None:
        checked_clock(self.over, self.every, self.shared)
        if isinstance(self.drift, str):
            checks.one_of("drift", self.drift, ("each", "common"))
        else:
            for size in np.atleast_1d(self.drift):
                checks.positive("drift", size, zero=True)
        if self.first is not None:
            checks.positive("first", self.first)
        elif not self.shared:
            raise ValueError(
                "With `shared=False` an individual may have too few choices to estimate its first reward by itself: "
                "give `first=`, the standard deviation of its normal prior, such as `first=3.0`."
            )
        checks.positive("tol", self.tol)
        checks.count("max_steps", self.max_steps)
        checks.one_of("start", self.start, ("auto", "demos", "mdp"))

    @property
    def maximises_likelihood(self) -> bool:
        return False

    @property
    def clock(self) -> Clock:
        """What a period is."""
        return Clock(self.over, self.every, self.shared)

    def settings(self) -> list[tuple[str, Any]]:
        drift = (
            self.drift if isinstance(self.drift, str) else ", ".join(f"{size:g}" for size in np.atleast_1d(self.drift))
        )
        first = "flat" if self.first is None else self.first
        names = ("over", "every", "shared", "drift", "first")
        return list(zip(names, (self.over, self.every, self.shared, drift, first), strict=True))

    def fit(
        self,
        mdp: MDP,
        reward: AbstractReward,
        demos: Demonstrations,
        *,
        individual: Any = None,
        held_out: Demonstrations | None = None,
        callback: Callback | None = None,
    ) -> DriftingFit:
        """Learn the path of the reward's parameters from demonstrations.

        `individual` labels the individual of each episode. Without it, over steps each episode is an individual; over
        episodes all are of one individual, in the order in which they are given. `held_out` episodes are scored (see
        `DriftingFit.score`) and never learned from. `callback` receives every iterate of σ, and may return True.
        """
        started = time.perf_counter()
        if not isinstance(mdp, MDP) or not isinstance(demos, Demonstrations):
            raise TypeError("A drifting reward is fitted to one MDP and Demonstrations.")
        if demos.goals is not None:
            raise ValueError("A drifting reward is fitted to demonstrations without goals of their own.")
        self._group(reward.bind(mdp).num_parameters)
        unknown = individual is not None if self.over == "episodes" else getattr(held_out, "labels", None) is None
        if held_out is not None and not self.shared and unknown:
            raise ValueError(
                "Where individuals have paths of their own, each held-out episode must name its individual: leave "
                "`held_out` out, and call `score(demos, individual=...)` of the fit."
            )
        constant = self._constant(mdp, reward, demos)
        with scope():
            problem = self._problem(constant, individual)
            with Session(type(self).__name__, total=self.max_steps, watch=Watch(self.progress, callback)) as session:
                fit = self._search(problem, constant, session, started)
        if held_out is not None:
            total = fit.score(held_out) * float(held_out.choice_weights.sum())
            fit = dataclasses.replace(fit, held_out_log_likelihood=total)
        warn_unless_success(fit.status, fit.reason)
        return fit

    def _constant(self, mdp: MDP, reward: AbstractReward, demos: Demonstrations) -> TabularFit:
        """The fit of one reward for all individuals and times, where the search starts."""
        l2 = 0.0 if self.first is None else 1 / (self.first**2 * float(demos.weights.sum()))
        estimator = MCEIRL(objective="likelihood", l2=l2, start=self.start, progress=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfinishedWarning)
            fit = estimator.fit(mdp, reward, demos)
        assert isinstance(fit, TabularFit)
        return fit

    def _problem(self, constant: TabularFit, individual: Any) -> "Problem":
        """The model in the coordinates that the data identify."""
        expert, reward = constant.experts[0], constant.reward
        demos, clock = expert.demos, self.clock
        assert demos is not None
        labels, path = clock.paths(demos, individual)
        period = clock.periods(demos, clock.individuals(demos, individual)[1])
        periods = group_periods(expert.mdp, demos, path[demos.episode], period, clock)
        scale, theta = reward.scales(expert.mdp), flat(reward.parameters)
        x, size = theta * scale, len(theta)
        parts = (expert.mdp, reward.fold(expert.mdp), periods, Flattening.of(reward.parameters))
        whole = Drift(
            *parts, *map(jnp.asarray, (np.zeros(size), np.eye(size), scale, self._precision(scale, np.eye(size))))
        )
        start = jnp.broadcast_to(jnp.asarray(x), (periods.num_paths, periods.num_periods, size))
        # Along directions that no choice depends on the likelihood is constant, at these parameters and at others.
        hessian = without_rounding(np.asarray(local(whole, start, whole.initial_values()).curvature).sum(axis=(0, 1)))
        nothing = null_directions(hessian) if constant.converged else []
        rest = (labels, hidden(hessian), self._group(size))
        if not len(nothing):
            return Problem(whole, x, *rest)
        basis = null_space(nothing)
        reduced = (x - basis @ (basis.T @ x), basis, scale, self._precision(scale, basis))
        return Problem(Drift(*parts, *map(jnp.asarray, reduced)), basis.T @ x, *rest)

    def _precision(self, scale: Float[np.ndarray, " K"], basis: Float[np.ndarray, "K r"]) -> Float[np.ndarray, "r r"]:
        """The prior precision of the first period, in coordinates z of scaled parameters."""
        if self.first is None:
            return np.zeros((basis.shape[1], basis.shape[1]))
        return np.linalg.inv(basis.T @ np.diag((self.first * scale) ** 2) @ basis)

    def _group(self, num_parameters: int) -> Int[np.ndarray, " K"]:
        """The group of each parameter: parameters of one group have the same size of drift."""
        if not isinstance(self.drift, str) and np.size(self.drift) not in (1, num_parameters):
            raise ValueError(
                f"`drift` must be one number, or one for each of the {num_parameters} parameters, but has "
                f"{np.size(self.drift)}."
            )
        return np.zeros(num_parameters, int) if self.drift == "common" else np.arange(num_parameters)

    def _search(self, problem: "Problem", constant: TabularFit, session: Session, started: float) -> DriftingFit:
        """The paths at the best size of drift, or at the given one."""
        drift, group = problem.drift, problem.group
        unmoved = at_sizes(drift, group, np.zeros(int(group.max(initial=0)) + 1), problem.start)
        best, status, free = unmoved, constant.status, ()
        if constant.converged and drift.num_free:
            if isinstance(self.drift, str):
                best, status = maximise_evidence(drift, group, unmoved, session, tol=self.tol, max_steps=self.max_steps)
                free = tuple(int(g) for g in np.flatnonzero(best.sizes))
            else:
                sizes = np.broadcast_to(self.drift, len(group)) * np.asarray(drift.scale)
                best, status = at_sizes(drift, group, sizes, problem.start), Status.CONVERGED
            if not best.mode.converged:
                status = Status.STALLED
        return self._result(problem, constant, Outcome(best, unmoved, free, status), session, started)

    def _result(
        self, problem: "Problem", constant: TabularFit, outcome: "Outcome", session: Session, started: float
    ) -> DriftingFit:
        """The fit, in the units of the reward's parameters."""
        best, unmoved, free, status = outcome
        drift, group = problem.drift, problem.group
        scale = np.asarray(drift.scale)
        known = status.success and not np.isnan(np.asarray(best.mode.walk.log_det)).any()
        variances = np.full((*best.mode.z.shape[:2], len(group)), np.nan)
        by_size, log_errors = np.zeros(variances.shape), np.full(len(best.sizes), np.nan)
        if known and drift.num_free:
            variances = _variances(drift, best.mode)
            if isinstance(self.drift, str):
                log_errors = log_size_errors(drift, group, best, free)
                by_size = _added_by_sizes(problem, best, log_errors)
            variances[..., problem.hidden] = np.nan
        found = best.sizes[group] / scale
        return DriftingFit(
            estimator=self,
            reward=constant.reward,
            expert=constant.experts[0],
            individuals=problem.labels,
            paths=np.asarray(drift.parameters(best.mode.z)),
            variances=variances,
            size_variances=by_size,
            drift=np.where(problem.hidden, np.nan, found) if constant.converged else found,
            drift_log_errors=log_errors[group],
            constant=np.asarray(drift.parameters(unmoved.mode.z[:, 0])),
            log_evidence=best.evidence,
            constant_log_evidence=unmoved.evidence,
            log_likelihood=best.mode.log_likelihood,
            constant_log_likelihood=unmoved.mode.log_likelihood,
            status=status,
            certificate=Certificate(
                float(session.history[-1].gradient) if session.history else 0.0, newton_decrement=best.mode.decrement
            ),
            history=History.of(session.history),
            seconds=time.perf_counter() - started,
            reason=_reason(status, constant),
        )


class Outcome(NamedTuple):
    """The paths that were found, those without a drift, the groups whose size was estimated, and how it ended."""

    best: Sized
    unmoved: Sized
    free: tuple[int, ...]
    status: Status


class Problem(NamedTuple):
    """The model of a fit, and where its search starts."""

    drift: Drift
    start: Float[np.ndarray, " r"]
    labels: np.ndarray
    #: The parameters that change along a direction that the data do not identify.
    hidden: Bool[np.ndarray, " K"]
    group: Int[np.ndarray, " K"]


def _variances(drift: Drift, mode: Mode) -> Float[np.ndarray, "U B K"]:
    """Posterior variances of θ at a given size of drift."""
    basis = np.asarray(drift.basis) / np.asarray(drift.scale)[:, None]
    return np.einsum("ki,utij,kj->utk", basis, mode.covariance(), basis)


def _added_by_sizes(problem: Problem, best: Sized, log_errors: Float[np.ndarray, " G"]) -> Float[np.ndarray, "U B K"]:
    """What the uncertainty about each size adds to the variances, the others held at their estimates."""
    drift, group = problem.drift, problem.group
    at_best, centre = _variances(drift, best.mode), np.asarray(drift.parameters(best.mode.z))
    added = np.zeros_like(at_best)
    for g in np.unique(group[~problem.hidden]):
        error = np.inf if np.isnan(log_errors[g]) else float(log_errors[g])
        for weight, point in sizes_and_weights(drift, group, best, int(g), error):
            away = np.asarray(drift.parameters(point.mode.z)) - centre
            added += weight * (_variances(drift, point.mode) - at_best + away**2)
    return np.maximum(added, 0.0)


def _reason(status: Status, constant: TabularFit) -> str:
    """What is wrong and what to do, if the status is not a success."""
    if status.success:
        return ""
    if not constant.converged:
        return (
            f"A constant reward, at which the search starts, {constant.status.value}. Give `first=`, the standard "
            f"deviation of a normal prior of the first reward, such as `first=3.0`."
        )
    if status is Status.MAX_STEPS:
        return "Raise `max_steps`, or fix the size of the drift: `drift=0.1`."
    return "Try larger periods (`every=`), `drift='common'`, or a prior of the first reward (`first=`)."
