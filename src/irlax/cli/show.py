"""`irlax show` and `irlax report`: a fit on disk, as tables and as a page."""

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
    from irlax.cli.describe import description
    from irlax.estimators.store import load

    if as_json + markdown + latex > 1:
        raise ValueError("Of --json, --markdown and --latex give one only.")
    fit = load(run)
    summary = fit.summary()
    text = summary.to_markdown() if markdown else summary.to_latex() if latex else summary
    emit(text, description(fit) if as_json else {}, as_json=as_json)


def report(
    run: RunPath,
    *,
    out: Annotated[Path | None, typer.Option(help="The file to write; report.html in the folder if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a fit as one HTML file: reward, policy, occupancies of expert and model, convergence, summary.

    The file needs nothing else. Gridworlds (MDPs with a layout) are drawn as grids. Of a fit in an environment
    there are learning curves, the reward, and the returns of policy and demonstrations.
    """
    written = _page(run).write(out or run / "report.html")
    emit(written, {"report": str(written)}, as_json=as_json)


def _page(run: Path) -> Any:
    from irlax.estimators.sampled.page import sampled_page
    from irlax.estimators.sampled.storage import is_sampled, load_sampled
    from irlax.estimators.tabular.mixture_page import mixture_page
    from irlax.estimators.tabular.mixture_storage import is_mixture, load_mixture
    from irlax.estimators.tabular.page import fit_page
    from irlax.estimators.tabular.storage import load_run

    if is_sampled(run):
        return sampled_page(load_sampled(run))
    return mixture_page(load_mixture(run)) if is_mixture(run) else fit_page(load_run(run))
