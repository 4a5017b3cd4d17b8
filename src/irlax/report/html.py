"""Reports as one HTML file that needs no network: text, tables, and figures as inline SVG."""

import html
import io
from pathlib import Path
from typing import Any

import equinox as eqx

from irlax import storage
from irlax.tables import Table
from irlax.version import __version__

_STYLE = """
:root { --ink: #1d2433; --soft: #5b6579; --line: #dfe3ea; --paper: #ffffff; --page: #f6f7f9; --accent: #0b6e99;
        --shade: #00000038; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7eaf0; --soft: #a3adbf; --line: #343b4a; --paper: #1b202b; --page: #12151c; --accent: #6bb8dc;
          --shade: #000000c0; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
       font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .6rem; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
p { max-width: 44rem; } .lead { color: var(--soft); font-size: 1.05rem; }
code { font: .92em ui-monospace, "SFMono-Regular", Menlo, monospace; }
pre { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1rem;
      overflow-x: auto; }
/* A shade on the side where a wide table goes on, as scroll bars may be hidden: covers that move with the table hide it
   at the table's ends. */
.table { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; padding: .5rem .9rem; margin: 1rem 0;
         background: linear-gradient(to right, var(--paper) 50%, transparent) left / 3rem 100% no-repeat local,
                     linear-gradient(to left, var(--paper) 50%, transparent) right / 3rem 100% no-repeat local,
                     linear-gradient(to right, var(--shade), transparent) left / 1rem 100% no-repeat,
                     linear-gradient(to left, var(--shade), transparent) right / 1rem 100% no-repeat,
                     var(--paper); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 50%; }
caption { text-align: left; color: var(--soft); padding: .3rem 0; }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; }
th:first-child, td:first-child { text-align: left; }
th { font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line); }
tbody tr + tr td { border-top: 1px solid var(--line); }
figure { margin: 1.2rem 0; background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: .8rem; }
.drawing { overflow-x: auto; }
figure svg { display: block; width: 100%; min-width: 34rem; height: auto; }
figcaption { color: #5b6579; font-size: .92rem; padding-top: .5rem; }
.note, footer { color: var(--soft); font-size: .9rem; }
.alert { border-left: 4px solid #c8553d; padding: .2rem 0 .2rem .9rem; }
footer { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: 1rem; }
"""


class Page(eqx.Module):
    """A report: a title, an introduction, and parts in order. Text is escaped, so that nothing in it is executed.

    Each method returns a new page with one part more.
    """

    title: str
    lead: str = ""
    parts: tuple[str, ...] = ()

    def heading(self, text: str, *, level: int = 2) -> "Page":
        """A heading; level 3 is a subsection."""
        return self._with(f"<h{level}>{html.escape(text)}</h{level}>")

    def text(self, text: str, *, alert: bool = False) -> "Page":
        """A paragraph."""
        kind = ' class="alert"' if alert else ""
        return self._with(f"<p{kind}>{html.escape(text)}</p>")

    def note(self, text: str) -> "Page":
        """A paragraph in small print."""
        return self._with(f'<p class="note">{html.escape(text)}</p>')

    def code(self, text: str) -> "Page":
        """Preformatted text."""
        return self._with(f"<pre><code>{html.escape(text)}</code></pre>")

    def table(self, table: Table) -> "Page":
        """A table with its notes."""
        return self._with(table.to_html())

    def figure(self, figure: Any, caption: str) -> "Page":
        """A matplotlib figure with a caption, which is also its description for screen readers."""
        svg = _svg(figure).replace("<svg ", f'<svg role="img" aria-label="{html.escape(caption)}" ', 1)
        return self._with(
            f'<figure><div class="drawing">{svg}</div><figcaption>{html.escape(caption)}</figcaption></figure>'
        )

    def render(self) -> str:
        """The HTML text of the whole document."""
        title = html.escape(self.title)
        lead = f'<p class="lead">{html.escape(self.lead)}</p>' if self.lead else ""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="icon" href="data:,"><title>{title}</title><style>{_STYLE}</style></head>\n'
            f"<body><main><h1>{title}</h1>{lead}\n"
            + "\n".join(self.parts)
            + f"\n<footer>Made by irlax {__version__}.</footer></main></body></html>\n"
        )

    def write(self, path: str | Path) -> Path:
        """Write the document, completely or not at all; the path that was written."""
        path = Path(path)
        if path.is_dir():
            raise ValueError(f"{path} is a folder. Name the file to write, such as {path / 'report.html'}.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with storage.replacing(path) as file:
            file.write(self.render().encode("utf-8"))
        return path

    def _with(self, part: str) -> "Page":
        return Page(self.title, self.lead, (*self.parts, part))


def _svg(figure: Any) -> str:
    import matplotlib

    buffer = io.StringIO()
    # A fixed salt makes the SVG the same in every run.
    with matplotlib.rc_context({"svg.hashsalt": "irlax", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
