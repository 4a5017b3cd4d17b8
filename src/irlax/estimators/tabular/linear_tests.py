"""Linear combinations of parameters by their names, Wald tests of them, and comparisons of two estimates."""

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from irlax import checks
from irlax.analysis.standard_errors import Kind, not_identified
from irlax.estimators.tabular.inference import Cluster, all_demos
from irlax.estimators.tabular.regression import error_method, linear_table
from irlax.rewards.reward import flat
from irlax.tables import Table
from irlax.typing import Float

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit

#: The placeholder of the k-th parameter in an expression.
_PLACE = "_parameter_{}_"
#: Estimators are equivalent if the standard error of their difference is below this share of their own.
EQUIVALENT = 0.05


def combinations(fit: "TabularFit", expressions: Sequence[str], *, kind: Kind, cluster: Cluster, level: float) -> Table:
    """See `TabularFit.combinations`."""
    forms = [linear_form(text, fit.reward.parameter_names()) for text in _some(expressions)]
    constant = [text for text, (_, shift) in zip(expressions, forms, strict=True) if shift]
    if constant:
        raise ValueError(f"A combination has no constant term, but {checks.some(constant)} has; for tests use `wald`.")
    rows = np.stack([row for row, _ in forms])
    options: dict[str, Any] = {"kind": kind, "cluster": cluster, "level": level}
    return linear_table(fit, rows, **options, texts=expressions, title="Combinations of parameters")


def wald(fit: "TabularFit", restrictions: Sequence[str], *, kind: Kind, cluster: Cluster) -> Table:
    """See `TabularFit.wald`."""
    rows, values = [], []
    for text in _some(restrictions):
        left, *right = text.split("=")
        if len(right) > 1:
            raise ValueError(f"A restriction has one '=' at most, but {text!r} has {len(right)}.")
        row, shift = linear_form(left, fit.reward.parameter_names())
        other, other_shift = linear_form(right[0], fit.reward.parameter_names()) if right else (np.zeros_like(row), 0.0)
        rows.append(row - other)
        values.append(other_shift - shift)
    matrix, information = np.stack(rows), fit.information
    unknown = not_identified(information.hessian, matrix)
    if unknown.any():
        named = [text for text, no in zip(restrictions, unknown, strict=True) if no]
        raise ValueError(
            f"The data do not identify {checks.some(named)}, so it cannot be tested. The regression table names the "
            f"combinations that are identified."
        )
    gap = matrix @ flat(fit.reward.parameters) - np.array(values)
    row = chi_squared(gap, matrix @ information.identified_covariance(kind, cluster) @ matrix.T)
    notes = [f"H₀: {'; '.join(restrictions)}.", f"Covariance: {error_method(kind, cluster, 'frequency')}."]
    return Table(("χ²", "restrictions", "p"), [row], "Wald test", notes)


def compare_estimates(fit: "TabularFit", other: "TabularFit") -> Table:
    """See `TabularFit.compare_estimates`."""
    names, others = fit.reward.parameter_names(), other.reward.parameter_names()
    shared = [name for name in names if name in others]
    if not shared:
        raise ValueError("The two fits have no parameter in common: compare fits of formulae with the same terms.")
    # Choice by choice where individuals are too few to cluster by.
    pair, few = (fit, other), None in (fit.information.default_cluster, other.information.default_cluster)
    first, second = (_estimates(one, shared) for one in pair)
    rows_of = [one.information.influence(None if few else "episode") for one in pair]
    columns = [[own.index(name) for name in shared] for own in (names, others)]
    mine, theirs, how = _aligned(pair, [rows[:, k] for rows, k in zip(rows_of, columns, strict=True)], by_choice=few)
    covariance = (mine - theirs).T @ (mine - theirs)
    gap, errors = first - second, np.sqrt(np.diag(covariance))
    own = np.sqrt(np.maximum((mine**2).sum(axis=0), (theirs**2).sum(axis=0)))
    alike = errors < EQUIVALENT * own
    rows: list[tuple[Any, ...]] = [
        (name, float(a), float(b), float(a - b), None if same_error else float(error))
        for name, a, b, error, same_error in zip(shared, first, second, errors, alike, strict=True)
    ]
    apart = _directions_apart(covariance, mine.T @ mine + theirs.T @ theirs)
    if not len(apart):
        notes = [
            "The two estimators are equivalent in large samples: their difference is of smaller order than either's "
            "error, and has no standard error of its own.",
            f"It is at most {np.abs(gap / np.where(own > 0, own, 1)).max():.2g} standard errors of the estimates.",
        ]
    else:
        chi, restrictions, p = chi_squared(apart @ gap, apart @ covariance @ apart.T)
        notes = [
            f"H₀: all differences are 0; χ² = {chi:.4g}, {restrictions} restrictions, p = {p:.4g}.",
            f"Standard errors: of the differences{'' if few else ', clustered by individual'}, estimates {how}.",
        ]
        if len(apart) < len(shared):
            notes.append(
                "The two estimators are equivalent in large samples in the other directions, which are not tested, and "
                "in parameters without a standard error."
            )
    return Table(("parameter", "this", "other", "difference", "s.e."), rows, "Comparison of two estimates", notes)


def _directions_apart(covariance: Float[np.ndarray, "r r"], own: Float[np.ndarray, "r r"]) -> Float[np.ndarray, "d r"]:
    """Combinations in which two estimators differ by more than `EQUIVALENT`; of others the difference is noise."""
    units = np.sqrt(np.diag(own))
    units = np.where(units > 0, units, 1.0)
    sizes, axes = np.linalg.eigh(own / np.outer(units, units))
    kept = sizes > 1e-10 * max(sizes.max(initial=0.0), 1e-300)
    whitened = axes[:, kept] / np.sqrt(sizes[kept]) / units[:, None]
    shares, turned = np.linalg.eigh(whitened.T @ covariance @ whitened)
    # Of two estimators of the same size the covariances add up to twice that of one.
    return (whitened @ turned[:, 2 * shares > EQUIVALENT**2]).T


def linear_form(text: str, names: Sequence[str]) -> tuple[Float[np.ndarray, " K"], float]:
    """The coefficients of named parameters in an expression such as "2*replace - mileage:keep", and its constant."""
    if not isinstance(text, str):
        raise TypeError(f"A combination is written as text, such as '{names[0]}', but is a {type(text).__name__}.")
    # The longest name first, because one may be a part of another.
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    places = {name: _PLACE.format(k) for k, name in enumerate(names)}
    plain = re.sub(pattern, lambda found: places[found[0]], text.replace("−", "-").replace("·", "*"))
    try:
        row, constant = _evaluated(ast.parse(plain.strip(), mode="eval").body, len(names))
    except (SyntaxError, ValueError, ZeroDivisionError):
        raise ValueError(
            f"{text!r} must be a linear combination of parameters, by their names: {checks.some(list(names))}."
        ) from None
    return row, constant


def _evaluated(node: ast.expr, num: int) -> tuple[Float[np.ndarray, " K"], float]:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return np.zeros(num), float(node.value)
    if isinstance(node, ast.Name) and (found := re.fullmatch(_PLACE.format(r"(\d+)"), node.id)):
        return np.eye(num)[int(found[1])], 0.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        sign = -1 if isinstance(node.op, ast.USub) else 1
        row, constant = _evaluated(node.operand, num)
        return sign * row, sign * constant
    if not isinstance(node, ast.BinOp):
        raise ValueError("not linear")
    (a, x), (b, y) = _evaluated(node.left, num), _evaluated(node.right, num)
    if isinstance(node.op, ast.Add):
        return a + b, x + y
    if isinstance(node.op, ast.Sub):
        return a - b, x - y
    if isinstance(node.op, ast.Mult) and not (a.any() and b.any()):
        return (y * a, x * y) if a.any() else (x * b, x * y)
    if isinstance(node.op, ast.Div) and not b.any():
        return a / y, x / y
    raise ValueError("not linear")


def _some(texts: Sequence[str]) -> Sequence[str]:
    if not texts:
        raise TypeError("Name at least one combination of parameters.")
    return texts


def chi_squared(gap: Float[np.ndarray, " r"], covariance: Float[np.ndarray, "r r"]) -> tuple[float, int, float]:
    """d'V⁺d, the rank of V, and its p; directions in which nothing varies have no part in it."""
    units = np.sqrt(np.maximum(np.diag(covariance), 0))
    units = np.where(units > 0, units, 1.0)
    sizes, axes = np.linalg.eigh(covariance / np.outer(units, units))
    kept = sizes > 1e-10 * max(sizes.max(initial=0.0), 1e-300)
    statistic = float((((gap / units) @ axes[:, kept]) ** 2 / sizes[kept]).sum())
    return statistic, int(kept.sum()), float(scipy.special.chdtrc(int(kept.sum()), statistic)) if kept.any() else 1.0


def _estimates(fit: "TabularFit", shared: Sequence[str]) -> Float[np.ndarray, " r"]:
    """The estimates of some parameters, by name; an error if one is not identified."""
    names = fit.reward.parameter_names()
    which = [names.index(name) for name in shared]
    unknown = not_identified(fit.information.hessian, np.eye(len(names))[which])
    if unknown.any():
        named = [name for name, no in zip(shared, unknown, strict=True) if no]
        raise ValueError(f"The data do not identify {checks.some(named)}. Compare fits without it, or fix it.")
    return flat(fit.reward.parameters)[which]


def _aligned(
    fits: Sequence["TabularFit"], rows: Sequence[Float[np.ndarray, "n r"]], *, by_choice: bool
) -> tuple[Float[np.ndarray, "m r"], Float[np.ndarray, "m r"], str]:
    """The rows of two fits side by side, 0 where one has no such individual (or choice); and what they share, in words.

    Individuals are the same if they have the same label, however a fit divides them into types.
    """
    keys = [_labels(fit, by_choice=by_choice) for fit in fits]
    if any(label is None for each in keys for label in each):
        same = len(rows[0]) == len(rows[1])
        keys = [list(range(len(each))) if same else [(k, i) for i in range(len(each))] for k, each in enumerate(rows)]
    every = {key: place for place, key in enumerate(dict.fromkeys([*keys[0], *keys[1]]))}
    found = [np.zeros((len(every), part.shape[1])) for part in rows]
    for table, part, own in zip(found, rows, keys, strict=True):
        np.add.at(table, [every[key] for key in own], part)
    both = len(set(keys[0]) & set(keys[1]))
    if both == 0:
        return found[0], found[1], "of different individuals, taken to be independent"
    return (
        found[0],
        found[1],
        "of the same individuals" if both == len(every) else "of individuals that are partly the same",
    )


def _labels(fit: "TabularFit", *, by_choice: bool) -> list[Any]:
    """The label of each individual, or with the time of each of its choices; None where it has none."""
    found: list[Any] = []
    for demos in all_demos(fit.experts):
        labels = [None] * demos.num_episodes if demos.labels is None else demos.labels.tolist()
        pairs = zip(demos.episode.tolist(), demos.times.tolist(), strict=True)
        found += [None if labels[e] is None else (labels[e], t) for e, t in pairs] if by_choice else labels
    return found
