"""`irlax panel`: from a table to a regression table."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from irlax.cli.options import DATA, METHOD, RESULT, REWARD, AsJson, emit, option

TRANSITIONS = "The transitions"
Unseen = Literal["error", "any-action", "stay", "unavailable"]

TablePath = Annotated[Path, typer.Argument(metavar="TABLE", help="A .csv or .parquet file, a row a choice.")]
Individual = Annotated[str, option("--individual", text="Column of the individual.", panel=DATA)]
Period = Annotated[str, option("--period", text="Column of the period, whole numbers.", panel=DATA)]
State = Annotated[str, option("--state", text="State variables, by commas; bins as price:quantiles=20.", panel=DATA)]
Action = Annotated[str, option("--action", text="Column of the choice.", panel=DATA)]
Actions = Annotated[str | None, option("--actions", text="Labels, as 0=keep,1=replace.", panel=DATA)]
Covariates = Annotated[str, option("--covariates", text="Columns that do not change, by commas.", panel=DATA)]
Weight = Annotated[str | None, option("--weight", text="Column of weights of individuals.", panel=DATA)]
Exit = Annotated[str | None, option("--exit", text="Column, true on the last row of who left for good.", panel=DATA)]
ExitGiven = Annotated[
    str, option("--exit-given", text="State variables that exits depend on, by commas.", panel=TRANSITIONS)
]
Available = Annotated[str | None, option("--available", text="Where actions exist: 'sell=stock > 0'.", panel=DATA)]
History = Annotated[str, option("--history", text="States remember: 'choice=1', by commas.", panel=DATA)]
Models = Annotated[
    str | None,
    option("--transitions", text="By variable: mileage:increments,price:chain; else counts.", panel=TRANSITIONS),
]
Restart = Annotated[
    str | None,
    option("--restart", text="With increments: replace=0, from where an action restarts.", panel=TRANSITIONS),
]
Smoothing = Annotated[float, option("--smoothing", text="With counts: added to each.", panel=TRANSITIONS)]
UnseenOption = Annotated[Unseen, option("--unseen", text="With counts: where nothing was observed.", panel=TRANSITIONS)]


def describe(
    table: TablePath,
    *,
    individual: Individual,
    period: Period,
    state: State,
    action: Action,
    actions: Actions = None,
    covariates: Covariates = "",
    weight: Weight = None,
    exit_column: Exit = None,
    exit_given: ExitGiven = "",
    available: Available = None,
    history: History = "",
    transitions: Models = None,
    restart: Restart = None,
    smoothing: Smoothing = 0.0,
    unseen: UnseenOption = "error",
    as_json: AsJson = False,
) -> None:
    """Print what a panel has: coverage, gaps, levels, cells never seen.

    \b
    irlax panel describe buses.csv --individual bus --period month \\
        --state miles:quantiles=20 --action choice --unseen any-action
    """
    from irlax.panels import Panel
    from irlax.records import plain

    columns = {"individual": individual, "period": period, "action": action, "weight": weight, "exit": exit_column}
    options = _options(state, actions, covariates, exit_given, available, history=history)
    options["transitions"] = _transitions(transitions, restart, smoothing, unseen)
    summary = Panel.read(table, **columns, **options).summary()
    emit(summary, {str(row[0]): plain(row[1]) for row in summary.tables[0].rows}, as_json=as_json)


def fit(
    table: TablePath,
    *,
    formula: Annotated[str, option("--formula", text="The reward: 'mileage:keep + replace'.", panel=REWARD)],
    discount: Annotated[str, option("--discount", text="γ: a number, or estimate.", panel=METHOD)],
    individual: Individual,
    period: Period,
    state: State,
    action: Action,
    known: Annotated[
        str | None, option("--known", text="Terms with coefficients of 1: 'wage:work'.", panel=REWARD)
    ] = None,
    fixed: Annotated[
        str | None, option("--fixed", text="Terms that are set: 'replace=-1', by commas.", panel=REWARD)
    ] = None,
    actions: Actions = None,
    covariates: Covariates = "",
    by: Annotated[str, option("--by", text="Covariates with separate parameters, by commas.", panel=METHOD)] = "",
    weight: Weight = None,
    exit_column: Exit = None,
    exit_given: ExitGiven = "",
    available: Available = None,
    history: History = "",
    transitions: Models = None,
    restart: Restart = None,
    smoothing: Smoothing = 0.0,
    unseen: UnseenOption = "error",
    horizon: Annotated[int | None, option("--horizon", text="Decisions of a finite life.", panel=METHOD)] = None,
    two_step: Annotated[bool, option("--two-step", text="Hotz and Miller's estimator.", panel=METHOD)] = False,
    profile: Annotated[bool, option("--profile", text="Print the profile of the discount too.", panel=RESULT)] = False,
    out: Annotated[
        Path | None, option("--out", text="The folder to write the fit and report to.", panel=RESULT)
    ] = None,
    write: Annotated[
        Path | None, option("--table", text="Write the regression table: .tex, .html, .md or .txt.", panel=RESULT)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate a reward from a panel: a table of choices, in its own words.

    \b
    irlax panel fit buses.csv --individual bus --period month --state bin \\
        --action choice --transitions bin:increments --restart replace=0 \\
        --formula "bin:keep + replace" --discount 0.99 --table engines.tex

    Terms are made of the names of state variables, actions and covariates.
    Standard errors are clustered by individual, and include the sampling error
    of the estimated transitions.
    """
    from irlax import storage
    from irlax.cli.show import report_page
    from irlax.estimators.store import REPORT, check_target
    from irlax.estimators.tabular import MCEIRL, TwoStepIRL
    from irlax.panels import Panel
    from irlax.tables import Summary

    formats = {".tex": "to_latex", ".html": "to_html", ".md": "to_markdown", ".txt": "__str__"}
    if write is not None:
        storage.known_suffix(write, tuple(formats))
    if out is not None:
        check_target(out)
    columns = {"individual": individual, "period": period, "action": action, "weight": weight, "exit": exit_column}
    options = _options(state, actions, covariates, exit_given, available, history=history)
    options["transitions"] = _transitions(transitions, restart, smoothing, unseen)
    panel = Panel.read(table, **columns, **options)
    estimator = TwoStepIRL() if two_step else MCEIRL(objective="likelihood")
    result: Any = panel.fit(
        formula,
        discount=_discount(discount),
        horizon=horizon,
        known=known,
        fixed=None
        if fixed is None
        else {name: _number(name, value) for name, value in _pairs("--fixed", fixed).items()},
        by=_listed(by),
        estimator=estimator,
    )
    shown = result.regression_table() if result.has_standard_errors else result.summary()
    record = result.describe()
    tables = [*shown.tables, result.baselines()]
    if profile:
        tables += result.discount_profile().summary().tables
    text = str(Summary(tables))
    if write is not None:
        with storage.replacing(write) as file:
            file.write(f"{getattr(shown, formats[write.suffix.lower()])()}\n".encode())
    if out is not None:
        result.save(out)
        written = report_page(result, out).write(out / REPORT)
        text, record = f"{text}\n\nReport: {written}", record | {"report": str(written)}
    emit(text, record, as_json=as_json)
    raise typer.Exit(int(not result.converged))


def _options(
    state: str, actions: str | None, covariates: str, exit_given: str, available: str | None, *, history: str
) -> dict[str, Any]:
    """The arguments of `Panel.read` that are more than the name of a column."""
    found: dict[str, Any] = {
        "state": _state(state),
        "covariates": _listed(covariates),
        "exit_given": _listed(exit_given),
    }
    if actions is not None:
        found["actions"] = {_value(name): label for name, label in _pairs("--actions", actions).items()}
    if history:
        numbers = _pairs("--history", history)
        found["history"] = {name: _whole(f"--history {name}", value) for name, value in numbers.items()}
    if available is not None:
        found["available"] = _pairs("--available", available)
    return found


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pairs(name: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in _listed(text):
        left, equals, right = part.partition("=")
        if not equals or not left.strip() or not right.strip():
            raise ValueError(f"{name} must be NAME=VALUE, separated by commas, but has {part!r}.")
        found[left.strip()] = right.strip()
    return found


def _value(text: str) -> Any:
    """A number, true or false, or the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _whole(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number of periods, but is {text!r}.")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--fixed must set `{name}` to a number, but has {text!r}.") from None


def _state(text: str) -> dict[str, Any]:
    from irlax.panels import Edges, Quantiles

    found: dict[str, Any] = {}
    for part in _listed(text):
        name, _, how = part.partition(":")
        kind, _, value = how.partition("=")
        try:
            if not how:
                found[name] = None
            elif kind == "quantiles":
                found[name] = Quantiles(int(value))
            elif kind == "edges":
                found[name] = Edges([float(edge) for edge in value.split("/")])
            else:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"--state must be NAME, NAME:quantiles=20 or NAME:edges=0/10/50, but has {part!r}."
            ) from None
    return found


def _transitions(models: str | None, restart: str | None, smoothing: float, unseen: Unseen) -> Any:
    from irlax.panels import Chain, Counts, Increments

    if models is None:
        if restart is not None:
            raise ValueError("--restart needs --transitions NAME:increments.")
        return Counts(smoothing=smoothing, unseen=unseen)
    restarts = {} if restart is None else {name: _value(value) for name, value in _pairs("--restart", restart).items()}
    known = {"chain": Chain(), "exogenous": Chain(by_action=False), "increments": Increments(restart=restarts)}
    found = {}
    for part in _listed(models):
        name, _, kind = part.partition(":")
        if kind not in known:
            raise ValueError(f"--transitions must be NAME:KIND with {', '.join(known)}, but has {part!r}.")
        found[name] = known[kind]
    return found


def _discount(text: str) -> Any:
    if text == "estimate":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--discount must be a number or `estimate`, but is {text!r}.") from None
