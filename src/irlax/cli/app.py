"""The commands, and the handling of errors and warnings that they share."""

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from irlax.cli import demo as demo_command
from irlax.cli import diagnose as diagnose_command
from irlax.cli import doctor as doctor_command
from irlax.cli import experts as expert_commands
from irlax.cli import fit as fit_command
from irlax.cli import grid as grid_command
from irlax.cli import panel as panel_commands
from irlax.cli import reproduce as reproduce_command
from irlax.cli import routes as route_commands
from irlax.cli import show as show_commands
from irlax.cli import studio as studio_command
from irlax.cli import sweep as sweep_command
from irlax.cli.computing import computing
from irlax.version import __version__

#: Arguments in Python that have an option of the same name on the command line.
_FLAGS = "objective|solver|l2|tol|start|episode|time|state|action|next_state|terminated|weight|horizon|key|out"
_FLAGS += "|num|steps|seeds|goal|nodes|tail|head|link|label|trip|position|cluster"
_FLAGS += "|individual|period|exit|covariates|transitions|unseen|formula|known|discount|smoothing"
#: Errors that end in one line instead of a traceback: wrong input, a package that is not installed, a numerical
#: breakdown, or a problem too large for the machine.
_USER_ERRORS = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError)

app = typer.Typer(name="irlax", add_completion=True, pretty_exceptions_enable=False)
app.command("demo")(computing(demo_command.demo))
app.command("doctor")(computing(doctor_command.doctor))
app.command("diagnose")(computing(diagnose_command.diagnose))
app.command("fit")(computing(fit_command.fit))
app.command("show")(computing(show_commands.show))
app.command("sweep")(computing(sweep_command.sweep))
app.command("report")(computing(show_commands.report))
app.command("reproduce")(computing(reproduce_command.reproduce))
app.command("studio")(computing(studio_command.studio, one_thread=True))
mdp_app = typer.Typer(name="mdp", help="Make MDP files.")
mdp_app.command("grid")(computing(grid_command.grid))
app.add_typer(mdp_app)
routes_app = typer.Typer(name="routes", help="Route choice in networks: describe a network, simulate trips, fit them.")
routes_app.command("describe")(computing(route_commands.describe))
routes_app.command("fit")(computing(route_commands.fit))
routes_app.command("simulate")(computing(route_commands.simulate))
app.add_typer(routes_app)
panel_app = typer.Typer(name="panel", help="Panels: describe a table of choices, estimate a reward by formula.")
panel_app.command("describe")(computing(panel_commands.describe))
panel_app.command("fit")(computing(panel_commands.fit))
app.add_typer(panel_app)
expert_app = typer.Typer(name="expert", help="Train experts.")
expert_app.command("train")(computing(expert_commands.train))
app.add_typer(expert_app)
demos_app = typer.Typer(name="demos", help="Make demonstrations.")
demos_app.command("collect")(computing(expert_commands.collect))
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
        if (explain is None and not _is_user_error(error)) or os.environ.get("IRLAX_TRACEBACK"):
            raise
        print_message(str(error) if explain is None else explain())
        sys.exit(2)


def _is_user_error(error: Exception) -> bool:
    # Only if JAX was imported can the error be one of its own.
    jax = sys.modules.get("jax")
    return isinstance(error, _USER_ERRORS) or (jax is not None and isinstance(error, jax.errors.JaxRuntimeError))


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
