"""`irlax diagnose`: what an MDP lets demonstrations reveal, before there are any."""

from pathlib import Path
from typing import Annotated

import typer


def diagnose(
    mdp: Annotated[Path, typer.Argument(help="An MDP file (.npz), as `irlax fit` takes it.")],
    *,
    features: Annotated[Path | None, typer.Option(help="Features (.npy), [S,K], [S,A,K] or [S,A,S,K].")] = None,
    feature_names: Annotated[str | None, typer.Option(help="Names of the features, with commas between.")] = None,
    reward: Annotated[str | None, typer.Option(help="A table over s, sa or sas; s if nothing is said.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write a page (.html) with drawings.")] = None,
) -> None:
    """Say which rewards a policy in this MDP can reveal, and which it hides.

    Linked states and decomposability, published rank conditions, and the directions of the reward's
    parameters that leave the policy as it is.
    """
    from irlax.cli.inputs import reward_of
    from irlax.mdp.files import load_mdp_file
    from irlax.report.diagnosis import diagnose as facts_about
    from irlax.report.diagnosis import diagnosis_page

    over = "s" if features is None and reward is None else reward
    file, learned = load_mdp_file(mdp), reward_of(features, feature_names, over)
    print(facts_about(file, learned))
    if out is not None:
        print(f"Page: {diagnosis_page(file, learned).write(out)}")
