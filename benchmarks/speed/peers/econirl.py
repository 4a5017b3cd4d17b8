"""econirl's estimators of Rust's bus engines, on the data that it ships. Runs in econirl's own environment."""

import warnings
from typing import Any

import numpy as np
from benchmarks.speed import timing
from econirl.datasets import load_rust_bus, rust_bus_reward_spec
from econirl.estimators import MCEIRL, NFXP

warnings.simplefilter("ignore")
COLUMNS = {"state": "mileage_bin", "action": "replaced", "id": "bus_id"}


def nested(path: str, bins: int, discount: float) -> dict[str, Any]:
    """Its nested fixed point, standard errors included; the data and the transitions are saved for ours."""
    buses = load_rust_bus(original=True)
    model = NFXP(n_states=bins, discount=discount, utility=rust_bus_reward_spec(bins))
    seconds, _ = timing.once(lambda: model.fit(buses, **COLUMNS))
    np.savez(
        path,
        states=buses["mileage_bin"].to_numpy(),
        actions=buses["replaced"].to_numpy(),
        buses=buses["bus_id"].to_numpy(),
        periods=buses["period"].to_numpy(),
        transitions=np.asarray(model.transition_tensor_, np.float64),
        features=np.asarray(rust_bus_reward_spec(bins).feature_matrix, np.float64),
    )
    again, _ = timing.once(lambda: model.fit(buses, **COLUMNS))
    return {"cold_seconds": seconds, "warm_seconds": again} | _found(model)


def entropy(bins: int, discount: float) -> dict[str, Any]:
    """Its maximum causal entropy estimator, without standard errors."""
    features = np.asarray(rust_bus_reward_spec(bins).feature_matrix)
    names = ["operating_cost", "replacement_cost"]
    model = MCEIRL(n_states=bins, discount=discount, feature_matrix=features, feature_names=names, compute_se=False)
    seconds, _ = timing.once(lambda: model.fit(load_rust_bus(original=True), **COLUMNS))
    return {"cold_seconds": seconds} | _found(model)


def _found(model: Any) -> dict[str, Any]:
    return {
        "log_likelihood": float(model.log_likelihood_),
        "estimates": {name: float(value) for name, value in model.params_.items()},
        "standard_errors": {name: float(value) for name, value in (model.se_ or {}).items()},
        "converged": bool(model.converged_),
        "steps": int(model.n_iter_),
    }
