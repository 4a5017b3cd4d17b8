"""Types and motives on the way to goals: special cases, oracles by dense solves, derivatives, recovery, files."""

import dataclasses
import functools
import itertools
import json

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import irlax as ix
from irlax.estimators.mixed.cells_of_experts import cells_of
from irlax.estimators.mixed.goal_simulation import simulate_motives_to_goals
from irlax.estimators.mixed.mixture_fit import mixture_problem
from irlax.estimators.tabular.pairing import pair_up
from irlax.planning.goals import goal_plan
from irlax.precision import scope
from irlax.routes import Network
from tests.command_line import irlax
from tests.estimators.goals import oracles
from tests.estimators.goals.oracles import central_differences

NAMES = ("minutes", "lefts")
#: Who would save time, and who would not turn left.
TRUTH = np.array([[-2.0, -0.2], [-1.0, -2.5]])
SHARES, STAY = np.array([0.6, 0.4]), np.array([[0.85, 0.15], [0.25, 0.75]])
KEY = jax.random.key(1)


@functools.cache
def town(discount=1.0):
    """Twelve places on a ring: to the next one there is a left turn and a longer way, and some ways skip one."""
    rng = np.random.default_rng(3)
    tail = np.tile(np.arange(12), 3)
    head = (tail + np.repeat([1, 1, 2], 12)) % 12
    minutes = np.concatenate([rng.uniform(0.4, 0.8, 12), rng.uniform(0.8, 1.6, 12), rng.uniform(1.2, 2.4, 12)])
    lefts = np.concatenate([np.ones(12), np.zeros(12), rng.integers(2, size=12)])
    table = {"from": tail, "to": head, "name": [f"way {e}" for e in range(36)], "minutes": minutes, "lefts": lefts}
    net = Network.from_arcs(table, link="name", nodes={i: (np.cos(i), np.sin(i)) for i in range(12)})
    return net, net.mdp if discount == 1 else net.mdp.replace(discount=discount)


def pairs(num, seed):
    rng = np.random.default_rng(seed)
    starts = rng.integers(12, size=num)
    return starts, (starts + rng.integers(4, 12, size=num)) % 12


def driven(num, seed, switching, initial=SHARES):
    """Trips of motives that switch, and the motive at each row."""
    net, mdp = town()
    plans = [goal_plan(mdp, net.linear(NAMES, theta), np.arange(12)) for theta in TRUTH]
    return simulate_motives_to_goals(plans, initial, switching, *pairs(num, seed), key=jax.random.key(seed))


@functools.cache
def switching_trips():
    """400 trips of motives that switch."""
    return driven(400, 0, STAY)


@functools.cache
def travellers(seed=0):
    """Eight trips of each of 50 travellers of two types, and who made each."""
    who = np.repeat(np.arange(50), 8)
    of_type = np.arange(50) % 5 < 2
    parts = [driven(400, 10 + seed, np.eye(2), initial=np.eye(2)[g])[0] for g in (0, 1)]
    rows = [(i, part) for i, part in enumerate(of_type[who].astype(int))]
    frames = [part.to_frame().groupby("episode") for part in parts]
    trips = [frames[part].get_group(i).assign(episode=i) for i, part in rows]
    names = {"episode": "episode", "time": "t", "state": "state", "action": "action", "next_state": "next_state"}
    demos = ix.Demonstrations.from_frame(pd.concat(trips), **names, terminated="terminated", goal="goal")
    return demos, who, of_type.astype(int)


def switching_fit(demos, discount=1.0, num_motives=2, **settings):
    net, mdp = town(discount)
    estimator = ix.SwitchingIRL(num_motives=num_motives, num_starts=1, progress=False)
    return dataclasses.replace(estimator, **settings).fit(mdp, net.linear(NAMES), demos, key=KEY)


def mixture_fit(demos, who, num_types=2, **settings):
    net, mdp = town()
    estimator = ix.MixtureIRL(num_types=num_types, num_starts=1, progress=False, **settings)
    return estimator.fit(mdp, net.linear(NAMES), demos, key=KEY, individual=who)


@pytest.fixture(scope="module")
def motives():
    return switching_fit(switching_trips()[0])


@pytest.fixture(scope="module")
def types():
    demos, who, _ = travellers()
    return mixture_fit(demos, who)


def log_chances(demos, theta, discount=1.0):
    """log π of each row by a dense solve for its goal (γ = 1), or by plain iteration (γ < 1)."""
    net, mdp = town(discount)
    rewards = theta[0] * net.attribute("minutes") + theta[1] * net.attribute("lefts")
    arc = np.full(mdp.table_shape, -1)
    arc[net.tail, net.action] = np.arange(net.num_arcs)
    rows, result = arc[demos.states, demos.actions], np.empty(demos.num_steps)
    for goal in range(net.num_states):
        if discount == 1:
            logs = np.log(np.maximum(oracles.chances(net, rewards, goal), 1e-300))
        else:
            value = np.zeros(net.num_states)
            for _ in range(400):
                new = np.full(net.num_states, -np.inf)
                np.logaddexp.at(new, net.tail, rewards + discount * value[net.head])
                new[goal] = 0
                value = new
            logs = rewards + discount * value[net.head] - value[net.tail]
        here = demos.goals[demos.episode] == goal
        result[here] = logs[rows[here]]
    return result


def by_enumeration(demos, thetas, initial, switching, discount=1.0):
    """The log likelihood of each trip, as a sum over all paths of motives."""
    logs = np.stack([log_chances(demos, theta, discount) for theta in thetas])
    totals = []
    for k in range(demos.num_episodes):
        rows = np.arange(demos.offsets[k], demos.offsets[k + 1])
        terms = []
        for path in itertools.product(range(len(thetas)), repeat=len(rows)):
            moves = sum(np.log(switching[i, j]) for i, j in itertools.pairwise(path))
            terms.append(np.log(initial[path[0]]) + moves + logs[list(path), rows].sum())
        totals.append(logsumexp(terms))
    return np.array(totals)


def test_one_motive_and_one_type_are_the_recursive_logit():
    demos, net = switching_trips()[0], town()[0]
    plain = ix.MCEIRL(objective="likelihood").fit(net.mdp, net.linear(NAMES), demos)
    motive = switching_fit(demos, num_motives=1)
    kind = mixture_fit(demos, None, num_types=1)
    for theta, fit in ((motive.parameters[0], motive), (kind.parameters[0], kind)):
        np.testing.assert_allclose(theta, plain.estimates, atol=1e-8)
        np.testing.assert_allclose(fit.log_likelihood, plain.log_likelihood, rtol=1e-10)
        for each in ("hessian", "opg", "sandwich"):
            errors = plain.standard_errors(each, cluster=None if each == "hessian" else "episode")
            np.testing.assert_allclose(np.asarray(fit.standard_errors(each))[0], errors, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::irlax.UnfinishedWarning")
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_the_likelihood_is_the_sum_over_all_paths_of_motives(discount, motives):
    demos = switching_trips()[0]
    fit = motives if discount == 1 else switching_fit(demos, discount, max_steps=1)
    short = demos.select(np.flatnonzero(demos.lengths <= 7)[:50])
    assert short.lengths.max() > 5
    exact = by_enumeration(short, np.stack(fit.parameters), fit.initial, fit.switching, discount)
    by_episode = np.bincount(short.episode, weights=fit.log_predictive(short))
    np.testing.assert_allclose(by_episode, exact, rtol=1e-10)
    np.testing.assert_allclose(fit.score(short) * short.num_steps, exact.sum(), rtol=1e-10)
    np.testing.assert_allclose(fit.score(demos) * demos.num_steps, fit.log_likelihood, rtol=1e-10)


def test_gradient_curvature_and_scores_are_those_of_finite_differences(motives):
    with scope():
        groups = motives.hidden_problem()
        problem = groups.to_problem()
        scale = np.asarray(problem.scale)
        x = np.concatenate([motives.estimates, groups.vector([], motives.chain.parameters)]) * scale - 0.05
        at = problem.evaluate(x)
        np.testing.assert_allclose(at.gradient, central_differences(lambda x: problem.evaluate(x).loss, x), atol=1e-8)
        curvature = central_differences(lambda x: problem.evaluate(x).gradient, x)
        np.testing.assert_allclose(problem.hessian(at), curvature, atol=1e-7)
        direction = np.random.default_rng(0).normal(size=len(x))
        np.testing.assert_allclose(problem.hessian_product(at, direction), curvature @ direction, atol=1e-6)
        by_unit = central_differences(lambda x: groups.log_likelihoods(problem.evaluate(x)), x)
        np.testing.assert_allclose(groups.scores(at), by_unit * scale, atol=1e-6)


def test_values_that_do_not_exist_are_a_rejected_step(motives):
    with scope():
        problem = motives.hidden_problem().to_problem()
        end = problem.evaluate(np.zeros(len(problem.scale)))
    assert end.loss == np.inf and not end.gradient.any()


def test_a_chain_that_never_switches_is_a_mixture(motives):
    """Equal likelihoods, gradients and curvatures at any point, so equal estimates."""
    demos, rng = switching_trips()[0], np.random.default_rng(0)
    with scope():
        chain = motives.hidden_problem()
        hidden, _ = chain.hidden._referred_to(np.zeros(2), 0)
        never = chain.with_hidden(hidden.without_switch(0, 0).without_switch(1, 0))
        number = demos.num_episodes
        mixture = mixture_problem(chain.cells, [demos], np.arange(number), np.ones(number), num_types=2, l2=0.0)
        scale, odds = np.asarray(mixture.to_problem().scale)[:4], np.array([-0.3])
        for theta in (motives.estimates, motives.estimates - rng.uniform(0.1, 0.5, size=4)):
            one = mixture.to_problem().evaluate(mixture.vector([theta * scale], odds))
            two = never.to_problem().evaluate(never.vector([theta * scale, odds], np.zeros(2)))
            np.testing.assert_allclose(one.loss, two.loss, rtol=1e-10)
            np.testing.assert_allclose(one.gradient, two.gradient[:5], atol=1e-8)
            curvatures = mixture.to_problem().hessian(one), never.to_problem().hessian(two)[:5, :5]
            np.testing.assert_allclose(*curvatures, atol=1e-8)
            assert not two.gradient[5:].any()


def test_motives_are_recovered(motives):
    assert motives.status is ix.Status.CONVERGED
    truth = switching_trips()[1]
    order = np.argsort(np.linalg.norm(np.stack(motives.parameters)[:, None] - TRUTH, axis=-1)[:, 0])
    assert ((np.abs(np.stack(motives.parameters) - TRUTH[order]) / np.stack(motives.standard_errors())) < 3).all()
    assert (np.abs(motives.switching - STAY[order][:, order]) < 3 * motives.switching_errors()).all()
    assert (order[motives.likeliest_motives()] == truth).mean() > 0.75
    assert motives.motive_probabilities().shape == (len(truth), 2)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_types_of_drivers_are_recovered(seed, types):
    demos, who, of_type = travellers(seed)
    fit = types if seed == 0 else mixture_fit(demos, who)
    assert fit.status is ix.Status.CONVERGED
    away = np.append((fit.parameters - TRUTH).ravel(), fit.shares[0] - 0.6)
    size = fit.parameters.size
    joint = fit.covariance()[np.ix_([*range(size), size], [*range(size), size])]
    # χ² of five degrees of freedom: 18.2 is exceeded with the probability that 3 standard errors are.
    assert away @ np.linalg.solve(joint, away) < 18.2
    assert fit.standard_errors().max() < 0.5 and (fit.types == of_type).mean() > 0.9


def test_goals_are_as_one_absorbing_mdp_for_each():
    demos, who, _ = travellers()
    net, mdp = town(0.9)
    transitions = np.stack([np.asarray(part.toarray()) for part in mdp.dynamics.to_scipy()], axis=1)
    features = np.array(net.linear(NAMES).features)
    goals, worlds, rewards, parts, people = range(3), [], [], [], []
    for goal in goals:
        moves, exists, known = transitions.copy(), np.array(mdp.available), features.copy()
        moves[goal], known[goal] = np.eye(12)[goal], 0.0
        exists[goal] = np.arange(exists.shape[1]) == 0
        moves[~exists] = np.eye(12)[0]
        worlds.append(ix.MDP.from_dense(moves, np.full(12, 1 / 12), discount=0.9, available=exists))
        rewards.append(ix.LinearReward(known))
        chosen = np.flatnonzero(demos.goals == goal)
        parts.append(dataclasses.replace(demos.select(chosen), goals=None))
        people.append(who[chosen])
    chosen = demos.goals < 3
    with scope():
        bound, experts = pair_up(worlds, rewards, parts, None, "auto")
        one = likelihood([bound], experts, parts, np.concatenate(people))
        bound, experts = pair_up(mdp, net.linear(NAMES), demos.select(chosen), None, "auto", goals=True)
        other = likelihood([bound], experts, [demos.select(chosen)], who[chosen])
        x = np.append(TRUTH.ravel(), -0.3) * np.asarray(one.to_problem().scale)
        points = [each.to_problem().evaluate(x) for each in (one, other)]
        np.testing.assert_allclose(points[0].loss, points[1].loss, rtol=1e-9)
        np.testing.assert_allclose(points[0].gradient, points[1].gradient, atol=1e-8)
        each = [problem.to_problem().hessian(at) for problem, at in zip((one, other), points, strict=True)]
        np.testing.assert_allclose(*each, atol=1e-7)
        each = [problem.scores(at) for problem, at in zip((one, other), points, strict=True)]
        np.testing.assert_allclose(*each, atol=1e-7)


def likelihood(rewards, experts, demos, who):
    """That of two types."""
    people = np.unique(who, return_inverse=True)[1]
    cells = cells_of(rewards, experts, num_groups=2)
    return mixture_problem(cells, demos, people, np.ones(people.max() + 1), num_types=2, l2=0.0)


def test_observed_types_combine_with_unobserved_ones(types):
    demos, who, _ = travellers()
    net, mdp = town()
    young = (np.arange(50) % 2)[who]
    observed = ix.by_type(demos, young[:, None].astype(float), names=["young"])
    people = [who[young == value] for value in (0, 1)]
    rewards = observed.interact(net.linear(NAMES), ["lefts"])
    fit = ix.MixtureIRL(num_starts=1, progress=False).fit(
        [mdp] * 2, rewards, observed.demos, key=KEY, individual=people
    )
    assert fit.converged and fit.parameters.shape == (2, 3)
    # Age has no effect in truth.
    assert fit.log_likelihood >= types.log_likelihood
    assert (np.abs(fit.parameters[:, 2]) < 3 * fit.standard_errors()[:, 2]).all()
    same = ix.MixtureIRL(num_starts=1, progress=False).fit(
        [mdp] * 2, net.linear(NAMES), observed.demos, key=KEY, individual=people
    )
    np.testing.assert_allclose(same.parameters, types.parameters, atol=1e-6)


def test_motives_may_depend_on_places_and_have_features_of_their_own():
    demos = switching_trips()[0]
    net, mdp = town()
    estimator = ix.SwitchingIRL(num_starts=1, by_state=True, progress=False)
    rewards = [net.linear(["minutes"]), net.linear(NAMES)]
    fit = estimator.fit(mdp, rewards, demos, key=KEY, switching_features=np.arange(12) / 12)
    assert [len(theta) for theta in fit.parameters] == [1, 2] and fit.switching.shape == (12, 2, 2)
    assert all(np.isfinite(errors).all() for errors in fit.standard_errors())


def test_fits_are_summarised_saved_loaded_and_reported(motives, types, tmp_path):
    for name, fit in (("motives", motives), ("types", types)):
        run = fit.save(tmp_path / name)
        loaded = ix.load(run)
        assert str(loaded.summary()) == str(fit.summary()) and loaded.information.scores.shape == (
            fit.information.scores.shape
        )
        assert irlax("show", run) == (0, f"{fit.summary()}\n", "")
        assert json.loads(irlax("show", run, "--json").out)["goals"] == len(fit.goals) == 12
        assert irlax("report", run).code == 0
        text = (run / "report.html").read_text()
        assert text.count("observed uses") == 2 and "Convergence" in text
        assert fit.plot().savefig and "counts by state" in str(fit.baselines())
        policy = fit.plans[1].plan([4]).policy(4)
        logs = log_chances(switching_trips()[0], fit.rewards[1].weights)
        demos = switching_trips()[0]
        rows = demos.goals[demos.episode] == 4
        np.testing.assert_allclose(np.log(policy[demos.states[rows], demos.actions[rows]]), logs[rows], rtol=1e-9)


def test_simulated_trips_have_the_motives_of_the_fit(motives):
    demos, path = motives.simulate(3000, key=jax.random.key(4))
    demos.check(motives.mdp)
    assert demos.num_episodes == 3000 and len(path) == demos.num_steps and demos.terminated.all()
    rows = demos.followed
    for k in (0, 1):
        stays = path[rows + 1][path[rows] == k] == k
        error = np.sqrt(motives.switching[k, 0] * motives.switching[k, 1] / len(stays))
        assert abs(stays.mean() - motives.switching[k, k]) < 4 * error
        mine = path == k
        gain = log_chances(demos, motives.parameters[k])[mine]
        # The mean of log π of own choices is minus the entropy, above that under the other motive.
        assert gain.mean() > log_chances(demos, motives.parameters[1 - k])[mine].mean()
    given, _ = motives.simulate(starts=[0, 3], goals=[5, 5], key=KEY)
    assert given.start_states.tolist() == [0, 3] and given.goals.tolist() == [5, 5]
    with pytest.raises(ValueError, match="`starts` and `goals`"):
        motives.simulate(key=KEY)
    with pytest.raises(ValueError, match="leave `length` out"):
        motives.simulate(3, length=5, key=KEY)


def test_the_number_of_types_is_found():
    (net, mdp), (trips, _) = town(), driven(200, 5, np.eye(2))
    estimator = ix.MixtureIRL(num_starts=1, progress=False)
    curve = ix.compare_numbers(estimator, mdp, net.linear(NAMES), trips, key=KEY, numbers=(1, 2), folds=2)
    assert curve.best() == curve.best("bic") == 2


def test_the_penalty_is_chosen_by_cross_validation(monkeypatch):
    monkeypatch.setattr("irlax.estimators.mixed.estimation.CANDIDATES", (0.001, 1.0))
    monkeypatch.setattr("irlax.estimators.mixed.estimation.FOLDS", 2)
    fit = switching_fit(switching_trips()[0], num_motives=1, l2="cv", tol=1e-4)
    assert fit.cross_validation is not None and fit.l2 == fit.cross_validation.l2 == 0.001 and fit.converged


def test_the_command_line_fits_types_of_trips(types, tmp_path):
    net, mdp = town()
    demos, _, _ = travellers()
    ix.save_mdp(tmp_path / "mdp.npz", mdp)
    ix.write_demos(tmp_path / "demos.csv", demos)
    np.save(tmp_path / "features.npy", net.linear(NAMES).features)
    end = irlax(
        *("fit", tmp_path / "mdp.npz", tmp_path / "demos.csv", "--features", tmp_path / "features.npy"),
        *("--method", "mixture", "--set", "num_starts=1", "--out", tmp_path / "run", "--key", "1"),
    )
    assert end.code == 0 and "MixtureIRL: types" in end.out


def test_what_cannot_be_is_refused(motives, types):
    demos = switching_trips()[0]
    net, mdp = town()
    without = dataclasses.replace(demos, goals=None)
    for fit in (motives, types):
        with pytest.raises(ValueError, match="these have none"):
            fit.score(without)
        with pytest.raises(ValueError, match="policy of its own"):
            _ = fit.policies
    estimator = ix.SwitchingIRL(progress=False)
    with pytest.raises(ValueError, match="only some have"):
        estimator.fit([mdp, mdp], net.linear(NAMES), [demos, without], key=KEY)
    with pytest.raises(ValueError, match="leave `start`"):
        dataclasses.replace(estimator, start="mdp").fit(mdp, net.linear(NAMES), demos, key=KEY)
    curved = ix.NeuralReward(np.eye(12), width=2, depth=1, key=KEY)
    with pytest.raises(ValueError, match="linear in their parameters"):
        estimator.fit(mdp, curved, demos, key=KEY)
    with pytest.raises(ValueError, match="MixtureIRL or SwitchingIRL"):
        ix.MaxEntIRL().fit(mdp, net.linear(NAMES), demos)
    with pytest.raises(ValueError, match="without goals"):
        ix.DriftingIRL().fit(mdp, net.linear(NAMES), demos)
