"""Options that several commands share, with one name and one help text each."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Over = Literal["s", "sa", "sas"]

DATA, REWARD, METHOD, RESULT = "The data", "The reward", "The method", "The result"


def option(*names: str, text: str, panel: str) -> Any:
    """An option under a heading of the help."""
    return typer.Option(*names, help=text, rich_help_panel=panel)


MDPPath = Annotated[Path, typer.Argument(help="The MDP: an .npz file.")]
RunPath = Annotated[Path, typer.Argument(help="A folder that `irlax fit` or `fit.save` wrote.")]
Features = Annotated[
    Path | None,
    option("--features", text="A linear reward in these features: .npy, S×K, S×A×K or S×A×S×K.", panel=REWARD),
]
FeatureNames = Annotated[
    str | None, option("--feature-names", text="Names of the K features, separated by commas.", panel=REWARD)
]
Reward = Annotated[
    Over | None, option("--reward", text="A tabular reward over states, state–actions or transitions.", panel=REWARD)
]
Key = Annotated[int, option("--key", text="The random seed.", panel=METHOD)]
AsJson = Annotated[bool, option("--json", text="Print JSON.", panel=RESULT)]


def emit(text: Any, record: dict[str, Any], *, as_json: bool) -> None:
    """Print a result as text, or its record as JSON."""
    from irlax import records

    print(records.as_json(record).decode() if as_json else text)
