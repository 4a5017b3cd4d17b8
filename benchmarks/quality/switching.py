"""Motives that switch: a public grid world beside its truth, coverage, the number of motives, and a large maze.

    .venv/bin/python -m benchmarks.quality.switching grid --processes 2
    .venv/bin/python -m benchmarks.quality.switching coverage --processes 2
    .venv/bin/python -m benchmarks.quality.switching states --replicates 200 --processes 2
    .venv/bin/python -m benchmarks.quality.switching number --processes 2
    .venv/bin/python -m benchmarks.quality.switching methods
    .venv/bin/python -m benchmarks.quality.switching maze
    .venv/bin/python -m benchmarks.quality.switching goals --replicates 100

`grid` fits the 5×5 grid world of SWIRL (Ke et al. 2025; public repository, MIT), whose rewards depend on the previous
and the present state, on the authors' split: sequences 0, 5, 10, … of the first 200 are for testing. It is read from
../shared/data/switching or `--data`. The discount, which is not in the file, is that at which the true rewards are
likeliest given the true motives; the penalty is chosen by cross-validation over the training sequences. `coverage`
counts how often 95% intervals contain the truth in simulated panels, and `states` where switching depends on the state.
`methods` maximises the likelihood by EM, by Newton's method, and by both. `number` counts how often the right number of
motives is chosen. `maze` fits three motives with switching that depends on the state to 240 sequences of 500 steps in
a labyrinth of 127 places. `goals` counts how often 95% intervals of two types of drivers contain the truth, in
simulated trips on the public network Sioux Falls, with links as states (../shared/data/networks, or `--networks`). Each
writes its part of benchmarks/results/switching.json.
"""

import argparse
import json
import resource
import time
import warnings
from pathlib import Path

import numpy as np
from benchmarks import record

DISCOUNTS = (0.9, 0.93, 0.95, 0.97, 0.99)
PENALTIES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0)
FOLDS = 5
TESTED = np.arange(200) % 5 == 0


def world(folder, discount):
    """The data, and the grid with the previous state; sequences that are for testing are `TESTED`."""
    import irlax as ix

    data = np.load(Path(folder) / "gw5.npz")
    states, actions, motives = (data[name][:200].astype(int) for name in ("states", "actions", "motives"))
    mdp = ix.MDP.from_dense(data["transitions"], np.full(25, 1 / 25), discount=discount)
    places = ix.with_history(mdp, ix.Demonstrations.from_arrays(states, actions), last=1)
    return places, motives, [pair_table(places, table) for table in data["rewards"]]


def fitted(places, rows, l2, starts):
    import jax

    import irlax as ix

    estimator = ix.SwitchingIRL(by_state=True, num_starts=starts, l2=l2, progress=False)
    return estimator.fit(places.mdp, ix.TabularReward("s"), places.demos.select(rows), key=jax.random.key(0))


def held_out_score(folder, discount, l2, fold):
    """The score of one fold of the training sequences, after learning from the others."""
    places, _, _ = world(folder, discount)
    parts = np.where(TESTED, -1, (np.cumsum(~TESTED) - 1) % FOLDS)
    fit = fitted(places, (parts != fold) & ~TESTED, l2, 2)
    return fit.score(places.demos.select(parts == fold))


def planning(folder):
    """The log likelihood and the weights of the true rewards at each discount, given the true motives.

    The authors' discount and temperature are not in the file; a weight of 1 is a temperature of 1.
    """
    import irlax as ix

    found = {}
    for discount in DISCOUNTS:
        places, motives, rewards = world(folder, discount)
        fits = [
            ix.MCEIRL(objective="likelihood", progress=False).fit(
                places.mdp,
                ix.LinearReward(rewards[k][:, None]),
                places.demos.with_row_weights((motives.ravel() == k).astype(float)),
            )
            for k in range(2)
        ]
        found[discount] = {
            "log_likelihood": sum(fit.log_likelihood for fit in fits),
            "weights": [float(fit.reward.weights[0]) for fit in fits],
        }
    return found


def grid(given):
    """The 5×5 grid world, with baselines, beside the truth."""
    import jax

    import irlax as ix

    profile = planning(given.data)
    discount = max(profile, key=lambda discount: profile[discount]["log_likelihood"])
    of_data = {"folder": str(given.data), "discount": discount}
    cases = [of_data | {"l2": l2, "fold": fold} for l2 in PENALTIES for fold in range(FOLDS)]
    scores = np.reshape(record.swept(held_out_score, cases, given.processes), (len(PENALTIES), FOLDS))
    validated = dict(zip(PENALTIES, scores.mean(axis=1).tolist(), strict=True))
    l2 = max(validated, key=validated.get)
    places, motives, rewards = world(given.data, discount)
    truth = motives[TESTED].ravel()
    began = time.perf_counter()
    fit = fitted(places, ~TESTED, l2, 5)
    seconds = time.perf_counter() - began
    train, test = places.demos.select(~TESTED), places.demos.select(TESTED)
    rows = {"switching": score_of_motives(fit, test, truth) | {"train": fit.score(train), "seconds": seconds}}
    rows["truth"] = of_truth(places, rewards, (train, motives[~TESTED]), (test, truth))
    own = rows["switching"].pop("order")
    rows["switching"]["correlation"] = [correlations(places, rewards[own[k]], fit, k) for k in range(2)]
    others = {discount: fitted(world(given.data, discount)[0], ~TESTED, l2, 2) for discount in (0.93, 0.97)}
    # Without a previous state: of the sequences as they were recorded.
    base_train, base_test = (
        ix.Demonstrations.from_arrays(*(part.reshape(-1, 500) for part in (places.present[each.states], each.actions)))
        for each in (train, test)
    )
    free = places.base.replace(discount=0.0)
    for name, estimator, mdp, reward, (learned, scored) in (
        ("MCEIRL", ix.MCEIRL(objective="likelihood", l2=l2, progress=False), places.mdp, "s", (train, test)),
        ("MixtureIRL", ix.MixtureIRL(l2=l2, progress=False), places.mdp, "s", (train, test)),
        (
            "hidden Markov model of choices by present state, no planning",
            ix.SwitchingIRL(by_state=True, l2=0.01, progress=False),
            free,
            "sa",
            (base_train, base_test),
        ),
        (
            "switching, without the previous state",
            ix.SwitchingIRL(by_state=True, l2=l2, progress=False),
            places.base,
            "s",
            (base_train, base_test),
        ),
    ):
        key = {} if name == "MCEIRL" else {"key": jax.random.key(0)}
        began = time.perf_counter()
        with warnings.catch_warnings():
            # A second type, where all sequences are alike, is one too many.
            warnings.simplefilter("ignore")
            other = estimator.fit(mdp, ix.TabularReward(reward), learned, **key)
        rows[name] = {"test": other.score(scored), "status": other.status.name, "seconds": time.perf_counter() - began}
        if hasattr(other, "likeliest_motives"):
            rows[name] |= score_of_motives(other, scored, truth)
            rows[name].pop("order")
    rows["counts by state"] = {"test": counts(base_train, base_test)}
    rows["counts by previous and present state"] = {"test": counts(train, test)}
    return rounded({
        "truth_by_discount": profile,
        "discount": discount,
        "validation_score_by_l2": validated,
        "l2": l2,
        "log_likelihood_of_the_fit_by_discount": {
            str(key): value.log_likelihood for key, value in {discount: fit, **others}.items()
        },
        "models": rows,
    })  # fmt: skip


def score_of_motives(fit, demos, truth):
    """The held-out score, and how often the true motive is decoded; motives are matched to the truth first."""
    path, probable = fit.likeliest_motives(demos), fit.motive_probabilities(demos).argmax(axis=1)
    same = [(path == truth).mean(), (path != truth).mean()]
    order = [0, 1] if same[0] >= same[1] else [1, 0]
    best = np.array(order)[probable]
    return {"test": fit.score(demos), "path": max(same), "step": (best == truth).mean(), "order": order}


def pair_table(places, table):
    """A table over (previous, present) as a vector over the extended states; 0 where there is no previous state."""
    before, known = places.previous[:, 0], places.previous[:, 0] >= 0
    return np.where(known, table[np.where(known, before, 0), places.present], 0.0)


def of_truth(places, rewards, training, testing):
    """The true rewards (at temperature 1), with switches counted from the true motives of the training sequences."""
    import irlax as ix

    (train, motives), (test, truth) = training, testing
    number, length = places.mdp.num_states, motives.shape[1]
    policies = np.stack([np.asarray(ix.soft_plan(places.mdp, np.tile(each[:, None], 5)).policy) for each in rewards])
    state = train.states.reshape(-1, length)
    switches = np.zeros((number, 2, 2))
    np.add.at(switches, (state[:, :-1].ravel(), motives[:, :-1].ravel(), motives[:, 1:].ravel()), 1)
    # As many switches as there would be if states did not matter, with the weight of one.
    switches += switches.sum(axis=0) / switches.sum(axis=(0, 2))[:, None]
    switches /= switches.sum(axis=-1, keepdims=True)
    forward, likelihood = np.full((len(test.states) // length, 2), 0.5), 0.0
    state, action = test.states.reshape(-1, length), test.actions.reshape(-1, length)
    filtered = []
    for t in range(length):
        if t:
            forward = np.einsum("ni,nij->nj", forward, switches[state[:, t - 1]])
        forward = forward * policies[:, state[:, t], action[:, t]].T
        likelihood += np.log(forward.sum(axis=1)).sum()
        forward /= forward.sum(axis=1, keepdims=True)
        filtered.append(forward)
    backward, decoded = np.ones_like(forward), []
    for t in reversed(range(length)):
        decoded.append((filtered[t] * backward).argmax(axis=1))
        if t:
            ahead = policies[:, state[:, t], action[:, t]].T * backward
            backward = np.einsum("nij,nj->ni", switches[state[:, t - 1]], ahead)
            backward /= backward.sum(axis=1, keepdims=True)
    right = (np.array(decoded[::-1]).T.ravel() == truth).mean()
    return {"test": likelihood / len(test.states), "step": right}


def correlations(places, truth, fit, k):
    """With the true reward: as it is; of the part that choices identify; the same weighted by the motive's visits.

    A reward of pairs of states is identified up to potentials, γΦ(s') − Φ(s), which do not change what is chosen.
    """
    import irlax as ix

    known, found = places.previous[:, 0] >= 0, fit.parameters[k]
    plan = ix.soft_plan(places.mdp, np.tile(truth[:, None], 5))
    axes, _ = np.linalg.qr(ix.identify(places.mdp, ix.TabularReward("s"), plan).null_basis.T)
    parts = [(each - axes @ (axes.T @ each))[known] for each in (truth, found)]
    same = found - axes @ (axes.T @ (found - truth))
    visits = np.bincount(
        fit.demos[0].states, weights=fit.motive_probabilities()[:, k], minlength=places.mdp.num_states
    )[known]
    return {
        "raw": np.corrcoef(truth[known], found[known])[0, 1],
        "identified part": np.corrcoef(*parts)[0, 1],
        "identified part, weighted by visits": weighted(*parts, visits),
        "with the potentials of the truth": np.corrcoef(truth[known], same[known])[0, 1],
    }


def weighted(one, other, weights):
    """The correlation with weights."""
    cov = np.cov(one, other, aweights=weights)
    return cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1])


def counts(train, test):
    """The score of relative frequencies of choices, with half a choice of each added."""
    table = np.full((max(train.states.max(), test.states.max()) + 1, 5), 0.5)
    np.add.at(table, (train.states, train.actions), 1)
    return np.log(table / table.sum(axis=1, keepdims=True))[test.states, test.actions].mean()


#: Simulated panels: three motives at most; the first two are those of panels with two.
REWARDS = np.array([[2.0, -1.0, 0.0], [-1.0, 1.5, 0.5], [0.0, -1.0, -2.0]])
STAY = 0.92


def panel(seed, num_motives, *, num=40, length=60, gaps=0.0):
    """A simulated panel, with its MDP, reward, and true parameters."""
    import jax

    import irlax as ix
    from irlax.demos.demonstrations import from_rows
    from irlax.estimators.mixed.simulation import simulate_motives

    mdp = ix.envs.RandomMDP(6, 3, discount=0.9, seed=7).mdp
    features = np.random.default_rng(7).normal(size=(6, 3, 3))
    switching = np.full((num_motives, num_motives), (1 - STAY) / (num_motives - 1))
    np.fill_diagonal(switching, STAY)
    initial = np.arange(num_motives, 0, -1) / np.arange(1, num_motives + 1).sum()
    policies = [np.asarray(ix.soft_plan(mdp, features @ theta).policy) for theta in REWARDS[:num_motives]]
    demos, _ = simulate_motives(
        mdp, np.stack(policies), initial, switching, num=num, length=length, key=jax.random.key(seed)
    )
    if gaps:
        kept = np.random.default_rng(seed).random(demos.num_steps) >= gaps
        kept[demos.offsets[:-1]] = True
        lengths = np.add.reduceat(kept, demos.offsets[:-1])
        demos = from_rows(demos.states[kept], demos.actions[kept], lengths, times=demos.times[kept])
    return mdp, ix.LinearReward(features), demos, (REWARDS[:num_motives], initial)


def covered(seed, gaps):
    """Whether each 95% interval of one panel contains the truth."""
    import jax

    import irlax as ix

    mdp, reward, demos, (theta, initial) = panel(seed, 2, gaps=gaps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = ix.SwitchingIRL(num_starts=4, progress=False).fit(mdp, reward, demos, key=jax.random.key(seed))
    if not fit.converged:
        return None
    # Motives have no names: they are matched to the truth by their rewards.
    distance = np.linalg.norm(fit.parameters[0] - theta, axis=1)
    order = [0, 1] if distance[0] < distance[1] else [1, 0]
    found = {}
    for kind in ("hessian", "sandwich"):
        stays = fit.switching_errors(kind)[[0, 1], [0, 1]]
        parts = {
            "rewards": (fit.estimates, np.concatenate(fit.standard_errors(kind)), theta[order].ravel()),
            "switching": (fit.switching[[0, 1], [0, 1]], stays, STAY),
            "initial": (fit.initial[:1], fit.initial_errors(kind)[:1], initial[order[0]]),
        }
        found[kind] = {
            name: (np.abs(value - true) < 1.959964 * error).tolist() for name, (value, error, true) in parts.items()
        }
    return found


def coverage(given):
    """How often 95% intervals contain the truth."""
    cases = [{"seed": seed, "gaps": gaps} for gaps in (0.0, 0.2) for seed in range(given.replicates)]
    result = {}
    found = record.swept(covered, cases, given.processes)
    for gaps in (0.0, 0.2):
        fits = [each for case, each in zip(cases, found, strict=True) if case["gaps"] == gaps]
        good = [each for each in fits if each is not None]
        rows = {
            f"{kind}, {name}": float(np.mean([each[kind][name] for each in good]))
            for kind in ("hessian", "sandwich")
            for name in ("rewards", "switching", "initial")
        }
        result[f"{gaps:.0%} of rows missing"] = {"panels": len(fits), "converged": len(good), "coverage": rounded(rows)}
    return result


#: The probability of leaving each motive in each of five states.
LEAVING = np.array([[0.05, 0.2], [0.3, 0.1], [0.1, 0.1], [0.05, 0.3], [0.15, 0.05]])


def covered_states(seed):
    """Whether 95% intervals of the switching probabilities in each state contain the truth, and those of θ."""
    import jax

    import irlax as ix
    from irlax.estimators.mixed.simulation import simulate_motives

    mdp = ix.envs.RandomMDP(5, 3, discount=0.9, seed=7).mdp
    features, rewards = np.random.default_rng(7).normal(size=(5, 3, 2)), REWARDS[:2, :2]
    policies = np.stack([np.asarray(ix.soft_plan(mdp, features @ theta).policy) for theta in rewards])
    rows = [[1 - LEAVING[:, 0], LEAVING[:, 0]], [LEAVING[:, 1], 1 - LEAVING[:, 1]]]
    switching = np.moveaxis(np.array(rows), -1, 0)
    demos, _ = simulate_motives(mdp, policies, [0.6, 0.4], switching, num=60, length=80, key=jax.random.key(seed))
    estimator = ix.SwitchingIRL(num_starts=2, by_state=True, switching_l2=0.001, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = estimator.fit(mdp, ix.LinearReward(features), demos, key=jax.random.key(seed))
    if not fit.converged:
        return None
    distance = np.linalg.norm(fit.parameters[0] - rewards, axis=1)
    order = [0, 1] if distance[0] < distance[1] else [1, 0]
    found, others = {}, ([0, 1], [1, 0])
    for kind in ("hessian", "sandwich"):
        error = fit.switching_errors(kind)[:, *others]
        inside = np.abs(fit.switching[:, *others] - LEAVING[:, order]) < 1.959964 * error
        theta = np.abs(np.stack(fit.parameters) - rewards[order]) < 1.959964 * np.stack(fit.standard_errors(kind))
        found |= {f"{kind}, rewards": theta.mean(), f"{kind}, switching": inside.mean()}
    return found


def states(given):
    """How often 95% intervals contain the truth where switching depends on the state."""
    fits = record.swept(covered_states, [{"seed": seed} for seed in range(given.replicates)], given.processes)
    good = [each for each in fits if each is not None]
    rows = {name: float(np.mean([each[name] for each in good])) for name in good[0]}
    return {"panels": len(fits), "converged": len(good), "coverage": rounded(rows)}


#: A solver has converged at a gradient of this size, and EM stops after so many steps.
TOL, MOST_STEPS = 1e-6, 3000


def methods(given):
    """EM alone, a solver alone from every start, and both, as `SwitchingIRL` does it: seconds, steps, maxima."""
    return {
        "6 states, 3 features": compared([small_panel(seed) for seed in range(given.panels + 1)]),
        "60 states, 5 features": compared([large_panel(seed) for seed in range(given.panels // 4 + 1)]),
    }


def compared(problems):
    """The three ways on panels, of which the first is left out, because it compiles."""
    panels = [searched(problem, seed) for seed, problem in enumerate(problems)][1:]
    best = np.array([max(each["log_likelihood"] for each in panel.values()) for panel in panels])
    result = {}
    for name in panels[0]:
        of = [panel[name] for panel in panels]
        reached = np.array([each["log_likelihood"] for each in of])
        result[name] = {
            "median_seconds": float(np.median([each["seconds"] for each in of])),
            "most_seconds": max(each["seconds"] for each in of),
            "median_steps": float(np.median([each["steps"] for each in of])),
            "at_the_best_maximum": int((reached > best - 1e-4).sum()),
            "to_the_tolerance": sum(each["gradient"] <= TOL for each in of),
            "panels": len(of),
        }
    return rounded(result)


def small_panel(seed):
    """An MDP, a reward and demonstrations of three motives."""
    return panel(20_000 + seed, 3)[:3]


def large_panel(seed):
    """The same with ten times as many states."""
    import jax

    import irlax as ix
    from irlax.estimators.mixed.simulation import simulate_motives

    mdp, rng = ix.envs.RandomMDP(60, 4, discount=0.95, seed=1).mdp, np.random.default_rng(3)
    features, rewards = rng.normal(size=(60, 4, 5)), rng.normal(size=(3, 5))
    policies = np.stack([np.asarray(ix.soft_plan(mdp, features @ theta).policy) for theta in rewards])
    switching = np.full((3, 3), (1 - STAY) / 2) + (STAY - (1 - STAY) / 2) * np.eye(3)
    demos, _ = simulate_motives(
        mdp, policies, np.full(3, 1 / 3), switching, num=60, length=60, key=jax.random.key(seed)
    )
    return mdp, ix.LinearReward(features), demos


def searched(problem, seed):
    """The likelihood of a panel of three motives maximised in each way from the same four starts."""
    import jax

    import irlax as ix
    from irlax.estimators.mixed.cells_of_experts import cells_of
    from irlax.estimators.mixed.estimation import bound_rewards
    from irlax.estimators.mixed.expectation_maximisation import em_step
    from irlax.estimators.mixed.search import SHORT_RUN, Search
    from irlax.estimators.mixed.switching import MIN_GAIN, START_CHOICES
    from irlax.estimators.tabular.problem import largest
    from irlax.estimators.tabular.solvers import Newton, minimise
    from irlax.iteration import Session
    from irlax.precision import scope

    mdp, reward, demos = problem
    estimator, length = ix.SwitchingIRL(num_motives=3, progress=False), 60
    with scope():
        rewards, experts = bound_rewards(mdp, reward, demos, "auto", num_groups=3)
        problem = estimator._problem(cells_of(rewards, experts, num_groups=3), experts, None, 0.0)
        search = Search(4, TOL, MOST_STEPS, MIN_GAIN * length, START_CHOICES / length, estimator._words)
        starts, loss = search._starts(problem, jax.random.key(seed)), problem.to_problem()
        scale = np.asarray(loss.scale)

        def climbed(at, steps):
            for taken in range(steps):
                if largest(at.gradient, scale) <= TOL:
                    return at, taken
                at = loss.evaluate(em_step(problem, at, TOL), at.warm_starts)
            return at, steps

        def by_em():
            short = min((climbed(loss.evaluate(start), SHORT_RUN)[0] for start in starts), key=lambda at: at.loss)
            at, steps = climbed(short, MOST_STEPS)
            return at, steps + SHORT_RUN * len(starts)

        def by_solver():
            sessions = [Session("") for _ in starts]
            ends = [
                minimise(Newton(max_steps=MOST_STEPS), loss, start, TOL, session).at
                for start, session in zip(starts, sessions, strict=True)
            ]
            return min(ends, key=lambda at: at.loss), sum(len(session.history) - 1 for session in sessions)

        def by_both():
            end, history, _ = search.run(problem, jax.random.key(seed), Session(""))
            return end.at, len(history) - 1 + SHORT_RUN * (len(starts) - 1)

        found = {}
        for name, maximised in (("EM", by_em), ("Newton's method", by_solver), ("EM, then Newton's method", by_both)):
            began = time.perf_counter()
            at, steps = maximised()
            seconds, gradient = time.perf_counter() - began, float(largest(at.gradient, scale))
            found[name] = {"seconds": seconds, "steps": steps, "gradient": gradient}
            found[name]["log_likelihood"] = -float(at.loss) * problem.total
    return found


def chosen(seed, num_motives):
    """The number of motives that each criterion chooses for one panel."""
    import jax

    import irlax as ix

    mdp, reward, demos, _ = panel(10_000 + seed, num_motives)
    estimator = ix.SwitchingIRL(num_starts=6, progress=False)
    curve = ix.compare_numbers(estimator, mdp, reward, demos, key=jax.random.key(seed), numbers=(1, 2, 3, 4), folds=3)
    return {by: curve.best(by) for by in ("bic", "held-out", "aic")}


def number(given):
    """How often the right number of motives is chosen, over panels with two and with three."""
    cases = [{"seed": seed, "num_motives": number} for number in (2, 3) for seed in range(given.panels)]
    found = record.swept(chosen, cases, given.processes)
    truth = [case["num_motives"] for case in cases]
    return {
        f"{true} motives": {
            by: {
                "right": sum(each[by] == of == true for of, each in zip(truth, found, strict=True)),
                "panels": given.panels,
            }
            for by in ("bic", "held-out", "aic")
        }
        for true in (2, 3)
    }


#: Drivers who save time, and drivers who do not turn left, 45 and 30 of them, with ten trips each.
DRIVERS = {"free_flow_time": np.array([-1.0, -0.6]), "left": np.array([0.0, -3.0])}
MEMBERS, TRIPS_OF_EACH = np.array([45, 30]), 10


def covered_drivers(networks, seed):
    """Whether each 95% interval of one panel of drivers contains the truth."""
    import jax

    import irlax as ix

    folder = Path(networks)
    nodes = folder / "SiouxFalls_node.tntp"
    net = ix.routes.read_network(folder / "SiouxFalls_net.tntp", nodes=nodes).links_as_states(uturns=False)
    rng, ways = np.random.default_rng(seed), []
    for kind, number in enumerate(MEMBERS):
        ends = np.stack([rng.choice(np.arange(1, 25), 2, replace=False) for _ in range(number * TRIPS_OF_EACH)], axis=1)
        weights = {name: float(values[kind]) for name, values in DRIVERS.items()}
        trips = net.simulate(weights, *ends.tolist(), key=jax.random.key(1000 * kind + seed))
        ways += [list(way) for _, way in net.trip_frame(trips).groupby("trip")["node"]]
    demos, names = net.node_trips(ways), list(DRIVERS)
    who = np.repeat(np.arange(MEMBERS.sum()), TRIPS_OF_EACH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = ix.MixtureIRL(num_starts=1, progress=False).fit(
            net.mdp, net.linear(names), demos, key=jax.random.key(seed), individual=who
        )
    if not fit.converged:
        return None
    theta = np.stack(list(DRIVERS.values()), axis=1)
    order = (
        [0, 1]
        if np.linalg.norm(fit.parameters[0] - theta[0]) < np.linalg.norm(fit.parameters[0] - theta[1])
        else [1, 0]
    )
    found = {"told_apart": (np.array(order)[fit.types] == np.repeat([0, 1], MEMBERS)).mean()}
    for kind in ("hessian", "sandwich"):
        inside = np.abs(fit.parameters - theta[order]) < 1.959964 * fit.standard_errors(kind)
        found[kind] = dict(zip(names, inside.mean(axis=0).tolist(), strict=True))
    return found


def goals(given):
    """Types of drivers on the way to goals."""
    cases = [{"networks": str(given.networks), "seed": seed} for seed in range(given.replicates)]
    fits = record.swept(covered_drivers, cases, given.processes)
    good = [each for each in fits if each is not None]
    rows = {
        f"{kind}, {name}": float(np.mean([each[kind][name] for each in good]))
        for kind in ("hessian", "sandwich")
        for name in DRIVERS
    }
    told = float(np.mean([each["told_apart"] for each in good]))
    return rounded({"panels": len(fits), "converged": len(good), "coverage": rows, "types_told_apart": told})


def labyrinth(discount=0.95):
    """A binary tree of 127 places, as the labyrinth of Rosenberg et al. (2021): left, right, back, stay."""
    import irlax as ix

    places = np.arange(127)
    child = np.where(places < 63, 2 * places + 1, places)
    successors = np.stack([child, np.where(places < 63, child + 1, places), (places - 1).clip(0) // 2, places], axis=1)
    return ix.MDP.from_dense(np.eye(127)[successors], np.eye(127)[0], discount=discount)


def maze(given):
    """240 sequences of 500 steps over 127 places, three motives, switching that depends on the place."""
    import jax

    import irlax as ix
    from irlax.estimators.mixed.simulation import simulate_motives

    mdp, rng = labyrinth(), np.random.default_rng(0)
    rewards = np.zeros((3, 127))
    # Water at one end, home at the entrance, and exploring: all ends alike.
    rewards[0, 116], rewards[1, 0], rewards[2, 63:] = 3.0, 2.0, 1.0
    rewards += 0.1 * rng.normal(size=rewards.shape)
    policies = np.stack([np.asarray(ix.soft_plan(mdp, np.tile(each[:, None], 4)).policy) for each in rewards])
    switching = np.tile(0.97 * np.eye(3) + 0.01, (127, 1, 1))
    switching[116, 0], switching[0, 1] = [0.5, 0.25, 0.25], [0.1, 0.5, 0.4]
    demos, motives = simulate_motives(
        mdp, policies, np.full(3, 1 / 3), switching, num=240, length=500, key=jax.random.key(0)
    )
    began = time.perf_counter()
    estimator = ix.SwitchingIRL(num_motives=3, by_state=True, l2=0.1, num_starts=3, progress=False)
    fit = estimator.fit(mdp, ix.TabularReward("s"), demos, key=jax.random.key(1))
    seconds = time.perf_counter() - began
    path = fit.likeliest_motives()
    order = np.array([np.bincount(motives[path == k], minlength=3).argmax() for k in range(3)])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return rounded({
        "status": fit.status.name,
        "seconds": seconds,
        "steps": fit.iterations,
        "peak_memory_GiB": peak,
        "parameters": len(fit.estimates) + fit.chain.slopes.size + fit.chain.base.size + 2,
        "score": fit.score(demos),
        "decoded": (order[path] == motives).mean(),
    })  # fmt: skip


def rounded(value):
    """Numbers to five digits."""
    if isinstance(value, dict):
        return {str(name): rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(float(value), 5) if isinstance(value, (float, np.floating)) else value


PARTS = {part.__name__: part for part in (grid, coverage, states, number, methods, maze, goals)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--panels", type=int, default=20)
    parser.add_argument("--data", default=str(record.ROOT.parent / "shared" / "data" / "switching"))
    parser.add_argument("--networks", default=str(record.ROOT.parent / "shared" / "data" / "networks"))
    parser.add_argument("--out", default=str(record.RESULTS / "switching.json"))
    given = parser.parse_args()
    source, began = record.provenance("benchmarks.quality.switching", "jax"), time.perf_counter()
    found = PARTS[given.part](given)
    path = Path(given.out)
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept[given.part] = {**source, **found, "seconds_of_the_benchmark": round(time.perf_counter() - began, 1)}
    record.write(path, kept)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
