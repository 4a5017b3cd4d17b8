"""Array types and axis names.

Axes, everywhere in this library: ``T`` decisions in time, ``S`` states, ``A`` actions, ``B`` successors of
a state and action, ``K`` features, ``N`` episodes, ``n`` observed choices of all episodes together.
"""

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, Key, PRNGKeyArray, Real, Shaped, UInt

#: Results reach the user as NumPy arrays and stay JAX arrays inside a trace, so every signature admits both.
Array = jax.Array | np.ndarray

Scalar = Float[Array, ""] | float | np.floating

__all__ = ["Array", "Bool", "Float", "Int", "Key", "PRNGKeyArray", "Real", "Scalar", "Shaped", "UInt"]
