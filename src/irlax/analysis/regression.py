"""Estimates as economists read them: one line a parameter, and the statistics of the fit below."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from irlax.analysis.standard_errors import confidence_interval
from irlax.tables import Summary, Table, pairs
from irlax.typing import Float


def regression_table(
    names: Sequence[str],
    estimates: Float[np.ndarray, " K"],
    errors: Float[np.ndarray, " K"],
    *,
    level: float,
    title: str,
    how: str,
    log_likelihood: float,
    rank: int,
    observations: float,
    facts: Sequence[tuple[str, Any]],
    marks: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Summary:
    """Estimate, standard error, z, p and interval of each parameter; log likelihood, AIC and BIC; more `facts`.

    With n observations AIC = 2K − 2·log L (Akaike 1974) and BIC = K·log n − 2·log L (Schwarz 1978), where K is the
    `rank`: as many parameters as the data identify, since others change no likelihood. p is of the two-sided test that
    the parameter is zero. `how` says how the errors were found, `marks` whether each parameter is identified, and
    `notes` stand below.
    """
    columns, rows = estimate_rows("parameter", names, estimates, errors, level)
    if marks is not None:
        columns, rows = (*columns, "identified"), [(*row, mark) for row, mark in zip(rows, marks, strict=True)]
    below = [
        ("log likelihood", decimals(log_likelihood)),
        ("AIC", decimals(2 * rank - 2 * log_likelihood)),
        ("BIC", decimals(rank * np.log(observations) - 2 * log_likelihood)),
        *facts,
    ]
    return Summary([Table(columns, rows, title, (f"Standard errors: {how}.", *notes)), pairs("", below)])


def estimate_rows(
    head: str, names: Sequence[str], estimates: Float[np.ndarray, " K"], errors: Float[np.ndarray, " K"], level: float
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The columns and rows of a table of estimates; cells are empty where there is no standard error."""
    low, high = confidence_interval(estimates, errors, level).T
    z = estimates / np.where(errors > 0, errors, np.nan)
    cells = [estimates, errors, z, scipy.special.erfc(np.abs(z) / np.sqrt(2)), low, high]
    rows = [(name, *map(_cell, row)) for name, *row in zip(names, *cells, strict=True)]
    return (head, "estimate", "s.e.", "z", "p", f"{100 * level:.4g}% low", f"{100 * level:.4g}% high"), rows


def decimals(value: float) -> str:
    """Three decimals, as likelihoods are printed, and a true minus sign."""
    return f"{value:.3f}".replace("-", "−")


def pseudo_r_squared(log_likelihood: float, null: float) -> float | None:
    """McFadden's (1974) 1 − log L / log L₀; None where the null model is already certain."""
    return None if null == 0 else 1 - log_likelihood / null


def _cell(value: float) -> float | None:
    """A number, or an empty cell where there is none."""
    return None if np.isnan(value) else float(value)
