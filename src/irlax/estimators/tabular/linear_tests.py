"""Linear combinations of parameters by their names, Wald tests of them, and comparisons of two estimates."""

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtrc

from irlax import checks
from irlax.analysis.standard_errors import Kind, not_identified
from irlax.estimators.tabular.inference import Cluster
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
    parts = [_influence(one, [own.index(name) for name in shared]) for one, own in ((fit, names), (other, others))]
    (first, mine), (second, theirs) = parts
    same = len(mine) == len(theirs) and _labels(fit) == _labels(other)
    covariance = (mine - theirs).T @ (mine - theirs) if same else mine.T @ mine + theirs.T @ theirs
    gap, errors = first - second, np.sqrt(np.diag(covariance))
    own = np.sqrt(np.maximum((mine**2).sum(axis=0), (theirs**2).sum(axis=0)))
    alike = bool((errors < EQUIVALENT * own).all())
    rows: list[tuple[Any, ...]] = [
        (name, float(a), float(b), float(a - b), None if alike else float(error))
        for name, a, b, error in zip(shared, first, second, errors, strict=True)
    ]
    if alike:
        notes = [
            "The two estimators are equivalent in large samples: their difference is of smaller order than either's "
            "error, and has no standard error of its own.",
            f"It is at most {np.abs(gap / np.where(own > 0, own, 1)).max():.2g} standard errors of the estimates.",
        ]
    else:
        chi, restrictions, p = chi_squared(gap, covariance)
        how = "of the same individuals" if same else "of different individuals, taken to be independent"
        notes = [
            f"H₀: all differences are 0; χ² = {chi:.4g}, {restrictions} restrictions, p = {p:.4g}.",
            f"Standard errors: of the differences, clustered by individual, estimates {how}.",
        ]
    return Table(("parameter", "this", "other", "difference", "s.e."), rows, "Comparison of two estimates", notes)


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
    return statistic, int(kept.sum()), float(chdtrc(int(kept.sum()), statistic)) if kept.any() else 1.0


def _influence(fit: "TabularFit", which: Sequence[int]) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, "N r"]]:
    """Estimates of some parameters, and what each individual adds to them; an error if one is not identified."""
    chosen = np.eye(fit.reward.num_parameters)[list(which)]
    unknown = not_identified(fit.information.hessian, chosen)
    if unknown.any():
        named = [fit.reward.parameter_names()[k] for k, no in zip(which, unknown, strict=True) if no]
        raise ValueError(f"The data do not identify {checks.some(named)}. Compare fits without it, or fix it.")
    return flat(fit.reward.parameters)[list(which)], fit.information.influence("episode")[:, list(which)]


def _labels(fit: "TabularFit") -> list[Any]:
    found = [expert.demos.labels for expert in fit.experts if expert.demos is not None]
    return [None if labels is None else labels.tolist() for labels in found]
