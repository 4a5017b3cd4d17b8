"""`irlax fit`: a fit from files, or in an environment, written to a folder."""

import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from irlax.cli.methods import ACTING, Method
from irlax.cli.options import (
    DATA,
    METHOD,
    RESULT,
    AsJson,
    FeatureNames,
    Features,
    Key,
    Reward,
    emit,
    option,
)

Objective = Literal["feature-matching", "discounted-likelihood", "likelihood"]
SolverName = Literal["auto", "newton", "lbfgs", "dual-ascent", "adam"]
Start = Literal["auto", "demos", "mdp"]


def fit(
    mdp: Annotated[
        str, typer.Argument(metavar="MDP|ENV", help="The MDP, an .npz file; or an environment, such as cartpole.")
    ],
    demos: Annotated[
        Path,
        typer.Argument(
            help="The demonstrations: a .csv, .parquet or .npz file; `expert` for those that come with irlax."
        ),
    ],
    *,
    out: Annotated[Path, option("--out", text="The folder to write the fit to.", panel=RESULT)],
    features: Features = None,
    feature_names: FeatureNames = None,
    reward: Reward = None,
    method: Annotated[Method, option("--method", text="The estimator.", panel=METHOD)] = "mce",
    objective: Annotated[
        Objective | None,
        option("--objective", text="What mce optimises; by default, feature-matching.", panel=METHOD),
    ] = None,
    solver: Annotated[SolverName | None, option("--solver", text="The solver; by default, auto.", panel=METHOD)] = None,
    l2: Annotated[
        str | None, option("--l2", text="The penalty ½·l2·‖θ‖²: a number, or cv for cross-validation.", panel=METHOD)
    ] = None,
    tol: Annotated[
        float | None, option("--tol", text="Stop when no entry of the gradient is larger.", panel=METHOD)
    ] = None,
    start: Annotated[
        Start | None,
        option("--start", text="The start distribution: of the demonstrations, or of the MDP.", panel=METHOD),
    ] = None,
    setting: Annotated[
        list[str] | None,
        option("--set", text="NAME=VALUE: another setting of the method or its parts; repeatable.", panel=METHOD),
    ] = None,
    key: Key = 0,
    episode: Annotated[str, option("--episode", text="Column of the individual.", panel=DATA)] = "episode",
    time: Annotated[str, option("--time", text="Column of t, from 0.", panel=DATA)] = "t",
    state: Annotated[str, option("--state", text="Column of the state.", panel=DATA)] = "state",
    action: Annotated[str, option("--action", text="Column of the action.", panel=DATA)] = "action",
    next_state: Annotated[
        str | None, option("--next-state", text="Column of the next state, if not `next_state`.", panel=DATA)
    ] = None,
    terminated: Annotated[
        str | None,
        option("--terminated", text="Column that says if an episode ended, if not `terminated`.", panel=DATA),
    ] = None,
    weight: Annotated[str | None, option("--weight", text="Column of weights, if not `weight`.", panel=DATA)] = None,
    goal: Annotated[
        str | None, option("--goal", text="Column of the goal of an episode, if not `goal`.", panel=DATA)
    ] = None,
    held_out: Annotated[
        Path | None, option("--held-out", text="Demonstrations to score, not to learn from.", panel=DATA)
    ] = None,
    resume: Annotated[
        bool, option("--resume", text="Continue the fit of the same problem in --out.", panel=RESULT)
    ] = False,
    tensorboard: Annotated[
        bool, option("--tensorboard", text="Also write TensorBoard's events, in an environment.", panel=RESULT)
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Learn a reward from demonstrations, print its summary, write it to a folder.

    \b
    irlax fit mdp.npz panel.parquet --features f.npy --out run
    irlax fit cartpole expert --method airl --out run

    If the dynamics are known, as an MDP in a file: give --features or
    --reward, and a --method that plans with them (by default, mce).

    If they are not known, in an environment that has a name (cartpole,
    pendulum, mountain-car, acrobot, point-maze, gymnasium:ID, …): give a
    --method that acts there, such as airl.

    Settings of the method are --set NAME=VALUE, those of its parts and of the
    environment have dotted names: --set reward.over=s --set rounds.num=100
    --set learner.discount=0.95 --set env.after_end=absorbing. Settings of
    continuous control to start from: --set recipe=control.

    Ctrl-C (or SIGTERM) writes the fit so far to --out, marked unfinished; the
    same command with --resume continues from it.

    An earlier fit in --out is replaced; a folder with other files is refused.

    \b
    MDP (.npz), made by `irlax mdp grid`, by `irlax.save_mdp` in Python, or by
    `numpy.savez` from these arrays:
      transitions   float S×A×S   P(s'|s,a); or else:
      successors    int   S×A×B   the next states that are possible
      probs         float S×A×B   their probabilities
      initial       float S       the distribution of the first state
      discount      number
      horizon       integer       decisions; -1 or left out: infinitely many
      available     bool  S×A     optional: which actions exist where
      layout        text  rows    optional: the drawing of a gridworld
      state_names   text  S       optional
      action_names  text  A       optional
      state_unit, action_unit, time_unit   optional: a text each
      places        float S×4     optional: x0, y0, x1, y1 of states on a map
      ends_at_goal  bool          optional: episodes end at goals of their own

    \b
    Demonstrations (.csv, .parquet), a row for each observed choice, in any
    order. If the columns have other names, give these by --episode and so on:
      episode       the individual or episode: integers or text
      t             the step's index in its episode, from 0
      state         0 to S-1
      action        0 to A-1
      next_state    optional
      terminated    optional: true if an absorbing state follows; if not,
                    the episode is truncated
      weight        optional: the same on all rows of an episode
      goal          optional: the state at which the episode ends, the same on
                    all of its rows; see also `irlax routes fit`
    Or .npz, as `irlax.write_demos` writes it. Nothing is ever unpickled.
    """
    from irlax.cli import fitting
    from irlax.estimators.store import check_target
    from irlax.interrupts import interruptible
    from irlax.status import Status

    check_target(out)
    names = {"episode": episode, "time": time, "state": state, "action": action}
    names |= {"next_state": next_state, "terminated": terminated, "weight": weight, "goal": goal}
    options = {"objective": objective, "solver": solver, "l2": l2, "tol": tol, "start": start}
    given = {name: value for name, value in options.items() if value is not None}
    choice = MethodChoice(method, given, fitting.parse_settings(setting or []), names, key)
    tabular = {"features": features, "feature_names": feature_names, "reward": reward}
    tabular |= {"held_out": held_out}
    if tensorboard and method not in ACTING:
        raise ValueError("--tensorboard applies to methods that act in an environment, such as --method airl.")
    with interruptible(signal.SIGINT, signal.SIGTERM) as interrupt:
        try:
            if method in ACTING:
                result = _fit_in_environment(
                    choice, mdp, demos, out, resume=resume, tensorboard=tensorboard, refused=tabular
                )
            else:
                result = _fit_in_mdp(choice, mdp, demos, out, resume=resume, **tabular)
        except KeyboardInterrupt:
            print("irlax: interrupted; nothing was written.", file=sys.stderr)
            raise typer.Exit(interrupt.exit_code) from None
    emit(result.summary(), result.describe(), as_json=as_json)
    raise typer.Exit(interrupt.exit_code if result.status is Status.INTERRUPTED else int(not result.converged))


class MethodChoice(NamedTuple):
    """The options that choose the method and its settings."""

    method: str
    options: dict[str, Any]
    settings: dict[str, str]
    #: The names of the columns of a table of demonstrations.
    columns: dict[str, Any]
    key: int


def _fit_in_mdp(
    choice: MethodChoice,
    mdp: str,
    demos: Path,
    out: Path,
    *,
    features: Path | None,
    feature_names: str | None,
    reward: Any,
    held_out: Path | None,
    resume: bool,
) -> Any:
    """The fit in an MDP, written to `out`."""
    from irlax.cli import fitting, inputs

    estimator = fitting.estimator_of(choice.method, choice.options, choice.settings)
    problem = inputs.read(
        mdp, demos, held_out, names=choice.columns, features=features, feature_names=feature_names, over=reward
    )
    previous = None
    if resume:
        from irlax.cli import resuming

        previous = resuming.previous_fit(out, estimator, problem, choice.key)
    if previous is None or not previous.finished:
        result = fitting.run(estimator, problem, key=choice.key, previous=None if previous is None else previous.fit)
    elif problem.held_out is None:
        return previous.fit
    else:
        result = previous.scored(problem.held_out)
    result.save(out)
    return result


def _fit_in_environment(
    choice: MethodChoice,
    env: str,
    demos: Path,
    out: Path,
    *,
    resume: bool,
    tensorboard: bool,
    refused: dict[str, Any],
) -> Any:
    """The fit in an environment, written to `out`."""
    from irlax.cli import fitting, sampling
    from irlax.loggers import TensorBoard
    from irlax.run_folder import RunFolder

    sampling.refuse(refused, choice.method)
    env_settings = fitting.take_env_settings(choice.settings)
    estimator = fitting.estimator_of(choice.method, choice.options, choice.settings)
    task = sampling.read(env, demos, estimator, env_settings, choice.columns)
    folder = RunFolder(out, resume=resume, loggers=(TensorBoard(),) if tensorboard else ())
    result = sampling.run(estimator, task, folder, key=choice.key)
    result.save(out)
    return result
