"""`irlax demo`: an introduction by examples."""

from pathlib import Path
from typing import Annotated

import typer

from irlax.cli.options import AsJson, emit


def demo(
    *,
    out: Annotated[Path, typer.Option(help="The folder for the report.")] = Path("out/demo"),
    as_json: AsJson = False,
) -> None:
    """Plan, learn a reward from walks, and see what cannot be identified; print tables and write a report."""
    from irlax.progress import progress_bar
    from irlax.showcase import SECTIONS, page

    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file. Name a folder to write the report to.")
    sections = {}
    with progress_bar("irlax demo", len(SECTIONS)) as bar:
        for name, section in SECTIONS.items():
            bar.update(len(sections), name)
            sections[name] = section()
            if not as_json:
                print(sections[name].summary, end="\n\n")
        written = page(sections).write(out / "report.html")
    records = {name: section.record for name, section in sections.items()}
    emit(f"Report: {written}", {**records, "report": str(written)}, as_json=as_json)
