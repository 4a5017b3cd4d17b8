"""`irlax show` and `irlax report`: tables and a page of a saved fit."""

from pathlib import Path
from typing import Annotated, Any

import typer

from irlax.cli.options import AsJson, RunPath, emit


def show(
    run: RunPath,
    *,
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX tabulars, for the booktabs package.")] = False,
) -> None:
    """Print the summary of a fit."""
    from irlax.estimators.store import load

    if as_json + markdown + latex > 1:
        raise ValueError("Give only one of --json, --markdown and --latex.")
    fit = load(run)
    summary = fit.summary()
    text = summary.to_markdown() if markdown else summary.to_latex() if latex else summary
    emit(text, fit.describe() if as_json else {}, as_json=as_json)


def report(
    run: RunPath,
    *,
    out: Annotated[Path | None, typer.Option(help="The file to write; report.html in the folder if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a fit as one HTML file: reward, policy, occupancies of expert and model, convergence, summary.

    The file needs no other files. Gridworlds (MDPs with a layout) are drawn as grids, networks (with places)
    as maps. For a fit in an environment it shows learning curves, the reward, and the returns of policy and
    demonstrations.
    """
    from irlax.estimators.store import REPORT, load

    written = report_page(load(run), run).write(out or run / REPORT)
    emit(written, {"report": str(written)}, as_json=as_json)


def report_page(fit: Any, run: Path) -> Any:
    """The report on a fit that was saved to a folder, with the versions that made it."""
    from irlax.estimators.store import versions_of
    from irlax.tables import pairs

    return fit.page().heading("How it was made").table(pairs("", versions_of(run)))
