"""`irlax studio`: a local page to draw demonstrations in, and to open runs."""

from pathlib import Path
from typing import Annotated

import typer


def studio(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN|FILE]", help="A run, a scene, a table, an MDP, or a folder of them."),
    ] = None,
    *,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
) -> None:
    """Open a local page: draw demonstrations, and see the reward that is inferred from them.

    It also opens runs, live ones too, and fits a table with an MDP file. The page reads and writes in the folder
    of what was given (or the present one), and nowhere else; only this machine can reach it, by the address that is
    printed. Ctrl-C ends it. Needs the extra `studio`: pip install 'irlax[studio]'.
    """
    try:
        from irlax.studio.serve import opened, serve
    except ImportError as error:
        raise ImportError(f"{error}. The studio needs an extra: pip install 'irlax[studio]'.") from None
    serve(opened(path), port=port, open_browser=not no_browser, announce=lambda address: print(address, flush=True))
