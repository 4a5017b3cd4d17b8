"""`irlax fit`: from files to a fit on disk."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Method = Literal["mce", "maxent", "apprenticeship", "bayesian", "two-step"]
Objective = Literal["feature-matching", "discounted-likelihood", "likelihood"]
SolverName = Literal["auto", "newton", "lbfgs", "dual-ascent", "adam"]
Over = Literal["s", "sa", "sas"]
Start = Literal["auto", "demos", "mdp"]

_DATA, _REWARD, _METHOD, _OUTPUT = "The data", "The reward", "The method", "The result"


def _option(*names: str, text: str, panel: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel)


def fit(
    mdp: Annotated[Path, typer.Argument(help="The MDP: an .npz file.")],
    demos: Annotated[Path, typer.Argument(help="The demonstrations: a .csv, .parquet or .npz file.")],
    *,
    out: Annotated[Path, _option("--out", text="The folder to write the fit to.", panel=_OUTPUT)],
    features: Annotated[
        Path | None,
        _option("--features", text="A linear reward in these features: .npy, S×K, S×A×K or S×A×S×K.", panel=_REWARD),
    ] = None,
    feature_names: Annotated[
        str | None, _option("--feature-names", text="Names of the K features, with commas between.", panel=_REWARD)
    ] = None,
    reward: Annotated[
        Over | None,
        _option("--reward", text="A tabular reward over states, state–actions or transitions.", panel=_REWARD),
    ] = None,
    method: Annotated[Method, _option("--method", text="The estimator.", panel=_METHOD)] = "mce",
    objective: Annotated[
        Objective | None,
        _option("--objective", text="What mce optimises; by default, feature-matching.", panel=_METHOD),
    ] = None,
    solver: Annotated[SolverName | None, _option("--solver", text="How; by default, auto.", panel=_METHOD)] = None,
    l2: Annotated[
        str | None, _option("--l2", text="A penalty ½·l2·‖θ‖², or cv: by cross-validation.", panel=_METHOD)
    ] = None,
    tol: Annotated[
        float | None, _option("--tol", text="Stop when no entry of the gradient is larger.", panel=_METHOD)
    ] = None,
    start: Annotated[
        Start | None, _option("--start", text="Where the model starts: as the demos do, or the MDP.", panel=_METHOD)
    ] = None,
    setting: Annotated[
        list[str] | None,
        _option("--set", text="NAME=VALUE: another setting of the method or its solver. Repeat.", panel=_METHOD),
    ] = None,
    key: Annotated[int, _option("--key", text="The seed, for methods that draw.", panel=_METHOD)] = 0,
    episode: Annotated[str, _option("--episode", text="Column of the individual.", panel=_DATA)] = "episode",
    time: Annotated[str, _option("--time", text="Column of t, from 0.", panel=_DATA)] = "t",
    state: Annotated[str, _option("--state", text="Column of the state.", panel=_DATA)] = "state",
    action: Annotated[str, _option("--action", text="Column of the action.", panel=_DATA)] = "action",
    next_state: Annotated[
        str | None, _option("--next-state", text="Column of the next state, if not `next_state`.", panel=_DATA)
    ] = None,
    terminated: Annotated[
        str | None, _option("--terminated", text="Column of whether it ended, if not `terminated`.", panel=_DATA)
    ] = None,
    weight: Annotated[str | None, _option("--weight", text="Column of weights, if not `weight`.", panel=_DATA)] = None,
    held_out: Annotated[
        Path | None, _option("--held-out", text="Demonstrations to score, not to learn from.", panel=_DATA)
    ] = None,
    resume: Annotated[bool, _option("--resume", text="Go on from the unfinished fit in --out.", panel=_OUTPUT)] = False,
    as_json: Annotated[bool, _option("--json", text="Print the summary for machines.", panel=_OUTPUT)] = False,
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
    print(json.dumps(description(result), indent=1) if as_json else result.summary())
    raise typer.Exit(fitting.exit_code(result))
