"""A thousand malformed frames: each makes a panel, or an error of irlax's own that says what is wrong."""

import traceback

import numpy as np
import pandas as pd
import pytest

import irlax as ix
from tests.panels.panels import ROLES, machines

FRAME = machines(individuals=6, periods=12, seed=2)
OPTIONS = {"transitions": ix.panels.Counts(unseen="any-action", smoothing=0.5)}


def value(rng):
    """Something that may stand in a cell."""
    pool = [None, np.nan, np.inf, -np.inf, -1, 0, 1, 2.5, 1e300, 2**70, "", "keep", "3", b"x", (1, 2), [1], {}, pd.NaT]
    pool += [pd.Timestamp("2020-01-01"), True, 1 + 2j, np.float32(0.1), "\0", "é", object(), pd.Timedelta(1, "D")]
    return pool[rng.integers(len(pool))]


def corrupted(rng):
    """A frame and arguments with one to three faults."""
    frame, names, options = FRAME.copy(), dict(ROLES), dict(OPTIONS)
    for _ in range(rng.integers(1, 4)):
        column = str(rng.choice(list(frame.columns))) if len(frame.columns) else "id"
        match rng.integers(14):
            case 0:
                cells = frame[column].astype(object) if column in frame.columns else None
                if cells is not None and len(cells):
                    cells.iloc[rng.integers(len(cells))] = value(rng)
                    frame[column] = cells
            case 1:
                frame = frame.drop(columns=column, errors="ignore")
            case 2:
                frame = frame.rename(columns={column: 7 if rng.random() < 0.3 else "other"})
            case 3:
                frame = pd.concat([frame, frame.iloc[: int(rng.integers(0, 4))]])
            case 4:
                frame = frame.iloc[: int(rng.integers(0, 3))]
            case 5:
                frame = frame.assign(**{column: [value(rng)] * len(frame)}) if isinstance(column, str) else frame
            case 6:
                kind = [str, float, "category", "datetime64[ns]", "string", "Int64", bool, object][rng.integers(8)]
                try:
                    frame = frame.assign(**{column: frame[column].astype(kind)})
                except Exception:
                    continue
            case 7:
                role = str(rng.choice(list(names)))
                names[role] = [None, 3, "nothing", [], ["id"], {"mileage": 4}, {"mileage": "x"}, ("id", "t")][
                    rng.integers(8)
                ]
            case 8:
                options["weight"] = column
            case 9:
                options["exit"] = column
            case 10:
                options["covariates"] = [column]
            case 11:
                options["actions"] = [{"keep": "a"}, ["keep"], {"keep": "x", "replace": "x"}, "keep", 5][
                    rng.integers(5)
                ]
            case 12:
                levels = [
                    ix.panels.Quantiles(3),
                    ix.panels.Edges([0, 1]),
                    ix.panels.Levels(["a"]),
                    lambda x: x[:3],
                    len,
                ]
                names["state"] = {"mileage": levels[rng.integers(5)]}
            case 13:
                frame.columns = pd.Index([column] * len(frame.columns)) if rng.random() < 0.3 else frame.columns
                options["available"] = [{"keep": "nothing > 1"}, {"x": "mileage > 1"}, {"keep": "mileage"}][
                    rng.integers(3)
                ]
    return frame, names, options


def raised_by_irlax(error):
    return "/irlax/" in traceback.extract_tb(error.__traceback__)[-1].filename.replace("\\", "/")


def test_a_thousand_malformed_frames_have_a_message_each(as_a_user):
    made = 0
    for seed in range(1000):
        frame, names, options = corrupted(np.random.default_rng(seed))
        try:
            ix.Panel.from_frame(frame, **names, **options)
            made += 1
        except (ValueError, TypeError) as error:
            assert raised_by_irlax(error), f"seed {seed}: {type(error).__name__}: {error}"
            assert len(str(error)) > 30, f"seed {seed}: {error}"
    assert 30 < made < 500


@pytest.mark.parametrize(
    ("formula", "complaint"),
    [
        ("", "has no terms"),
        ("nothing", "could not be evaluated"),
        ("mileage:", "could not be evaluated"),
        ("mileage ~ keep", "no left-hand side"),
        ("I(1/(mileage-mileage))", "not finite"),
        ("log(mileage):keep", "not finite"),
        ("I(mileage*0)", "is 0 in all states"),
        (3, "must be text"),
        ({}, "must map each parameter"),
        ({"a": "mileage", "b": ")("}, "could not be evaluated"),
        ("mileage:`0` + `1`", "stands for a constant"),
    ],
)
def test_formulae_that_cannot_be_evaluated_say_which_names_there_are(formula, complaint, as_a_user):
    panel = ix.Panel.from_frame(FRAME, **ROLES, **OPTIONS)
    with pytest.raises((ValueError, TypeError), match=complaint) as caught:
        panel.reward(formula)
    assert raised_by_irlax(caught.value)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"available": ["replace"]}, "must map labels to conditions"),
        ({"transitions": {"mileage": ix.panels.Chain(given=["mileage"])}}, "must name other state variables"),
        ({"transitions": np.full((6, 2, 6), np.nan)}, "must be finite"),
        ({"transitions": np.ones((6, 2, 6))}, "must sum to 1"),
    ],
)
def test_wrong_options_are_named(more, complaint, as_a_user):
    with pytest.raises((ValueError, TypeError), match=complaint) as caught:
        ix.Panel.from_frame(machines(), **ROLES, **more)
    assert raised_by_irlax(caught.value)


def test_periods_that_never_follow_each_other_are_named():
    frame = machines()
    with pytest.raises(ValueError, match="divide `t` by 12"):
        ix.Panel.from_frame(frame.assign(t=12 * frame.t), **ROLES)
