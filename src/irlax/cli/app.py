"""The commands, and the handling of errors and warnings that they share."""

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import jax
import typer

from irlax import startup
from irlax.cli import demo as demo_command
from irlax.cli import diagnose as diagnose_command
from irlax.cli import doctor as doctor_command
from irlax.cli import experts as expert_commands
from irlax.cli import fit as fit_command
from irlax.cli import grid as grid_command
from irlax.cli import reproduce as reproduce_command
from irlax.cli import routes as route_commands
from irlax.cli import show as show_commands
from irlax.version import __version__

#: Arguments in Python that have an option of the same name on the command line.
_FLAGS = "objective|solver|l2|tol|start|episode|time|state|action|next_state|terminated|weight|horizon|key|out"
_FLAGS += "|num|steps|seeds|goal|nodes|tail|head|link|label|trip|position|cluster"
#: Errors that end in one line instead of a traceback: wrong input, a package that is not installed, a numerical
#: breakdown, or a problem too large for the machine.
_USER_ERRORS = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError, jax.errors.JaxRuntimeError)

app = typer.Typer(name="irlax", add_completion=True, pretty_exceptions_enable=False)
app.command("demo")(demo_command.demo)
app.command("doctor")(doctor_command.doctor)
app.command("diagnose")(diagnose_command.diagnose)
app.command("fit")(fit_command.fit)
app.command("show")(show_commands.show)
app.command("report")(show_commands.report)
app.command("reproduce")(reproduce_command.reproduce)
mdp_app = typer.Typer(name="mdp", help="Make MDP files.")
mdp_app.command("grid")(grid_command.grid)
app.add_typer(mdp_app)
routes_app = typer.Typer(name="routes", help="Route choice in networks: describe a network, simulate trips, fit them.")
routes_app.command("describe")(route_commands.describe)
routes_app.command("fit")(route_commands.fit)
routes_app.command("simulate")(route_commands.simulate)
app.add_typer(routes_app)
expert_app = typer.Typer(name="expert", help="Train experts.")
expert_app.command("train")(expert_commands.train)
app.add_typer(expert_app)
demos_app = typer.Typer(name="demos", help="Make demonstrations.")
demos_app.command("collect")(expert_commands.collect)
app.add_typer(demos_app)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Reward functions from demonstrations.

    Results go to standard output, for machines with --json; progress and messages go to standard error.
    To complete commands and options with the tab key: irlax --install-completion.

    \b
    Exit codes:
    0    success
    1    a result that is not a success: a fit that did not converge (it is
         written, and says why), a published line or a check that fails
    2    an error in the input, or data that are missing: nothing was written
    130  interrupted by Ctrl-C; 143 by SIGTERM
    """
    if version:
        print(__version__)
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a user's error ends in one line, not in a traceback."""
    startup.finished()
    try:
        with _warnings_as_lines():
            words = list(sys.argv[1:] if arguments is None else arguments)
            sys.exit(app(words or ["--help"], prog_name="irlax", standalone_mode=False) or 0)
    # Some versions of click turn Ctrl-C outside a fit into this exception.
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        # Wrong arguments raise exceptions of click, whose class depends on the version of typer.
        explain = getattr(error, "format_message", None)
        if (explain is None and not isinstance(error, _USER_ERRORS)) or os.environ.get("IRLAX_TRACEBACK"):
            raise
        print_message(str(error) if explain is None else explain())
        sys.exit(2)


def print_message(message: str) -> None:
    """Print one line on standard error, with options in place of Python's arguments."""
    line = re.sub(rf"`({_FLAGS})=`", r"--\1", message).replace("`resume=True`", "--resume")
    line = re.sub(rf"`?\b({_FLAGS})=(['\"]?)([\w.-]+)\2`?", r"--\1 \3", line).replace("--next_state", "--next-state")
    print(f"irlax: {' '.join(line.split())}", file=sys.stderr)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    def show_line(message: Any, *_: Any, **__: Any) -> None:
        print_message(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show_line
        yield
