"""`irlax diagnose`: what demonstrations in an MDP can reveal of a reward, before there are any."""

from pathlib import Path
from typing import Annotated

import typer

from irlax.cli.options import AsJson, FeatureNames, Features, MDPPath, Reward, emit


def diagnose(
    mdp: MDPPath,
    *,
    features: Features = None,
    feature_names: FeatureNames = None,
    reward: Reward = None,
    out: Annotated[Path | None, typer.Option(help="Also write a page (.html) with drawings.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print which rewards a policy in this MDP can reveal, and which it cannot.

    Linked states and decomposability, published rank conditions, and the directions of the reward's
    parameters that do not change the policy. Without --features or --reward, for a reward over states.
    """
    from irlax.analysis.diagnosis import diagnose as diagnose_mdp
    from irlax.analysis.diagnosis import diagnosis_page
    from irlax.cli.inputs import reward_of
    from irlax.mdp.npz import load_mdp

    over = "s" if features is None and reward is None else reward
    found = diagnose_mdp(load_mdp(mdp), reward_of(features, feature_names, over))
    record = found.record()
    text = str(found.summary())
    if out is not None:
        page = diagnosis_page(found).write(out)
        record, text = record | {"page": str(page)}, f"{text}\nPage: {page}"
    emit(text, record, as_json=as_json)
