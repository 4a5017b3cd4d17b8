"""Motives that switch: special cases of other estimators, derivatives, recovered truths, files and commands."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from scipy.special import expit, logit

import irlax as ix
from irlax.estimators.mixed.mixture_fit import mixture_problem
from irlax.estimators.mixed.observed_cells import ObservedCells
from irlax.estimators.mixed.simulation import simulate_motives
from irlax.estimators.tabular.pairing import pair_up
from irlax.precision import scope
from tests.command_line import irlax

NUM_STATES, NUM_ACTIONS, NUM, LENGTH = 4, 3, 30, 40
RNG = np.random.default_rng(0)
MDP = ix.MDP.from_dense(
    RNG.dirichlet(np.ones(NUM_STATES), size=(NUM_STATES, NUM_ACTIONS)), np.full(NUM_STATES, 0.25), discount=0.9
)
FEATURES = RNG.normal(size=(NUM_STATES, NUM_ACTIONS, 2))
REWARD = ix.LinearReward(FEATURES, names=["food", "shelter"])
TRUTH = np.array([[2.0, -1.0], [-1.0, 1.5]])
POLICIES = np.stack([ix.soft_plan(MDP, FEATURES @ theta).policy for theta in TRUTH])
INITIAL, SWITCHING = np.array([0.7, 0.3]), np.array([[0.9, 0.1], [0.2, 0.8]])


def simulated(switching=SWITCHING, seed=0):
    return simulate_motives(MDP, POLICIES, INITIAL, switching, num=NUM, length=LENGTH, key=jax.random.key(seed))


def fitted(demos, mdp=MDP, num_starts=1, **settings):
    estimator = ix.SwitchingIRL(num_starts=num_starts, progress=False, **settings)
    return estimator.fit(mdp, REWARD, demos, key=jax.random.key(1))


@pytest.fixture(scope="module")
def data():
    return simulated()


@pytest.fixture(scope="module")
def fit(data):
    return fitted(data[0], num_starts=2)


def test_simulated_motives_are_recovered(fit, data):
    assert fit.status is ix.Status.CONVERGED
    errors = [*zip(fit.parameters, TRUTH, fit.standard_errors(), strict=True)]
    assert all((np.abs(theta - truth) < 3 * error).all() for theta, truth, error in errors)
    assert (np.abs(fit.switching - SWITCHING) < 3 * fit.switching_errors()).all()
    assert (np.abs(fit.initial - INITIAL) < 3 * fit.initial_errors()).all()
    # Errors that say something: the motives are many of them apart.
    assert max(error.max() for *_, error in errors) < 0.5 and fit.switching_errors().max() < 0.05
    assert (fit.likeliest_motives() == data[1]).mean() > 0.85
    probabilities = fit.motive_probabilities()
    assert abs(probabilities.max(axis=1).mean() - (probabilities.argmax(axis=1) == data[1]).mean()) < 0.05


def test_the_score_of_the_data_is_their_log_likelihood(fit, data):
    assert np.isclose(fit.score(data[0]) * NUM * LENGTH, fit.log_likelihood, rtol=1e-12)
    assert np.isclose(fit.log_predictive(data[0]).sum(), fit.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(fit.motive_probabilities(data[0]), fit.motive_probabilities(), atol=1e-12)


def test_counts_stand_beside_the_score(fit, data):
    states, actions = data[0].states, data[0].actions
    counts = np.zeros((NUM_STATES, NUM_ACTIONS))
    np.add.at(counts, (states, actions), 1)
    expected = np.log(counts / counts.sum(axis=1, keepdims=True))[states, actions].mean()
    rows = {row[0]: row for row in fit.baselines().rows}
    assert rows["this fit"][1] == 7 and np.isclose(rows["this fit"][2], fit.score(data[0]))
    assert np.isclose(rows["counts by state"][2], expected)


def test_gradient_curvature_and_scores_are_those_of_finite_differences(fit):
    with scope():
        groups = fit.hidden_problem()
        problem = groups.to_problem()
        scale = np.asarray(problem.scale)
        x = np.concatenate([fit.estimates, groups.vector([], fit.chain.parameters)]) * scale + 0.1
        at, step = problem.evaluate(x), 1e-5
        near = [[problem.evaluate(x + sign * step * axis) for sign in (1, -1)] for axis in np.eye(len(x))]
        slopes = [(up.loss - down.loss) / (2 * step) for up, down in near]
        np.testing.assert_allclose(at.gradient, slopes, atol=1e-7)
        curvature = [(up.gradient - down.gradient) / (2 * step) for up, down in near]
        np.testing.assert_allclose(problem.hessian(at), curvature, atol=1e-6)
        by_unit = [(groups.log_likelihoods(up) - groups.log_likelihoods(down)) / (2 * step) for up, down in near]
        np.testing.assert_allclose(groups.scores(at), np.array(by_unit).T * scale, atol=1e-5)


@pytest.fixture(scope="module")
def alone(data):
    """The estimate of one reward for all choices."""
    return ix.MCEIRL(objective="likelihood").fit(MDP, REWARD, data[0])


@pytest.mark.parametrize("by_state", [False, True])
def test_one_motive_is_the_maximum_causal_entropy_estimate(data, alone, by_state):
    one, other = fitted(data[0], num_motives=1, by_state=by_state), alone
    np.testing.assert_allclose(one.parameters[0], other.reward.weights, atol=1e-8)
    np.testing.assert_allclose(one.log_likelihood, other.log_likelihood, rtol=1e-10)
    np.testing.assert_allclose(one.standard_errors()[0], other.standard_errors(), rtol=1e-6)


def test_a_chain_that_never_switches_is_a_mixture(fit, data):
    """Equal likelihoods, gradients and curvatures at any point, so equal estimates."""
    demos = data[0]
    with scope():
        rewards, experts = pair_up(MDP, REWARD, demos, None, "auto")
        cells = ObservedCells.of([rewards], experts, num_groups=2)
        mixture = mixture_problem(cells, [demos], np.arange(NUM), np.ones(NUM), num_types=2, l2=0.0)
        chain = fit.hidden_problem().hidden.without_switch(0, 0).without_switch(1, 0)
        # Log-odds of the second motive against the first, as a mixture has them.
        chain, _ = chain._referred_to(np.zeros(2), 0)
        switching = fit.hidden_problem().with_hidden(chain)
        odds = np.array([-0.3])
        for theta in (fit.estimates, fit.estimates + RNG.normal(size=4)):
            one = mixture.to_problem().evaluate(mixture.vector([theta], odds))
            two = switching.to_problem().evaluate(switching.vector([theta, odds], np.zeros(2)))
            np.testing.assert_allclose(one.loss, two.loss, rtol=1e-10)
            np.testing.assert_allclose(one.gradient, two.gradient[:5], atol=1e-8)
            curvatures = mixture.to_problem().hessian(one), switching.to_problem().hessian(two)[:5, :5]
            np.testing.assert_allclose(*curvatures, atol=1e-8)
            assert not two.gradient[5:].any()


def test_a_switch_that_never_happens_has_probability_0_and_no_standard_error():
    demos, _ = simulated(np.array([[0.9, 0.1], [0.0, 1.0]]))
    fit = fitted(demos)
    assert fit.status is ix.Status.CONVERGED
    home = int(np.argmin(np.linalg.norm(np.stack(fit.parameters) - TRUTH[1], axis=1)))
    assert fit.switching[home, 1 - home] == 0 and fit.switching[home, home] == 1
    errors = fit.switching_errors()
    assert np.isnan(errors[home, 1 - home]) and np.isfinite(errors[1 - home]).all()
    assert "edge of what is possible" in str(fit.summary())


def test_an_episode_of_weight_2_counts_as_two_also_in_two_mdps(data):
    """One fit with weights, and one in which what counts twice is seen again in a second MDP, which is the same."""
    demos = data[0]
    doubled = dataclasses.replace(demos, weights=np.where(np.arange(NUM) < 5, 2.0, 1.0))
    again = demos.select(range(5))
    one, two = fitted(doubled), fitted([demos, again], mdp=[MDP, MDP])
    np.testing.assert_allclose(one.estimates, two.estimates, atol=1e-5)
    np.testing.assert_allclose(one.log_likelihood, two.log_likelihood, rtol=1e-9)
    for kind in ("hessian", "opg", "sandwich"):
        np.testing.assert_allclose(one.switching_errors(kind), two.switching_errors(kind), rtol=1e-4)
    probabilities = one.motive_probabilities()
    both = np.concatenate([probabilities, probabilities[: 5 * LENGTH]])
    np.testing.assert_allclose(two.motive_probabilities(), both, atol=1e-5)


def test_motives_can_have_features_of_their_own(data):
    rewards = [ix.LinearReward(FEATURES[..., :1], names=["food"]), REWARD]
    estimator = ix.SwitchingIRL(num_starts=1, progress=False)
    fit = estimator.fit(MDP, rewards, data[0], key=jax.random.key(1))
    assert [len(theta) for theta in fit.parameters] == [1, 2]
    assert fit.information.hessian.shape == (6, 6) and "food" in str(fit.summary())
    with pytest.raises(ValueError, match="a list of 2"):
        estimator.fit(MDP, [REWARD] * 3, data[0], key=jax.random.key(1))


@pytest.fixture(scope="module")
def by_state():
    """Motives that switch in state 0 only."""
    switching = np.tile(np.eye(2), (NUM_STATES, 1, 1))
    switching[0] = 0.5
    demos, _ = simulated(switching, seed=2)
    return fitted(demos, by_state=True, switching_l2=0.001), switching


def test_switching_that_depends_on_the_state_is_recovered(by_state):
    fit, truth = by_state
    assert fit.status is ix.Status.CONVERGED and fit.switching.shape == (NUM_STATES, 2, 2)
    assert np.abs(fit.switching - truth).max() < 0.2
    assert (np.abs(fit.switching - truth) < 4 * fit.switching_errors()).all()
    assert "Means over the states" in str(fit.summary())


def test_errors_of_switches_in_each_state_are_those_of_their_own_log_odds(by_state):
    """A log-odds for each state and motive, with the penalty that is left if the common one is the best."""
    fit, demos, size = by_state[0], by_state[0].demos[0], NUM_STATES
    states, actions = demos.states.reshape(NUM, LENGTH), demos.actions.reshape(NUM, LENGTH)

    def log_likelihood(x):
        policies = np.stack([np.asarray(ix.soft_plan(MDP, FEATURES @ theta).policy) for theta in x[:4].reshape(2, 2)])
        leave, first = expit(x[5:].reshape(size, 2)), expit(x[4])
        switch = np.stack([[1 - leave[:, 0], leave[:, 0]], [leave[:, 1], 1 - leave[:, 1]]]).transpose(2, 0, 1)
        motive, total = np.tile([1 - first, first], (NUM, 1)), 0.0
        for t in range(LENGTH):
            motive = motive * policies[:, states[:, t], actions[:, t]].T
            total += np.log(motive.sum(axis=1)).sum()
            motive = np.einsum("ni,nij->nj", motive / motive.sum(axis=1, keepdims=True), switch[states[:, t]])
        return total

    leave = np.stack([fit.switching[:, 0, 1], fit.switching[:, 1, 0]], axis=1)
    x = np.concatenate([fit.estimates, [logit(fit.initial[1])], logit(leave).ravel()])
    assert np.isclose(log_likelihood(x), fit.log_likelihood, rtol=1e-12)
    steps = 1e-3 * np.eye(len(x))
    value = lambda i, j, a, b: log_likelihood(x + a * steps[i] + b * steps[j])  # noqa: E731
    corner = lambda i, j: value(i, j, 1, 1) - value(i, j, 1, -1) - value(i, j, -1, 1) + value(i, j, -1, -1)  # noqa: E731
    hessian = -np.array([[corner(i, j) if i <= j else 0.0 for j in range(len(x))] for i in range(len(x))]) / 4e-6
    hessian += np.triu(hessian, 1).T
    penalty = np.zeros_like(hessian)
    penalty[5:, 5:] = NUM * 0.001 * np.kron(np.eye(size) - 1 / size, np.eye(2))
    inverse = np.linalg.inv(hessian + penalty)
    errors = np.sqrt(np.diag(inverse @ hessian @ inverse))[5:].reshape(size, 2) * leave * (1 - leave)
    found = fit.switching_errors()
    np.testing.assert_allclose(np.stack([found[:, 0, 1], found[:, 1, 0]], axis=1), errors, rtol=1e-2)


def test_features_of_states_stand_for_the_states(by_state):
    fit, _ = by_state
    features = np.eye(NUM_STATES)
    same = fit.estimator.fit(MDP, REWARD, fit.demos[0], key=jax.random.key(1), switching_features=features)
    np.testing.assert_allclose(same.switching, fit.switching, atol=1e-4)
    with pytest.raises(ValueError, match="by_state=True"):
        ix.SwitchingIRL().fit(MDP, REWARD, fit.demos[0], key=jax.random.key(1), switching_features=features)


def test_motives_are_summarised_saved_loaded_and_reported(fit, by_state, tmp_path):
    for name, each in (("one", fit), ("by_state", by_state[0])):
        run = each.save(tmp_path / name)
        loaded = ix.load(run)
        assert str(loaded.summary()) == str(each.summary())
        np.testing.assert_array_equal(loaded.switching, each.switching)
        assert irlax("show", run) == (0, f"{each.summary()}\n", "")
    record = json.loads(irlax("show", tmp_path / "one", "--json").out)
    assert record["switching"] == fit.switching.tolist()
    assert irlax("report", tmp_path / "one").code == 0
    text = (tmp_path / "one" / "report.html").read_text()
    for heading in ("Motives over time", "How sure the rewards are", "Motive 1:", "Motive 2:", "Convergence"):
        assert f"<h2>{heading}" in text


def test_the_command_line_fits_motives(data, tmp_path):
    ix.save_mdp(tmp_path / "mdp.npz", MDP)
    ix.write_demos(tmp_path / "demos.csv", data[0])
    np.save(tmp_path / "features.npy", FEATURES)
    end = irlax(
        *("fit", tmp_path / "mdp.npz", tmp_path / "demos.csv", "--features", tmp_path / "features.npy"),
        *("--method", "switching", "--set", "num_starts=1", "--out", tmp_path / "run", "--key", "1"),
    )
    assert end.code == 0 and "probabilities of the next motive" in end.out


def test_the_number_of_motives_is_found(data):
    curve = ix.compare_numbers(
        ix.SwitchingIRL(num_starts=1, progress=False),
        MDP,
        REWARD,
        data[0],
        key=jax.random.key(1),
        numbers=(1, 2),
        folds=2,
    )
    assert curve.best() == curve.best("bic") == curve.best("aic") == 2
    assert curve.rank.tolist() == [2, 7] and "held-out likelihood" in str(curve)
    assert curve.plot().savefig


def test_simulated_episodes_have_the_motives_of_the_fit(fit):
    demos, motives = fit.simulate(200, length=20, key=jax.random.key(3))
    assert demos.num_steps == len(motives) == 4000
    stays = (motives.reshape(200, 20)[:, 1:] == motives.reshape(200, 20)[:, :-1])[motives.reshape(200, 20)[:, :-1] == 0]
    error = np.sqrt(fit.switching[0, 0] * fit.switching[0, 1] / len(stays))
    assert abs(stays.mean() - fit.switching[0, 0]) < 4 * error


def test_a_motive_that_never_stays_has_no_finite_log_odds():
    demos, _ = simulated(np.array([[0.7, 0.3], [1.0, 0.0]]), seed=4)
    with pytest.warns(ix.UnfinishedWarning, match="edge of what is possible"):
        fit = fitted(demos)
    assert fit.status is ix.Status.UNBOUNDED and "fewer motives" in fit.reason


def test_two_motives_where_there_is_one_are_one_too_many():
    demos = ix.rollout(MDP, POLICIES[0], num=NUM, length=LENGTH, key=jax.random.key(5))
    with pytest.warns(ix.UnfinishedWarning):
        fit = fitted(demos, num_starts=2)
    assert not fit.converged and np.isnan(fit.bic)
    with pytest.raises(ValueError, match="no standard errors"):
        fit.standard_errors()
    assert "no estimates" in str(fit.summary())


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"num_motives": 0}, "num_motives"), ({"l2": -1.0}, "l2"), ({"switching_l2": -1.0}, "switching_l2")],
)
def test_bad_settings_are_refused(settings, name):
    with pytest.raises(ValueError, match=name):
        ix.SwitchingIRL(**settings)


def test_what_is_no_demonstrations_is_refused(fit):
    with pytest.raises(TypeError, match="Demonstrations"):
        ix.SwitchingIRL().fit(MDP, REWARD, POLICIES[0], key=jax.random.key(0))
    with pytest.raises(TypeError, match="Demonstrations"):
        fit.score(POLICIES[0])
