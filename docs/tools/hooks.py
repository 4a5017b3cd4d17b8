"""What MkDocs does for us beyond Markdown: mathematics as MathML, and the benchmarks' data and curves on their page.

Arithmatex marks mathematics in pages and docstrings alike; here it becomes MathML, which browsers draw themselves. So
the site needs no script for it, and nothing from the network.
"""

import html
import io
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.quality import control, imitation, mujoco
from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
RESULTS = "benchmarks/results"
_MARKED = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.S)
#: Sizes that MathML has no word for; the formulas read as well without.
_IGNORED = re.compile(r"\\(textstyle|displaystyle|big|Big)\b")


def on_page_content(html_text: str, /, **_: Any) -> str:
    r"""Replace \(…\) and \[…\] by MathML."""
    return _MARKED.sub(_mathml, html_text)


def on_files(files: Any, /, *, config: Any) -> Any:
    """Add the raw results, so that every figure on the site can be looked up on the site."""
    for path in sorted((ROOT / RESULTS).glob("*.json")):
        files.append(File.generated(config, f"{RESULTS}/{path.name}", abs_src_path=str(path)))
    for name, draw in (("imitation", _imitation), ("control", control.drawn), ("mujoco", mujoco.drawn)):
        rows = json.loads((ROOT / RESULTS / f"{name}.json").read_text())["figures"]
        files.append(File.generated(config, f"{RESULTS}/{name}.png", content=_png(draw(rows))))
    return files


def _imitation(rows: list[dict[str, Any]]) -> Any:
    return imitation.drawn(rows, max(imitation.DEMOS))


def _png(figure: Any) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, dpi=110)
    return picture.getvalue()


def _mathml(found: re.Match[str]) -> str:
    block = found[1] == "div"
    # What is between \( and \), or between \[ and \].
    formula = html.unescape(found[2]).strip()[2:-2]
    return convert(_IGNORED.sub("", formula), display="block" if block else "inline")
