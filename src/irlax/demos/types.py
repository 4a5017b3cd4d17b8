"""Observed types: individuals with different observed covariates, whose rewards share their parameters."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos.demonstrations import Demonstrations
from irlax.rewards import LinearReward
from irlax.typing import Float, Int

#: Each type is planned for separately, and all are compiled into one program.
MOST = 200


class Types(eqx.Module):
    """Demonstrations split by covariates that do not change within an episode; type g has `values[g]`.

    Types are in lexicographic order of their values. Fit them together, with parameters in common:

        types = ix.by_type(demos, df, episode="id", columns=["size"])
        fit = ix.MCEIRL(objective="likelihood").fit([mdp] * types.num, types.interact(reward), types.demos)
    """

    demos: tuple[Demonstrations, ...]
    values: Float[np.ndarray, "G L"]
    names: tuple[str, ...] = eqx.field(static=True)
    #: The type of each episode.
    of_episode: Int[np.ndarray, " N"]

    @property
    def num(self) -> int:
        """G."""
        return len(self.demos)

    def interact(self, reward: LinearReward, features: Sequence[str] | None = None) -> list[LinearReward]:
        r"""For each type the reward in which covariates move the weights of features, all named ones by default.

        $$r_x(s,a) = \sum_k \left(\theta_k + \sum_l \theta_{kl}\,x_l\right)\phi_k(s,a)$$

        The θ_k come first, then θ_kl for each k and l, called "feature × covariate"; all types share them.
        """
        if not isinstance(reward, LinearReward):
            raise TypeError(f"Covariates interact with features: `reward` must be linear, but is {reward!r:.60}.")
        unknown = [name for name in features or () if name not in reward.names]
        if unknown:
            raise ValueError(f"`features` must be among {', '.join(reward.names)}, but has {checks.some(unknown)}.")
        moved = [k for k, name in enumerate(reward.names) if features is None or name in features]
        names = [*reward.names, *(f"{reward.names[k]} × {name}" for k in moved for name in self.names)]
        plain = np.asarray(reward.features)
        weights = np.concatenate([np.asarray(reward.weights), np.zeros(len(moved) * len(self.names))])
        return [
            LinearReward(
                np.concatenate([plain, *(plain[..., k, None] * row for k in moved)], axis=-1),
                weights,
                names=names,
                known=reward.known,
            )
            for row in self.values
        ]


def by_type(
    demos: Demonstrations,
    covariates: Any,
    *,
    episode: str | None = None,
    columns: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
) -> Types:
    """Split demonstrations into observed types: episodes whose covariates are equal.

    `covariates` is an array with a number, or a row of L numbers, for each episode (`names` gives their names), or a
    pandas frame: its column `episode` holds the label of the episode that a row is about (its number, if the
    demonstrations have no labels), and `columns` are the covariates to read. The frame may be the panel itself, with a
    row for each choice, as long as covariates do not change within an episode. A column of text becomes a 0/1 covariate
    for each of its values but the first, "column=value", in their order.

    Every type is planned for separately, so there should be tens of them at most: round a continuous covariate.
    """
    if not isinstance(demos, Demonstrations):
        raise TypeError(f"`demos` must be Demonstrations, but is a {type(demos).__name__}.")
    if hasattr(covariates, "columns"):
        table, names = _from_frame(demos, covariates, episode, columns)
    else:
        table = checks.as_floats("covariates", covariates)
        table = table[:, None] if table.ndim == 1 else table
        checks.has_shape("covariates", table, (demos.num_episodes, None), "(N,) or (N, L), a row for each episode")
        names = [f"x{i}" for i in range(table.shape[1])] if names is None else [str(name) for name in names]
        if len(names) != table.shape[1]:
            raise ValueError(f"`names` must name each of the {table.shape[1]} covariates, but there are {len(names)}.")
    checks.finite("covariates", table)
    values, of_episode = np.unique(table, axis=0, return_inverse=True)
    of_episode = of_episode.ravel()
    if len(values) > MOST:
        raise ValueError(
            f"There are {len(values)} distinct rows of covariates, and each is planned for separately. Round or group "
            f"them into at most {MOST}, better into tens."
        )
    parts = tuple(demos.select(of_episode == g) for g in range(len(values)))
    return Types(parts, values, tuple(names), of_episode)


def _from_frame(
    demos: Demonstrations, frame: Any, episode: str | None, columns: Sequence[str] | None
) -> tuple[Float[np.ndarray, "N L"], list[str]]:
    if episode is None or not columns or isinstance(columns, str):
        raise TypeError("With a frame, name the column of the individual, `episode=`, and a list of `columns=`.")
    missing = [name for name in (episode, *columns) if name not in frame.columns]
    if missing:
        raise ValueError(
            f"There is no column {checks.some(missing)}. The table has {checks.some(list(frame.columns))}."
        )
    once = frame[[episode, *columns]].drop_duplicates()
    changing = once[episode].duplicated()
    if changing.any():
        changed = once[episode][changing].tolist()
        raise ValueError(
            f"Covariates must not change within an episode, but do for {checks.some(changed)}. What changes belongs "
            f"to the state."
        )
    if once[list(columns)].isna().any(axis=None):
        raise ValueError("Covariates must be there for every episode, but some are missing. Fill them in.")
    rows = {label: row for row, label in enumerate(once[episode].tolist())}
    labels = list(range(demos.num_episodes)) if demos.labels is None else demos.labels.tolist()
    unknown = [label for label in labels if label not in rows]
    if unknown:
        raise ValueError(f"The table has no covariates of episodes {checks.some(unknown)}.")
    once = once.iloc[[rows[label] for label in labels]]
    names, parts = [], []
    for column in columns:
        if once[column].dtype.kind in "biuf":
            names.append(str(column))
            parts.append(once[column].to_numpy(np.float64))
            continue
        texts = once[column].astype(str).to_numpy(dtype=str)
        for value in np.unique(texts)[1:]:
            names.append(f"{column}={value}")
            parts.append((texts == value).astype(np.float64))
    if not parts:
        raise ValueError(f"All episodes are alike in {checks.some(list(columns))}: there is only one type.")
    return np.stack(parts, axis=1), names
