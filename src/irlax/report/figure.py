"""The figures that `plot` returns. Importing this module imports matplotlib."""

import io
import warnings

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A matplotlib figure that a notebook shows, although pyplot does not know it."""

    def __repr__(self) -> str:
        width, height = self.get_size_inches()
        return f"<Figure of {width:g} × {height:g} inches, {len(self.axes)} axes>"

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        with warnings.catch_warnings():
            # Names may have characters that the font does not have, which are drawn as boxes.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            self.savefig(picture, format="png", dpi=110, facecolor="white")
        return picture.getvalue()
