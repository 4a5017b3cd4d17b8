"""Every Python block of the tutorials runs as printed."""

import re
from pathlib import Path

from tests.rust import RAW, needs_rust_bus

DOCS = Path(__file__).parent.parent / "docs"


@needs_rust_bus
def test_the_tutorial_on_dynamic_discrete_choice_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "dynamic_discrete_choice.md").read_text(), re.S)
    # What a reader is told to bring.
    names = {"path": RAW}
    for block in blocks:
        exec(block, names)  # the blocks are ours
    assert [f"{error:.3f}" for error in names["full"].standard_errors("opg")[:2]] == ["1.227", "0.618"]
    assert all(names[fit].converged for fit in ("fit", "other", "check"))
