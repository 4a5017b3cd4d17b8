"""Widgets for notebooks (`pip install 'irlax[notebook]'`)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from irlax.widgets.grid_editor import GridEditor

__all__ = ["GridEditor"]


def __getattr__(name: str) -> Any:
    # On demand: anywidget is optional, and imports IPython.
    if name != "GridEditor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import anywidget  # noqa: F401
    except ImportError:
        raise ImportError("Widgets need anywidget, which is not installed: `pip install 'irlax[notebook]'`.") from None
    from irlax.widgets.grid_editor import GridEditor

    return GridEditor
