"""Do intervals of fits to panels cover the truth? Simulated panels from the frame on, with estimated transitions.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.quality.panels --processes 16

Four problems. "lives": a continuous stock that wears, is observed in bins and renewed at a cost that differs between
two observed types of individuals; lives end at random, and a tenth of the rows is missing. The agent plans on 120
points, the panel sees sixteen bins by quantiles. "types": machines of owners of two types that nobody recorded.
"discount": machines under a load that moves the next state but not the reward, so that the discount is identified; on
the same panels a formula that leaves nothing out must report "not identified". "alike": panels that look like these,
but the load moves nothing, and the formula leaves the form of the wear open: what is estimated of the load is noise,
and the data bound no discount. Nothing of irlax is used to simulate. Each process takes panel after
panel, so that only its first ones are compiled for. Writes
benchmarks/results/panels.json, where `--only` replaces one problem and keeps the others.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.record import RESULTS, provenance, swept, write
from scipy.stats import binom

POINTS, DISCOUNT, WAGE = 120, 0.9, 0.5
LIVES = {"stock:keep": -3.0, "renew": -2.0, "renew:urban": 0.7, "alive": 0.4}
#: The probability of leaving for good with a new stock, and what a worn one adds to it if it is kept, times its cube.
#: If that were linear in the stock, the constant of being alive could not be told from the terms of the reward.
LEAVE, WORN = 0.02, 0.6
#: More bins than eight, with which `alive` is .388 in a panel without end: the agent sees the stock itself.
BINS = 16
#: Of the less frequent type, and of the other; and the share of the former.
TYPES, RARE = ({"mileage:keep": -1.0, "replace": -1.5}, {"mileage:keep": -0.3, "replace": -3.0}), 0.35
LOADED = {"mileage:keep": -1.0, "replace": -1.5, "discount": 0.8}


def soft_policy(reward, P, discount):
    """π [A, S] by value iteration, for a reward [A, S] and P [A, S, S']."""
    value = np.zeros(P.shape[1])
    for _ in range(10_000):
        q = reward + discount * P @ value
        top = q.max(axis=0)
        new = np.log(np.exp(q - top).sum(axis=0)) + top
        if np.abs(new - value).max() < 1e-12:
            break
        value = new
    return np.exp(q - new)


def walk(P, policy, first, periods, rng):
    """States and actions [individuals, periods] of individuals that start in `first`."""
    states, actions, now = [], [], first
    for _ in range(periods):
        chosen = (rng.random((len(now), 1)) > policy[:, now].T.cumsum(axis=1)[:, :-1]).sum(axis=1)
        states.append(now)
        actions.append(chosen)
        now = (rng.random((len(now), 1)) > P[chosen, now].cumsum(axis=1)[:, :-1]).sum(axis=1)
    return np.stack(states, axis=1), np.stack(actions, axis=1)


def lives(seed, individuals=800, periods=30):
    """A frame of individuals whose stock wears, and who keep or renew it."""
    rng = np.random.default_rng(seed)
    x = (np.arange(POINTS) + 0.5) / POINTS

    def moved(base):
        near = np.exp(-0.5 * ((x - base[:, None] - 0.1) / 0.12) ** 2)
        return 0.7 * near / near.sum(axis=1, keepdims=True) + 0.3 / POINTS

    P = np.zeros((2, POINTS + 1, POINTS + 1))
    leave = np.stack([LEAVE + WORN * x**3, np.full(POINTS, LEAVE)])
    P[:, :-1, :-1] = (1 - leave)[..., None] * np.stack([moved(x), moved(np.zeros(POINTS))])
    P[:, :-1, -1], P[:, -1, -1] = leave, 1.0
    parts = []
    for urban in (0, 1):
        reward = np.zeros((2, POINTS + 1))
        reward[0, :-1] = WAGE + LIVES["stock:keep"] * x + LIVES["alive"]
        reward[1, :-1] = LIVES["renew"] + LIVES["renew:urban"] * urban + LIVES["alive"]
        reward[1, -1] = -1e9
        policy, first = soft_policy(reward, P, DISCOUNT), rng.integers(POINTS, size=individuals // 2)
        states, actions = walk(P, policy, first, periods, rng)
        alive = states < POINTS
        ends = alive & np.append(~alive[:, 1:], np.zeros((len(alive), 1), bool), axis=1)
        who, when = np.nonzero(alive)
        inside = rng.random(len(who)) - 0.5
        parts.append(
            pd.DataFrame({
                "id": who + urban * len(alive),
                "t": when,
                "stock": x[states[alive]] + inside / POINTS,
                "choice": np.where(actions[alive] == 0, "keep", "renew"),
                "gone": ends[alive],
                "urban": urban,
            })
        )  # fmt: skip
    frame = pd.concat(parts)
    return frame[rng.random(len(frame)) > 0.1]


def fit_lives(seed):
    import irlax as ix

    panel = ix.Panel.from_frame(
        lives(seed),
        individual="id",
        period="t",
        state={"stock": ix.panels.Quantiles(BINS)},
        action="choice",
        transitions={"stock": ix.panels.Chain()},
        exit="gone",
        exit_given=["stock"],
        covariates=["urban"],
    )
    fit = panel.fit("stock:keep + renew + renew:urban + alive", discount=DISCOUNT, known="{0.5*keep}")
    table = [np.asarray(fit.reward.weights), fit.standard_errors(), fit.standard_errors("hessian")]
    return {"names": fit.reward.names, "table": np.stack(table).tolist(), "status": fit.status.name}


def typed(seed, individuals=200, periods=40, levels=5, wear=0.6):
    """A frame of machines of two types of owners."""
    rng, P = np.random.default_rng(seed), np.zeros((2, levels, levels))
    for m in range(levels):
        for a, base in enumerate((m, 0)):
            P[a, m, base] += 1 - wear
            P[a, m, min(base + 1, levels - 1)] += wear
    rare, parts = rng.random(individuals) < RARE, []
    for truth, mine in zip(TYPES, (rare, ~rare), strict=True):
        reward = np.stack([truth["mileage:keep"] * np.arange(levels), np.full(levels, truth["replace"])])
        policy = soft_policy(reward, P, DISCOUNT)
        states, actions = walk(P, policy, rng.integers(levels, size=mine.sum()), periods, rng)
        who, when = np.repeat(np.flatnonzero(mine), periods), np.tile(np.arange(periods), mine.sum())
        choice = np.array(["keep", "replace"])[actions.ravel()]
        parts.append(pd.DataFrame({"id": who, "t": when, "mileage": states.ravel(), "choice": choice}))
    return pd.concat(parts)


def fit_types(seed):
    import jax

    import irlax as ix

    panel = ix.Panel.from_frame(
        typed(seed),
        individual="id",
        period="t",
        state=["mileage"],
        action="choice",
        transitions={"mileage": ix.panels.Chain()},
    )
    mixture = ix.MixtureIRL(num_types=2)
    fit = panel.fit("mileage:keep + replace", discount=DISCOUNT, estimator=mixture, key=jax.random.key(seed))
    order = np.argsort(fit.parameters[:, 0])
    names = [f"{name}, {kind}" for kind in ("rare", "other") for name in TYPES[0]] + ["share, rare"]
    values = np.append(fit.parameters[order], fit.shares[order[0]])
    errors = [
        np.append(fit.standard_errors(kind)[order], fit.share_errors(kind)[order[0]])
        for kind in ("sandwich", "hessian")
    ]
    return {"names": names, "table": np.stack([values, *errors]).tolist(), "status": fit.status.name}


def loaded(seed, individuals=250, periods=40, wear=(0.2, 0.9)):
    """A frame of machines that wear faster, or not, under a load that comes and goes by itself."""
    rng, levels, change = np.random.default_rng(seed), 4, 0.4
    P = np.zeros((2, 2 * levels, 2 * levels))
    for m in range(levels):
        for load in range(2):
            for other, chance in ((load, 1 - change), (1 - load, change)):
                for a, base in enumerate((m, 0)):
                    P[a, 2 * m + load, 2 * base + other] += chance * (1 - wear[load])
                    P[a, 2 * m + load, 2 * min(base + 1, levels - 1) + other] += chance * wear[load]
    mileage = np.repeat(np.arange(levels), 2)
    reward = np.stack([LOADED["mileage:keep"] * mileage, np.full(2 * levels, LOADED["replace"])])
    policy = soft_policy(reward, P, LOADED["discount"])
    states, actions = walk(P, policy, rng.integers(2 * levels, size=individuals), periods, rng)
    who, when = np.divmod(np.arange(states.size), periods)
    columns = {"id": who, "t": when, "mileage": states.ravel() // 2, "load": states.ravel() % 2}
    return pd.DataFrame(columns | {"choice": np.array(["keep", "replace"])[actions.ravel()]})


def panel_of_loads(frame):
    import irlax as ix

    chains = {"mileage": ix.panels.Chain(given=["load"]), "load": ix.panels.Chain(by_action=False)}
    names = {"individual": "id", "period": "t", "state": ["mileage", "load"], "action": "choice"}
    return ix.Panel.from_frame(frame, **names, transitions=chains)


def fit_alike(seed):
    panel = panel_of_loads(loaded(seed, wear=(0.55, 0.55)))
    profile = panel.fit("C(mileage):keep", discount=0.9).discount_profile()
    said = "weakly" if profile.weak else "yes" if profile.identified else "no"
    return {"identified": said, "contains": profile.contains(LOADED["discount"])}


def fit_discount(seed):
    panel = panel_of_loads(loaded(seed))
    profile = panel.fit("mileage:keep + replace", discount=0.9).discount_profile()
    flat = panel.fit("C(mileage):C(load):keep", discount=0.9).discount_profile(discounts=[0.0, 0.5, 0.9])
    return {
        "estimate": profile.estimate,
        "contains": profile.contains(LOADED["discount"]),
        "identified": profile.identified,
        "bounded": profile.confidence_set != ((0.0, 0.995),),
        "rich_formula_identified": flat.identified,
    }


PROBLEMS = {"lives": fit_lives, "types": fit_types, "discount": fit_discount, "alike": fit_alike}


def one_panel(problem, seed):
    """What is found in one panel, and the seconds that it took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        return PROBLEMS[problem](seed) | {"seconds": time.perf_counter() - began, "seed": seed}


def figures(problem, found):
    num = len(found)
    common = {
        "panels": num,
        "expected_95_percent_of_the_time": (binom.ppf([0.025, 0.975], num, 0.95) / num).round(4).tolist(),
        "seconds_of_a_panel_median": round(float(np.median([one["seconds"] for one in found])), 3),
    }
    if problem == "discount":
        return common | {
            "coverage_of_95_percent_sets": round(float(np.mean([one["contains"] for one in found])), 4),
            "reported_as_identified": int(sum(one["identified"] for one in found)),
            "bounded_sets": int(sum(one["bounded"] for one in found)),
            "rich_formula_reported_as_not_identified": int(sum(not one["rich_formula_identified"] for one in found)),
            "mean_estimate": round(float(np.mean([one["estimate"] for one in found])), 4),
            "truth": LOADED["discount"],
        }
    if problem == "alike":
        said = [one["identified"] for one in found]
        return common | {
            "reported_as_identified": said.count("yes"),
            "reported_as_weakly_identified": said.count("weakly"),
            "reported_as_not_identified": said.count("no"),
            "coverage_of_95_percent_sets": round(float(np.mean([one["contains"] for one in found])), 4),
        }
    names = found[0]["names"]
    truth = np.array([*TYPES[0].values(), *TYPES[1].values(), RARE] if problem == "types" else [*LIVES.values()])
    estimates, clustered, hessian = np.array([one["table"] for one in found]).transpose(1, 0, 2)
    inside = {}
    for kind, errors in (("clustered", clustered), ("hessian", hessian)):
        covered = (np.abs(estimates - truth) <= 1.959964 * errors).mean(axis=0)
        inside[kind] = dict(zip(names, covered.round(4).tolist(), strict=True))
    return common | {
        "coverage_of_95_percent_intervals": inside,
        "truth": dict(zip(names, truth.tolist(), strict=True)),
        "mean_estimate": estimates.mean(axis=0).round(4).tolist(),
        "spread_of_estimates": estimates.std(axis=0, ddof=1).round(4).tolist(),
        "mean_clustered_error": clustered.mean(axis=0).round(4).tolist(),
        "converged": sum(one["status"] == "CONVERGED" for one in found),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--panels", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(PROBLEMS))
    parser.add_argument("--out", type=Path, default=RESULTS / "panels.json")
    given = parser.parse_args()
    source = provenance("benchmarks.quality.panels", "jax", "formulaic")
    seeds = 1_000_000 * given.seed + np.arange(given.panels)
    names = [given.only] if given.only else list(PROBLEMS)
    cases = [{"problem": name, "seed": int(seed)} for name in names for seed in seeds]
    results = {name: [] for name in names}
    for case, found in zip(cases, swept(one_panel, cases, given.processes), strict=True):
        results[case["problem"]].append(found)
    record = json.loads(given.out.read_text()) if given.out.exists() else {}
    record |= {name: source | {"figures": figures(name, found)} for name, found in results.items()}
    print(json.dumps(record, indent=2))
    write(given.out, record)


if __name__ == "__main__":
    main()
