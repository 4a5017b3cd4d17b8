"""The commands, and what all of them do alike."""

import contextlib
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import typer

from irlax.cli import diagnose as diagnose_command
from irlax.cli import experts as expert_commands
from irlax.cli import fit as fit_command
from irlax.cli import grid as grid_command
from irlax.cli.describe import description
from irlax.version import __version__

#: Arguments of Python that have a flag of the same name.
_FLAGS = "objective|solver|l2|tol|start|episode|time|state|action|next_state|terminated|weight|horizon|key|out"
#: What a user's mistake, a package that is not installed, or a problem too large for the machine ends in.
_MISTAKES = (ValueError, TypeError, OSError, ImportError, OverflowError, MemoryError, jax.errors.JaxRuntimeError)

app = typer.Typer(name="irlax", add_completion=True, pretty_exceptions_enable=False)
app.command("fit")(fit_command.fit)
app.command("diagnose")(diagnose_command.diagnose)
mdp_app = typer.Typer(name="mdp", help="Make MDP files.")
mdp_app.command("grid")(grid_command.grid)
app.add_typer(mdp_app)
expert_app = typer.Typer(name="expert", help="Train experts.")
expert_app.command("train")(expert_commands.train)
app.add_typer(expert_app)
demos_app = typer.Typer(name="demos", help="Make demonstrations.")
demos_app.command("collect")(expert_commands.collect)
app.add_typer(demos_app)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Reward functions from demonstrations.

    Results go to standard output, progress and messages to standard error.

    \b
    Exit codes:
    0    success
    1    a fit that ended without success: it is written, and says why
    2    a mistake in the input: nothing was written
    130  interrupted
    """
    if version:
        print(__version__)
        raise typer.Exit


@app.command("show")
def show(
    run: Annotated[Path, typer.Argument(help="A folder that `irlax fit` or `fit.save` wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="As Markdown tables.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="As LaTeX tabulars, for the booktabs package.")] = False,
) -> None:
    """Print the summary of a fit."""
    from irlax.estimators.tabular.storage import load_fit

    if as_json + markdown + latex > 1:
        raise ValueError("Of --json, --markdown and --latex give one only.")
    fit = load_fit(run)
    if as_json:
        print(json.dumps(description(fit), indent=1))
        return
    summary = fit.summary()
    print(summary.to_markdown() if markdown else summary.to_latex() if latex else summary)


@app.command("report")
def report(
    run: Annotated[Path, typer.Argument(help="A folder that `irlax fit` or `fit.save` wrote.")],
    out: Annotated[Path | None, typer.Option(help="The file to write; report.html in the folder if left out.")] = None,
) -> None:
    """Write a fit as one HTML file: reward, policy, occupancies of expert and model, convergence, summary.

    The file needs nothing else. Gridworlds (MDPs with a layout) are drawn as grids.
    """
    from irlax.estimators.tabular.storage import load_run
    from irlax.report.fit_report import fit_page

    page = fit_page(load_run(run))
    print(page.write(out or run / "report.html"))


@app.command("demo")
def run_demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("out/demo"),
) -> None:
    """Plan the Primer's RiskyPath under the causal and the path model; print a table, write a report."""
    from rich.console import Console
    from rich.progress import track

    from irlax import demo

    console = Console(stderr=True)
    rows = [demo.risk(discount) for discount in track(demo.DISCOUNTS, "Planning RiskyPath", console=console)]
    print(demo.risk_table(rows))
    print(f"Report: {demo.page(rows).write(out / 'report.html')}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake ends in one line, not in a traceback."""
    try:
        with _warnings_as_lines():
            given = list(sys.argv[1:] if arguments is None else arguments)
            sys.exit(app(given or ["--help"], standalone_mode=False) or 0)
    # What Ctrl-C outside a fit is turned into by some versions of click.
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        # Wrong arguments come as exceptions of click, which typer has under one name or another.
        explain = getattr(error, "format_message", None)
        if (explain is None and not isinstance(error, _MISTAKES)) or os.environ.get("IRLAX_TRACEBACK"):
            raise
        say(str(error) if explain is None else explain())
        sys.exit(2)


def say(message: str) -> None:
    """One line on standard error, with flags in place of Python's arguments."""
    line = re.sub(rf"`({_FLAGS})=`", r"--\1", message).replace("`resume=True`", "--resume")
    line = re.sub(rf"`?\b({_FLAGS})=(['\"]?)([\w.-]+)\2`?", r"--\1 \3", line).replace("--next_state", "--next-state")
    print(f"irlax: {' '.join(line.split())}", file=sys.stderr)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    def show_line(message: Any, *_: Any, **__: Any) -> None:
        say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show_line
        yield
