"""`irlax fit`: from files to a fit on disk."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from irlax.cli.options import (
    DATA,
    METHOD,
    RESULT,
    AsJson,
    FeatureNames,
    Features,
    Key,
    MDPPath,
    Reward,
    emit,
    option,
)

Method = Literal["mce", "maxent", "apprenticeship", "bayesian", "two-step"]
Objective = Literal["feature-matching", "discounted-likelihood", "likelihood"]
SolverName = Literal["auto", "newton", "lbfgs", "dual-ascent", "adam"]
Start = Literal["auto", "demos", "mdp"]


def fit(
    mdp: MDPPath,
    demos: Annotated[Path, typer.Argument(help="The demonstrations: a .csv, .parquet or .npz file.")],
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
    solver: Annotated[SolverName | None, option("--solver", text="How; by default, auto.", panel=METHOD)] = None,
    l2: Annotated[
        str | None, option("--l2", text="A penalty ½·l2·‖θ‖², or cv: by cross-validation.", panel=METHOD)
    ] = None,
    tol: Annotated[
        float | None, option("--tol", text="Stop when no entry of the gradient is larger.", panel=METHOD)
    ] = None,
    start: Annotated[
        Start | None, option("--start", text="Where the model starts: as the demos do, or the MDP.", panel=METHOD)
    ] = None,
    setting: Annotated[
        list[str] | None,
        option("--set", text="NAME=VALUE: another setting of the method or its solver. Repeat.", panel=METHOD),
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
        str | None, option("--terminated", text="Column of whether it ended, if not `terminated`.", panel=DATA)
    ] = None,
    weight: Annotated[str | None, option("--weight", text="Column of weights, if not `weight`.", panel=DATA)] = None,
    held_out: Annotated[
        Path | None, option("--held-out", text="Demonstrations to score, not to learn from.", panel=DATA)
    ] = None,
    resume: Annotated[bool, option("--resume", text="Go on from the unfinished fit in --out.", panel=RESULT)] = False,
    as_json: AsJson = False,
) -> None:
    """Learn a reward from demonstrations, print its summary, write it to a folder.

    \b
    irlax fit mdp.npz panel.parquet --features f.npy --out run

    Give --features or --reward. Ctrl-C leaves the best iterate so far in
    --out, marked unfinished; the same command with --resume goes on from it.
    A fit that was in --out before is replaced, anything else never is.

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
      layout        text  rows    optional: a gridworld, drawn
      state_names   text  S       optional
      action_names  text  A       optional

    \b
    Demonstrations (.csv, .parquet), a row for each observed choice, in any
    order. If the columns have other names, say so with --episode and so on:
      episode       the individual or episode: integers or text
      t             the step's index in its episode, from 0
      state         0 to S-1
      action        0 to A-1
      next_state    optional
      terminated    optional: true if an absorbing state follows; if not,
                    the episode is truncated
      weight        optional: the same on all rows of an episode
    Or .npz, as `irlax.write_demos` writes it. Nothing is ever unpickled.
    """
    from irlax.cli import fitting, inputs
    from irlax.cli.describe import description
    from irlax.estimators.tabular.storage import check_target, save_fit

    check_target(out)
    names = {"episode": episode, "time": time, "state": state, "action": action}
    names |= {"next_state": next_state, "terminated": terminated, "weight": weight}
    options = {"objective": objective, "solver": solver, "l2": l2, "tol": tol, "start": start}
    given = {name: value for name, value in options.items() if value is not None}
    estimator = fitting.estimator_of(method, given, setting or [])
    problem = inputs.read(
        mdp, demos, held_out, names=names, features=features, feature_names=feature_names, over=reward
    )
    earlier = fitting.earlier(out, estimator, problem) if resume else None
    if earlier is not None and earlier.converged:
        result = earlier
    else:
        result = fitting.run(estimator, problem, key=key, earlier=earlier)
        file = problem.file
        save_fit(result, out, layout=file.layout, state_names=file.state_names, action_names=file.action_names)
    emit(result.summary(), description(result), as_json=as_json)
    raise typer.Exit(fitting.exit_code(result))
