"""exp and log in float64, for sums of exponentials on a CPU.

A soft backup takes an exponential for each action and a logarithm for each state, which together are most of its time
where memory is not. XLA's take care of arguments that do not occur there. These are as good as exact where they are
used, and save a third of a backup of 10⁴ states and a tenth of one of 10⁶. Operations that XLA thinks of as expensive,
such as division, are avoided: it would not compile them into one loop with the rest. Other precisions and devices use
XLA's.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from irlax.typing import Array, Float


def exp(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """exp x, to two units in the last place; 0 where it would be below 1e-307, +inf where it would be above 1e304."""
    return jnp.exp(x) if _left_to_xla(x) or x.size > _LARGE else _exp.bind(x)


def log(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log x, to two units in the last place, unless x is so small as to be denormal. Of 0, +inf and NaN as usual."""
    return jnp.log(x) if _left_to_xla(x) else _log.bind(x)


def _left_to_xla(x: Float[Array, "*shape"]) -> bool:
    return x.dtype != jnp.float64 or x.size < _SMALL or jax.default_backend() != "cpu"


def _fast_exp(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    bounded = jnp.clip(x, _SMALLEST, _LARGEST)
    k = jnp.round(bounded * (1 / math.log(2)))
    r = bounded - k * _LOG_2_HIGH - k * _LOG_2_LOW
    bits = jax.lax.bitcast_convert_type(_polynomial(_EXP_SERIES, r), jnp.int64)
    # By way of 32 bits, for which processors have an instruction.
    exponent = k.astype(jnp.int32).astype(jnp.int64) << 52
    result = jax.lax.bitcast_convert_type(bits + exponent, jnp.float64)
    return jnp.where(x < _LARGEST, jnp.where(x < _SMALLEST, 0, result), x * jnp.inf)


def _fast_log(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    # x = 2ᵏ·(1 + f) with f within [√½ − 1, √2 − 1].
    bits = jax.lax.bitcast_convert_type(x, jnp.int64)
    k = (bits - _ROOT_HALF) >> 52
    f = jax.lax.bitcast_convert_type(bits - (k << 52), jnp.float64) - 1
    result = k * math.log(2) + (f - f * f / 2 + f * f * f * _polynomial(_LOG_SERIES, f))
    return jnp.where(x < jnp.inf, jnp.where(x > 0, result, -jnp.inf), x)


def _polynomial(coefficients: tuple[float, ...], x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    highest, second, *rest = coefficients
    return functools.reduce(lambda result, next: result * x + next, rest, highest * x + second)


#: Fewer numbers than this are not worth the time that it takes to compile more operations.
_SMALL = 512
#: From so many numbers on, memory is what a loop waits for, and XLA's exponential leaves more room to fetch ahead.
_LARGE = 100_000
#: Arguments whose exponential is neither denormal nor infinite.
_SMALLEST, _LARGEST = -708.0, 700.0
#: log 2 in two parts, of which the first has enough zeros at its end for its multiples to be exact.
_LOG_2_HIGH = 0.6931471803691238
_LOG_2_LOW = 1.9082149292705877e-10
_EXP_SERIES = tuple(1 / math.factorial(n) for n in range(12, -1, -1))
_ROOT_HALF = np.float64(math.sqrt(0.5)).view(np.int64)
#: (log(1 + f) − f + f²/2)/f³ by powers of f, the highest first: interpolated at Chebyshev's points, 4e-17 off at most.
_LOG_SERIES = (
    0.027053075892336406,
    -0.05959173018943104,
    0.06362025303018654,
    -0.05635857394607171,
    0.05706613674459082,
    -0.06213325491398715,
    0.06680348247882924,
    -0.07146922611081985,
    0.07691741139835176,
    -0.08333110642999564,
    0.09090921076038966,
    -0.10000006590426393,
    0.11111111008787179,
    -0.12499999898432576,
    0.14285714285634818,
    -0.16666666667365992,
    0.20000000000003482,
    -0.24999999999998596,
    0.3333333333333333,
)


def _elementwise(name: str, compute: Callable[[Array], Array]) -> Primitive:
    """A primitive, whose derivative is a rule: second derivatives of a `custom_jvp` are lost within `lax.scan`."""
    primitive = Primitive(name)
    primitive.def_impl(jax.jit(compute))
    primitive.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(primitive, mlir.lower_fun(compute, multiple_results=False))
    batching.defvectorized(primitive)
    return primitive


_exp = _elementwise("fast_exp", _fast_exp)
ad.defjvp2(_exp, lambda tangent, result, x: tangent * result)
_log = _elementwise("fast_log", _fast_log)
ad.defjvp(_log, lambda tangent, x: tangent / x)
