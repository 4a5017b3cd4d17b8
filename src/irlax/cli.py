"""The command line."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

import irlax

app = typer.Typer(
    name="irlax",
    help="Reward functions from demonstrations.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
console = Console()


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Reward functions from demonstrations."""
    if version:
        print(irlax.__version__)
        raise typer.Exit


@app.command("demo")
def run_demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("out/demo"),
) -> None:
    """Plan the Primer's RiskyPath under the causal and the path model; print a table, write a report."""
    from irlax import demo

    rows = [demo.risk(discount) for discount in track(demo.DISCOUNTS, "Planning RiskyPath", console=console)]
    print(demo.risk_table(rows))
    path = demo.page(rows).write(out / "report.html")
    console.print(f"Report: {path}")


def main() -> None:
    """Run the command line; a user's mistake ends in one line, not in a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError) as error:
        print(f"irlax: {error}", file=sys.stderr)
        sys.exit(2)
