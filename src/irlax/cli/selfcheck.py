"""The checks of `irlax doctor`: small problems with known answers."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Check(NamedTuple):
    """The result of one check."""

    name: str
    passed: bool
    detail: str
    seconds: float


def run_checks() -> list[Check]:
    """The results of all checks."""
    return [_run_check(name, check) for name, check in CHECKS.items()]


def _run_check(name: str, check: Callable[[], str]) -> Check:
    started = time.perf_counter()
    try:
        passed, detail = True, check()
    # Any error is reported as a failed check, which is the purpose of this command.
    except Exception as error:
        passed, detail = False, f"{type(error).__name__}: {error}"
    return Check(name, passed, detail, round(time.perf_counter() - started, 3))


def _plans_as_by_hand() -> str:
    from irlax.envs import RiskyPath
    from irlax.planning import path_plan, soft_plan
    from irlax.reproduce.risky_path import causal_risk, path_risk

    env = RiskyPath(discount=0.1)
    plans = {"causal": (soft_plan, causal_risk), "path": (path_plan, path_risk)}
    difference = max(
        abs(float(plan(env.mdp, env.reward).policy[0, env.RISKY]) - by_hand(0.1)) for plan, by_hand in plans.values()
    )
    return _within("largest difference", difference, 1e-9)


def _gradient_is_occupancy() -> str:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from irlax.envs import RandomMDP
    from irlax.planning import soft_plan, visits
    from irlax.precision import scope

    env = RandomMDP(6, 3, discount=0.99)
    expected = visits(env.mdp, soft_plan(env.mdp, env.reward))
    with scope():
        slope = jax.grad(lambda reward: env.mdp.initial @ soft_plan(env.mdp, reward).value)(jnp.asarray(env.reward))
    return _within("largest difference", float(np.abs(np.asarray(slope) - expected).max() / expected.max()), 1e-9)


def _fit_is_certified() -> str:
    import numpy as np

    from irlax.envs import RandomMDP
    from irlax.estimators.tabular import MCEIRL
    from irlax.planning import soft_plan
    from irlax.rewards import LinearReward
    from irlax.rewards.reward import flat

    mdp = RandomMDP(6, 3, horizon=5).mdp
    features, truth = np.random.default_rng(0).normal(size=(6, 3, 2)), np.array([1.0, -0.5])
    fit = MCEIRL(progress=False).fit(mdp, LinearReward(features), soft_plan(mdp, features @ truth))
    if not fit.converged or fit.certificate is None:
        raise ArithmeticError(f"the fit {fit.status.value}")
    _within("off the truth by", float(np.abs(flat(fit.reward.parameters) - truth).max()), 1e-6)
    return _within("largest gradient", fit.certificate.gradient, 1e-8)


def _files_round_trip() -> str:
    import numpy as np

    from irlax.demos import Demonstrations, read_demos, write_demos

    states = np.array([[0, 1, 2], [1, 2, 0]])
    demos = Demonstrations.from_arrays(states, states % 2)
    kinds = (".csv", ".parquet", ".npz")
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            path = Path(folder) / f"demos{kind}"
            write_demos(path, demos)
            if not np.array_equal(read_demos(path).actions, demos.actions):
                raise ArithmeticError(f"{kind} files are not read as they were written")
    return f"{', '.join(kinds)} written and read"


def _programs_are_kept() -> str:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from irlax.compilation import use_compilation_cache

    folder = use_compilation_cache()
    if folder is None:
        return "compiled programs are not kept: the folder cannot be written to, or IRLAX_COMPILATION_CACHE is off"
    found = []
    jax.monitoring.register_event_listener(lambda event, **_: found.append(event.rpartition("/")[2]))
    shift, threshold = float(time.time_ns() % 2**40), "jax_persistent_cache_min_compile_time_secs"
    before = getattr(jax.config, threshold)
    jax.config.update(threshold, 0.0)
    try:
        for _ in range(2):
            # A new function each time, so that the second program is not found in this process, but on disk.
            jax.jit(lambda x: jnp.sin(x) + shift)(np.ones(3)).block_until_ready()
    finally:
        jax.config.update(threshold, before)
    if "cache_hits" not in found:
        raise ArithmeticError(f"a program that was compiled twice was not found in {folder}")
    return f"kept in {folder}"


def _within(what: str, size: float, bound: float) -> str:
    if not size <= bound:
        raise ArithmeticError(f"{what}: {size:.2g}, more than {bound:.0e}")
    return f"{what}: {size:.1e}"


CHECKS: dict[str, Callable[[], str]] = {
    "plans agree with those by hand": _plans_as_by_hand,
    "the gradient of the value is the occupancy": _gradient_is_occupancy,
    "a fit converges, with a certificate": _fit_is_certified,
    "demonstrations in files": _files_round_trip,
    "compiled programs": _programs_are_kept,
}
