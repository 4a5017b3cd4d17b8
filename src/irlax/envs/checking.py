"""Whether demonstrations fit an environment."""

from typing import Any

import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.demos.possible import refuse_rows
from irlax.spaces import Discrete


def check_demos(env: Any, demos: Demonstrations) -> None:
    """Raise a ValueError or TypeError that names what in the demonstrations cannot come from `env`."""
    if not isinstance(demos, Demonstrations):
        raise TypeError(f"`demos` must be Demonstrations, but is a {type(demos).__name__}.")
    if demos.observations is None:
        raise TypeError(
            "These demonstrations have states but no observations. Collect them in the environment: "
            "`envs.collect(env, policy, num=..., key=key)`."
        )
    if demos.row_weights is not None:
        raise ValueError(
            "Estimators that act in an environment take weights of episodes, not of rows. Leave `row_weights` out."
        )
    size = env.observation_size
    for name in ("observations", "next_observations"):
        array = getattr(demos, name)
        if array is not None:
            checks.has_shape(name, array, (demos.num_steps, size), f"(n, {size}), as the environment shows them")
            refuse_rows(demos, ~np.isfinite(array).all(axis=1), array, f"{name} must be finite")
    _check_actions(env, demos)
    if demos.rewards is not None:
        refuse_rows(demos, ~np.isfinite(demos.rewards), demos.rewards, "rewards must be finite")
    late = demos.times >= env.horizon
    refuse_rows(demos, late, demos.times, f"time must lie below the horizon {env.horizon}")


def _check_actions(env: Any, demos: Demonstrations) -> None:
    actions = demos.actions
    if not demos.has_actions:
        return
    if isinstance(env.actions, Discrete):
        num = env.actions.num
        if actions.dtype.kind not in "iu":
            raise TypeError(f"The environment has {num} discrete actions, but the demonstrations' are {actions.dtype}.")
        checks.has_shape("actions", actions, (demos.num_steps,), "(n,), discrete")
        refuse_rows(demos, (actions < 0) | (actions >= num), actions, f"action must lie in 0..{num - 1}")
        return
    low, high = np.asarray(env.actions.low), np.asarray(env.actions.high)
    if actions.dtype.kind != "f":
        raise TypeError(f"The environment has continuous actions, but the demonstrations' are {actions.dtype}.")
    checks.has_shape("actions", actions, (demos.num_steps, len(low)), f"(n, {len(low)}), continuous")
    # A bound that was rounded to single precision is still that bound.
    slack = 1e-5 * np.maximum(1, high - low)
    outside = np.asarray(np.any((actions < low - slack) | (actions > high + slack), axis=1))
    bounds = ", ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
    refuse_rows(demos, outside, actions, f"action must lie in {bounds}")
