"""`irlax routes`: networks and trips from files, without an MDP file."""

import math
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from irlax.cli.options import DATA, METHOD, RESULT, REWARD, AsJson, Key, emit, option

#: Of all methods, those that take trips to goals.
Method = Literal["mce", "mixture", "switching"]
Objective = Literal["feature-matching", "discounted-likelihood", "likelihood"]
Errors = Literal["hessian", "opg", "sandwich"]
NETWORK = "The network"

NetworkPath = Annotated[
    Path,
    typer.Argument(
        metavar="NETWORK", help="A .tntp, .csv, .parquet or .geojson file of links, or an .npz of `net.save`."
    ),
]
Nodes = Annotated[
    Path | None,
    option("--nodes", text="Where nodes are: .csv with node, x and y; .tntp; .geojson points.", panel=NETWORK),
]
Tail = Annotated[str, option("--tail", text="Column of the node that a link leads from.", panel=NETWORK)]
Head = Annotated[str, option("--head", text="Column of the node that a link leads to.", panel=NETWORK)]
Link = Annotated[str | None, option("--link", text="Column of the name of a link, if links have any.", panel=NETWORK)]
Links = Annotated[bool, option("--links", text="Links as states, and turns between them.", panel=NETWORK)]
NoUturns = Annotated[bool, option("--no-uturns", text="With --links: no turns back.", panel=NETWORK)]
LonLat = Annotated[bool, option("--lonlat", text="With --links: x and y are degrees.", panel=NETWORK)]
#: Images that matplotlib writes.
_IMAGES = (".png", ".svg", ".pdf")


def describe(
    network: NetworkPath,
    *,
    nodes: Nodes = None,
    tail: Tail = "from",
    head: Head = "to",
    link: Link = None,
    links: Links = False,
    no_uturns: NoUturns = False,
    lonlat: LonLat = False,
    show: Annotated[str | None, option("--show", text="The attribute that the map shows.", panel=RESULT)] = None,
    out: Annotated[
        Path | None, option("--out", text="Write a map: a page (.html), or .png, .svg, .pdf.", panel=RESULT)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what a network has: nodes, links, dead ends, connected parts, the range of each attribute.

    \b
    irlax routes describe roads.csv --nodes nodes.csv --out map.html
    """
    from irlax import storage
    from irlax.records import plain
    from irlax.report.html import Page

    if out is not None:
        storage.known_suffix(out, (".html", *_IMAGES))
    net = _read(network, nodes, tail, head, link, links=links, no_uturns=no_uturns, lonlat=lonlat)
    summary = net.summary()
    facts, *others = summary.tables
    record: dict[str, Any] = {"network": {str(row[0]): plain(row[1]) for row in facts.rows}}
    record["attributes"] = [
        dict(zip(table.columns, map(plain, row), strict=True)) for table in others for row in table.rows
    ]
    text = str(summary)
    if out is not None:
        figure = net.plot(show)
        if out.suffix.lower() in _IMAGES:
            out.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(out, dpi=150, bbox_inches="tight")
        else:
            page = Page(f"The network {network.name}").figure(figure, "Links; two directions are drawn side by side.")
            for table in summary.tables:
                page = page.table(table)
            page.write(out)
        record, text = record | {"map": str(out)}, f"{text}\n\nMap: {out}"
    elif show is not None:
        raise ValueError("--show needs --out, the file to draw to.")
    emit(text, record, as_json=as_json)


def fit(
    network: NetworkPath,
    trips: Annotated[Path, typer.Argument(help="The trips: a .csv or .parquet file.")],
    *,
    out: Annotated[Path, option("--out", text="The folder to write the fit and its report to.", panel=RESULT)],
    features: Annotated[str, option("--features", text="Attributes of the reward, by commas.", panel=REWARD)],
    nodes: Nodes = None,
    tail: Tail = "from",
    head: Head = "to",
    link: Link = None,
    links: Links = False,
    no_uturns: NoUturns = False,
    lonlat: LonLat = False,
    trip: Annotated[str, option("--trip", text="Column of the trip.", panel=DATA)] = "trip",
    position: Annotated[
        str | None, option("--position", text="Column that orders a trip, if not `position`.", panel=DATA)
    ] = None,
    label: Annotated[
        str | None, option("--label", text="Column of the states, if not `node`, `link` or `state`.", panel=DATA)
    ] = None,
    weight: Annotated[str | None, option("--weight", text="Column of weights, if not `weight`.", panel=DATA)] = None,
    held_out: Annotated[
        Path | None, option("--held-out", text="Trips to score, not to learn from.", panel=DATA)
    ] = None,
    method: Annotated[
        Method, option("--method", text="One reward, types of travellers, or motives that switch.", panel=METHOD)
    ] = "mce",
    objective: Annotated[Objective, option("--objective", text="What is optimised.", panel=METHOD)] = "likelihood",
    individual: Annotated[
        str | None, option("--individual", text="Column of the traveller, who keeps one type (mixture).", panel=METHOD)
    ] = None,
    setting: Annotated[
        list[str] | None, option("--set", text="NAME=VALUE: another setting of the method; repeatable.", panel=METHOD)
    ] = None,
    key: Key = 0,
    l2: Annotated[str | None, option("--l2", text="The penalty ½·l2·‖θ‖²: a number, or cv.", panel=METHOD)] = None,
    tol: Annotated[
        float | None, option("--tol", text="Stop when no entry of the gradient is larger.", panel=METHOD)
    ] = None,
    errors: Annotated[
        Errors | None, option("--errors", text="Standard errors; sandwich with --cluster, else hessian.", panel=METHOD)
    ] = None,
    cluster: Annotated[
        str | None,
        option("--cluster", text="Cluster standard errors: `trip`, or the column of the traveller.", panel=METHOD),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn what travellers weigh from their trips: the recursive logit.

    \b
    irlax routes fit roads.csv trips.csv --features minutes --out run
    irlax routes fit roads.csv trips.csv --nodes nodes.csv --links \\
        --features minutes,left,turns --cluster traveller --out run
    irlax routes fit roads.csv trips.csv --features minutes,toll \\
        --method mixture --individual traveller --set num_types=3 --out run

    Prints estimates with standard errors, and writes the fit and report.html
    to --out; `irlax show` and `irlax report` read it again.

    \b
    NETWORK (.csv, .parquet), a row for each link; all other columns of numbers
    are attributes:
      from, to      the nodes of a link, by any labels
    With --links there are also `turns` (1 for each link that is entered) and
    `uturn`, and where --nodes says where nodes are: left, right, straight,
    angle. Without --links, the feature `constant` is 1 for each link.

    \b
    Trips (.csv, .parquet), a row for each node (or link) that a trip passes;
    the last one is its goal:
      trip          its name
      node          or `link`, or `state`
      position      optional: the order; else that of the rows
      weight        optional: the same on all rows of a trip
    """
    from irlax.cli.show import report_page
    from irlax.estimators.store import REPORT, check_target
    from irlax.interrupts import interruptible
    from irlax.routes import read_trip_column, read_trips
    from irlax.status import Status
    from irlax.tables import Summary

    check_target(out)
    names = _names(features)
    net = _read(network, nodes, tail, head, link, links=links, no_uturns=no_uturns, lonlat=lonlat, constant=names)
    columns = {"trip": trip, "position": position, "label": label, "weight": weight}
    reward = net.linear(names)
    demos = read_trips(trips, net, **columns)
    scored = None if held_out is None else read_trips(held_out, net, **columns)
    by = None if cluster is None else "episode" if cluster == trip else read_trip_column(trips, cluster, trip=trip)
    estimator = _estimator(method, objective, {"l2": l2, "tol": tol}, setting or [])
    if (objective != "likelihood" or method != "mce") and (errors or cluster):
        raise ValueError("Standard errors of a kind (--errors, --cluster) need --method mce --objective likelihood.")
    if individual is not None and method != "mixture":
        raise ValueError("--individual is for --method mixture, where a traveller keeps one type.")
    hidden: dict[str, Any] = {} if method == "mce" else {"key": _random_key(key)}
    if individual is not None:
        hidden["individual"] = read_trip_column(trips, individual, trip=trip)
    with interruptible(signal.SIGINT, signal.SIGTERM) as interrupt:
        try:
            result = estimator.fit(net.mdp, reward, demos, held_out=scored, **hidden)
        except KeyboardInterrupt:
            print("irlax: interrupted; nothing was written.", file=sys.stderr)
            raise typer.Exit(interrupt.exit_code) from None
    result.save(out)
    summary, record = result.summary(), result.describe()
    if method == "mce" and result.has_standard_errors:
        kind = errors or ("hessian" if by is None else "sandwich")
        table = result.regression_table(kind, cluster=by)
        summary = Summary([*table.tables, summary.tables[-1]])
        record |= _errors_record(result, kind, by, cluster)
    written = report_page(result, out).write(out / REPORT)
    emit(f"{summary}\n\nReport: {written}", record | {"report": str(written)}, as_json=as_json)
    raise typer.Exit(interrupt.exit_code if result.status is Status.INTERRUPTED else int(not result.converged))


def simulate(
    network: NetworkPath,
    *,
    weights: Annotated[str, option("--weights", text="NAME=NUMBER, by commas: the reward.", panel=REWARD)],
    trips: Annotated[
        Path, option("--trips", text="Origins and destinations: .csv, .parquet or a .tntp file.", panel=DATA)
    ],
    out: Annotated[Path, option("--out", text="The trips (.csv, .parquet) to write.", panel=RESULT)],
    num: Annotated[int, option("--num", text="The number of trips.", panel=DATA)] = 1000,
    nodes: Nodes = None,
    tail: Tail = "from",
    head: Head = "to",
    link: Link = None,
    links: Links = False,
    no_uturns: NoUturns = False,
    lonlat: LonLat = False,
    key: Key = 0,
    as_json: AsJson = False,
) -> None:
    """Make trips from known weights, to try a fit or a design before there are data.

    \b
    irlax routes simulate roads.csv --weights minutes=-1 --trips pairs.csv \\
        --out trips.csv --num 500

    --trips has the columns origin, destination and, if pairs are not equally
    frequent, flow; or it is a TNTP file of trips. --num pairs are drawn from it
    in proportion to the flow, and each is one trip.
    """
    import jax.random as jr
    import numpy as np

    from irlax import checks, storage
    from irlax.routes import read_pairs
    from irlax.routes.tables import TABLES

    storage.known_suffix(out, TABLES)
    checks.count("num", num)
    theta = _weights(weights)
    net = _read(network, nodes, tail, head, link, links=links, no_uturns=no_uturns, lonlat=lonlat, constant=list(theta))
    pairs = read_pairs(trips)
    pair_key, trip_key = jr.split(jr.key(key))
    rng = np.random.default_rng(np.asarray(jr.key_data(pair_key)))
    flow = pairs["flow"].to_numpy(np.float64)
    drawn = pairs.iloc[np.sort(rng.choice(len(pairs), num, p=flow / flow.sum()))]
    demos = net.simulate(theta, drawn["origin"].tolist(), drawn["destination"].tolist(), key=trip_key)
    frame = net.trip_frame(demos)
    content = frame.to_csv(index=False).encode() if out.suffix.lower() == ".csv" else frame.to_parquet(index=False)
    assert content is not None
    out.parent.mkdir(parents=True, exist_ok=True)
    with storage.replacing(out) as file:
        file.write(content)
    record = {"trips": str(out), "num": num, "rows": len(frame), "goals": len(np.unique(demos.goals))}
    emit(out, record, as_json=as_json)


def _read(
    network: Path,
    nodes: Path | None,
    tail: str,
    head: str,
    link: str | None,
    *,
    links: bool,
    no_uturns: bool,
    lonlat: bool,
    constant: list[str] | None = None,
) -> Any:
    """The network of the options; `constant` are names of features, of which one may be 1 for each link."""
    from irlax.routes import read_network

    if (no_uturns or lonlat) and not links:
        raise ValueError(f"{'--no-uturns' if no_uturns else '--lonlat'} needs --links.")
    net = read_network(network, tail=tail, head=head, nodes=nodes, link=link)
    if constant and "constant" in constant and "constant" not in net.attributes:
        net = net.with_attributes(constant=1.0)
    return net.links_as_states(uturns=not no_uturns, lonlat=lonlat) if links else net


def _names(features: str) -> list[str]:
    names = [name.strip() for name in features.split(",")]
    if "" in names or len(set(names)) < len(names):
        raise ValueError(f"--features must be different names, separated by commas, but is {features!r}.")
    return names


def _weights(text: str) -> dict[str, float]:
    """NAME=NUMBER,… as a dict."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not equals or not name.strip() or math.isnan(number) or name.strip() in found:
            raise ValueError(f"--weights must be NAME=NUMBER, separated by commas, but has {part!r}.")
        found[name.strip()] = number
    return found


def _estimator(method: str, objective: str, options: dict[str, Any], settings: list[str]) -> Any:
    from irlax.cli.fitting import estimator_of, parse_settings

    given = {name: value for name, value in options.items() if value is not None}
    if method == "mce":
        given["objective"] = objective
    elif objective != "likelihood":
        raise ValueError(f"--objective is for --method mce: --method {method} maximises the likelihood.")
    return estimator_of(method, given, parse_settings(settings))


def _random_key(key: int) -> Any:
    import jax

    return jax.random.key(key)


def _errors_record(fit: Any, kind: str, by: Any, cluster: str | None) -> dict[str, Any]:
    from irlax.records import plain

    errors = fit.standard_errors(kind, cluster=by)
    return {"errors": {"kind": kind, "cluster": cluster, "standard_errors": plain(errors)}}
