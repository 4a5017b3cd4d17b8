"""Functions that the tests of sweeps call in other processes."""

import os
import signal
from pathlib import Path

import numpy as np

import irlax as ix


def fitted(seed, objective, folder):
    """A small fit, saved to the task's folder."""
    rng = np.random.default_rng(seed)
    mdp = ix.MDP.from_dense(rng.dirichlet(np.ones(3), size=(3, 2)), [1.0, 0.0, 0.0], discount=0.9, horizon=4)
    features = rng.normal(size=(3, 2, 2))
    expert = ix.soft_plan(mdp, features @ [1.0, -0.5])
    fit = ix.MCEIRL(objective=objective, l2=1e-3, progress=False).fit(mdp, ix.LinearReward(features), expert)
    fit.save(folder / "fit")
    return {"first": float(fit.reward.weights[0]), "second": float(fit.reward.weights[1]), "nan": float("nan")}


def square(x, trouble=""):
    """x²; or trouble: an error, the death of the worker, or its death the first time."""
    if trouble == "error":
        raise ArithmeticError(f"no square of {x}")
    if trouble == "dies" or (trouble and not Path(trouble).exists()):
        if trouble != "dies":
            Path(trouble).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": x**2}


def squares(cases):
    """The same for several at once, which says how many they were."""
    return [{"square": case["x"] ** 2, "together": len(cases)} for case in cases]
