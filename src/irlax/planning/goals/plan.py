"""The result of planning towards goals."""

from typing import Any

import equinox as eqx
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.mdp.grid import state_names
from irlax.planning.fixed_point import NoFixedPointError
from irlax.planning.goals.diagnosis import explanation
from irlax.planning.goals.options import Options
from irlax.planning.goals.planner import GoalBlock, GoalPlanner
from irlax.planning.goals.shared import SharedPattern
from irlax.planning.plan import checked_reward
from irlax.typing import Float, Int, PRNGKeyArray
from irlax.user_warnings import warn_user

#: A backup's rounding error, in units of machine epsilon times the largest value.
ROUNDING = 8.0
#: Steps after which a simulated episode is given up.
MAX_LENGTH = 100_000


class GoalPlan(eqx.Module):
    """Values and policies of one reward for several goals. Policies are computed from values when asked for."""

    mdp: MDP
    reward: Float[np.ndarray, "R A"]
    goals: Int[np.ndarray, " G"]
    #: V of each state; −∞ from where a goal cannot be reached.
    value: Float[np.ndarray, "G S"]
    #: The values of each goal differ from the solution by at most this: certified.
    error_bound: Float[np.ndarray, " G"]
    #: The scale μ(s) of the choices in each state; None for 1 everywhere.
    scale: Float[np.ndarray, " S"] | None = None

    def index_of(self, goal: int) -> int:
        """The row of a goal in `value`."""
        found = np.flatnonzero(self.goals == goal)
        if not len(found):
            raise ValueError(f"The plan has no goal {goal}; its goals are {checks.some(self.goals.tolist())}.")
        return int(found[0])

    def plot(self, goal: int | None = None, *, title: str = "", ax: Any = None) -> Any:
        """The values towards a goal (the first unless given), as a matplotlib figure; see `MDP.plot`."""
        goal = int(self.goals[0]) if goal is None else goal
        value = self.value[self.index_of(goal)]
        return self.mdp.plot(value, name=f"value towards {state_names(self.mdp, [goal])[0]}", title=title, ax=ax)

    def __repr__(self) -> str:
        from irlax.planning.overview import goal_plan_text

        return goal_plan_text(self)

    def _repr_html_(self) -> str:
        from irlax.planning.overview import goal_plan_html

        return goal_plan_html(self)

    def log_policy(self, goal: int) -> Float[np.ndarray, "R A"]:
        """log π(a|s) on the way to a goal; NaN at the goal and where it cannot be reached; −∞ if not available."""
        options = Options.of(self.mdp, self.scale)
        return options.table(self.mdp, self.log_chances(options, goal), -np.inf)

    def log_chances(self, options: Options, goal: int) -> Float[np.ndarray, " J"]:
        """log π of each option, on the way to a goal."""
        value = self.value[self.index_of(goal)]
        with np.errstate(invalid="ignore"):
            ahead = np.where(np.isfinite(value), value, -1e300)
            q = self.reward[options.row, options.column] + options.discount * (options.transitions @ ahead)
            logs = np.where(q < -1e290, -np.inf, (q - value[options.state]) / options.scale[options.state])
        return np.where(np.isfinite(value[options.state]) & (options.state != goal), logs, np.nan)

    def policy(self, goal: int) -> Float[np.ndarray, "R A"]:
        """π(a|s) on the way to a goal."""
        return np.exp(self.log_policy(goal))


def goal_plan(mdp: MDP, reward: Any, goals: Any, *, scale: Any = None) -> GoalPlan:
    r"""Plans that end at goals, where nothing more is earned or chosen.

    $$Q_g(s,a) = r(s,a) + \gamma\,\mathbb{E}[V_g(S')], \quad
      V_g(s) = \log\textstyle\sum_a e^{Q_g(s,a)}, \quad V_g(g) = 0$$

    `goals` are states. With certain moves and γ = 1 one sparse factorisation serves all of them (see
    `irlax.planning.goals.shared`); else each has its own. `scale` is μ(s) > 0 for each state, in
    V = μ log Σ exp(Q/μ): the nested recursive logit.
    """
    goals = checked_goals(mdp, goals)
    scale = None if scale is None else checked_scale(mdp, scale)
    table = np.asarray(checked_reward(mdp, reward.table(mdp) if hasattr(reward, "table") else reward))
    if table.ndim == 1:
        table = np.repeat(table[mdp.state_of_row][:, None], mdp.table_shape[1], axis=1)
    planner = GoalPlanner.of(mdp, scale)
    rewards = table[planner.options.row, planner.options.column]
    value, bound = np.empty((len(goals), mdp.num_states)), np.empty(len(goals))
    try:
        for members, block in planner.blocks(rewards, goals):
            value[members], bound[members] = block.value.T, certified_error(planner, rewards, block)
    except NoFixedPointError as error:
        raise NoFixedPointError(f"{error} {_reason(planner, rewards, reward)}".rstrip()) from None
    if not np.isfinite(bound).all():
        lost = goals[~np.isfinite(bound)]
        warn_user(f"Values for goals {checks.some(lost.tolist())} could not be certified: digits were lost.")
    return GoalPlan(mdp, table, goals, value, bound, scale)


def _reason(planner: GoalPlanner, rewards: Float[np.ndarray, " J"], given: Any) -> str:
    """What each feature of a linear reward over states and actions has to do with it; else nothing."""
    features, pattern = getattr(given, "features", None), planner.pattern
    if features is None or np.ndim(features) != 3 or not isinstance(pattern, SharedPattern):
        return ""
    columns = np.asarray(features)[planner.options.row, planner.options.column]
    return explanation(pattern, rewards, columns, np.asarray(given.weights), given.parameter_names())


def checked_goals(mdp: MDP, goals: Any) -> Int[np.ndarray, " G"]:
    """Goals as states, each once."""
    goals = np.atleast_1d(checks.as_integers("goals", goals))
    checks.has_shape("goals", goals, (None,), "(G,), a state for each goal")
    checks.in_range("goals", goals, mdp.num_states, "states")
    repeated = np.bincount(goals, minlength=mdp.num_states) > 1
    if repeated.any():
        raise ValueError(f"`goals` must list each goal once, but lists {checks.places(repeated)} several times.")
    return goals


def checked_scale(mdp: MDP, scale: Any) -> Float[np.ndarray, " S"]:
    """Positive scales, one for each state."""
    scale = checks.as_floats("scale", scale)
    checks.has_shape("scale", scale, (mdp.num_states,), "(S,)")
    checks.finite("scale", scale)
    if (scale <= 0).any():
        raise ValueError(f"`scale` must be positive, but is not in states {checks.places(scale <= 0)}.")
    return np.asarray(scale, np.float64)


def certified_error(planner: GoalPlanner, reward: Float[np.ndarray, " J"], block: GoalBlock) -> Float[np.ndarray, " G"]:
    """ε·max(w) for each goal, if the backup maps [V − εw, V + εw] into itself, else ∞.

    w is the expected number of steps to the goal, discounted. From below this holds by convexity as soon as
    |TV − V| ≤ ε; from above it is checked.
    """
    value, size = block.value, len(planner.options.state)
    steps = block.tangents(np.ones((size, 1)))[0]
    finite = np.isfinite(value)
    largest = np.maximum(1.0, np.abs(np.where(finite, value, 0)).max(axis=0))
    rounding = ROUNDING * np.finfo(float).eps * largest
    residual = np.where(finite, _backup(planner, reward, block.goals, value) - np.where(finite, value, 0), 0)
    epsilon = 2 * np.abs(residual).max(axis=0) + 2 * rounding
    above = np.where(finite, np.where(finite, value, 0) + epsilon * steps, -np.inf)
    inside = (_backup(planner, reward, block.goals, above) <= above).all(axis=0)
    bound = epsilon * np.maximum(steps.max(axis=0), 1.0)
    return np.where(inside & (bound <= largest), bound, np.inf)


def _backup(
    planner: GoalPlanner, reward: Float[np.ndarray, " J"], goals: Int[np.ndarray, " G"], value: Float[np.ndarray, "S G"]
) -> Float[np.ndarray, "S G"]:
    """T V for each goal."""
    options = planner.options
    ahead = options.transitions @ np.where(np.isfinite(value), value, -1e300)
    logits = (reward[:, None] + options.discount * ahead) / options.scale[options.state][:, None]
    result = options.scale[:, None] * options.log_sum_exp(logits)
    result = np.where(result < -1e290, -np.inf, result)
    result[goals, np.arange(len(goals))] = 0.0
    return result


def simulate(
    plan: GoalPlan, starts: Int[np.ndarray, " N"], goals: Int[np.ndarray, " N"], key: PRNGKeyArray
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], Int[np.ndarray, " n"], Int[np.ndarray, " N"]]:
    """Episodes that follow a plan, one for each start and goal: states, actions, next states, and lengths."""
    rng = np.random.default_rng(np.asarray(jr.key_data(key)))
    options = Options.of(plan.mdp, plan.scale)
    parts = [_simulated(plan, options, int(goal), starts[goals == goal], rng) for goal in np.unique(goals)]
    order = np.argsort(np.concatenate([np.flatnonzero(goals == goal) for goal in np.unique(goals)]))
    lengths = np.concatenate([part[1] for part in parts])
    rows = np.concatenate([part[0] for part in parts])
    offsets = np.cumsum(lengths) - lengths
    begin = np.cumsum(lengths[order]) - lengths[order]
    index = np.arange(len(rows)) + np.repeat(offsets[order] - begin, lengths[order])
    states, actions, after = rows[index].T
    return states, actions, after, lengths[order]


def _simulated(
    plan: GoalPlan, options: Options, goal: int, starts: Int[np.ndarray, " N"], rng: np.random.Generator
) -> tuple[Int[np.ndarray, "n 3"], Int[np.ndarray, " N"]]:
    """Rows (state, action, next state) of episodes to one goal, episode by episode, and their lengths."""
    mdp, value = plan.mdp, plan.value[plan.index_of(goal)]
    lost = ~np.isfinite(value[starts])
    if lost.any():
        raise ValueError(f"Goal {goal} cannot be reached from states {checks.some(np.unique(starts[lost]).tolist())}.")
    begin = options.first
    sums = np.concatenate([[0.0], np.cumsum(np.nan_to_num(np.exp(plan.log_chances(options, goal))))])
    before, total = sums[begin[:-1]], np.diff(sums[begin])
    moves = options.transitions
    state, episode, rows, owner = starts.copy(), np.arange(len(starts)), [], []
    lengths = np.zeros(len(starts), int)
    for _ in range(MAX_LENGTH):
        active = state != goal
        state, episode = state[active], episode[active]
        if not len(state):
            break
        wanted = before[state] + rng.random(len(state)) * total[state]
        chosen = np.clip(np.searchsorted(sums[1:], wanted, side="right"), begin[state], begin[state + 1] - 1)
        after = next_states(moves, chosen, rng)
        _, action = mdp.rows.states_and_actions(options.row[chosen], options.column[chosen])
        rows.append(np.stack([state, np.asarray(action), after], axis=1))
        owner.append(episode)
        lengths[episode] += 1
        state = after
    else:
        raise ValueError(f"An episode did not reach goal {goal} within {MAX_LENGTH} steps.")
    by_episode = np.argsort(np.concatenate(owner), kind="stable") if owner else np.zeros(0, int)
    return (np.concatenate(rows)[by_episode] if rows else np.zeros((0, 3), int)), lengths


def next_states(moves: Any, chosen: Int[np.ndarray, " n"], rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    """A next state of each chosen option, at random by its probabilities."""
    picked = moves[chosen]
    if picked.nnz == len(chosen):
        return picked.indices.astype(np.int64)
    cumulative = np.cumsum(picked.data)
    before = np.concatenate([[0.0], cumulative])[picked.indptr[:-1]]
    total = np.concatenate([[0.0], cumulative])[picked.indptr[1:]] - before
    place = np.searchsorted(cumulative, before + rng.random(len(chosen)) * total, side="right")
    return picked.indices[np.clip(place, picked.indptr[:-1], picked.indptr[1:] - 1)].astype(np.int64)
