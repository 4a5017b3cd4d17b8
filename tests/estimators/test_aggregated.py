"""A fit to the statistics of demonstrations is the fit to the demonstrations."""

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.demos import streaming

S, A, GAMMA = 4, 2, 0.9
FEATURES = np.random.default_rng(1).normal(size=(S, A, 2))
REWARD = ix.LinearReward(FEATURES, names=["first", "second"])
OBJECTIVES = ("feature-matching", "discounted-likelihood", "likelihood")
COLUMNS = {"episode": "episode", "time": "t", "state": "state", "action": "action"}
COLUMNS |= {name: name for name in ("next_state", "terminated", "weight")}
EXACT = {"rtol": 1e-10, "atol": 1e-12}

pytestmark = pytest.mark.filterwarnings("ignore:Truncated episodes")


def problem(horizon, *, ends=False):
    """Random moves; with `ends` the last state absorbs, and has one action."""
    rng = np.random.default_rng(0)
    moves, available = rng.dirichlet(np.ones(S), size=(S, A)), np.ones((S, A), bool)
    if ends:
        moves[-1], available[-1, 1] = np.eye(S)[-1], False
    initial = np.array([0.5, 0.3, 0.2, 0.0])
    return ix.MDP.from_dense(moves, initial, discount=GAMMA, horizon=horizon, available=available)


def frame(mdp, num=60):
    """Episodes with weights, which end where they are absorbed."""
    length = {} if mdp.horizon else {"length": 30}
    walks = ix.rollout(mdp, ix.soft_plan(mdp, FEATURES @ [1.0, -0.5]), num=num, key=jax.random.key(0), **length)
    rows = walks.to_frame()
    rows["weight"] = np.random.default_rng(2).uniform(0.5, 2.0, size=num)[rows["episode"]]
    ending = mdp.absorbing[rows["next_state"]]
    rows["terminated"] = np.bincount(rows["episode"], ending)[rows["episode"]] > 0
    return rows[~mdp.absorbing[rows["state"]]]


def observed(mdp):
    return ix.Demonstrations.from_frame(frame(mdp), **COLUMNS)


def sizes(mdp):
    return {"num_states": S, "num_actions": A, "discount": float(mdp.discount), "horizon": mdp.horizon}


def assert_same_fit(fit, expected):
    assert fit.converged and expected.converged
    np.testing.assert_allclose(fit.reward.weights, expected.reward.weights, **EXACT)
    np.testing.assert_allclose(fit.log_likelihood, expected.log_likelihood, **EXACT)
    np.testing.assert_allclose(fit.missing_mass, expected.missing_mass, **EXACT)
    np.testing.assert_allclose(fit.mdp.initial, expected.mdp.initial, **EXACT)
    np.testing.assert_allclose(fit.feature_gap, expected.feature_gap, atol=1e-10)
    assert (fit.num_choices, fit.num_episodes) == (expected.num_choices, expected.num_episodes)
    assert fit.identification().rank == expected.identification().rank


@pytest.mark.parametrize(("horizon", "ends"), [(None, False), (5, True)])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_fits_agree(objective, horizon, ends):
    mdp = problem(horizon, ends=ends)
    demos = observed(mdp)
    estimator = ix.MCEIRL(objective=objective, l2=0.01, progress=False)
    statistics = ix.DemoStatistics.from_demos(demos, **sizes(mdp))
    assert_same_fit(estimator.fit(mdp, REWARD, statistics), estimator.fit(mdp, REWARD, demos))


@pytest.mark.parametrize("horizon", [None, 5])
def test_a_file_counted_in_pieces_is_fitted_alike(tmp_path, monkeypatch, horizon):
    monkeypatch.setattr(streaming, "_BATCH", 7)
    mdp = problem(horizon, ends=True)
    frame(mdp).to_parquet(tmp_path / "panel.parquet")
    statistics = ix.statistics_from_parquet(tmp_path / "panel.parquet", **sizes(mdp), **COLUMNS, progress=False)
    for objective in OBJECTIVES:
        estimator = ix.MCEIRL(objective=objective, l2=0.01, progress=False)
        assert_same_fit(estimator.fit(mdp, REWARD, statistics), estimator.fit(mdp, REWARD, observed(mdp)))


@pytest.mark.parametrize("horizon", [None, 5])
def test_standard_errors_that_need_no_episodes_agree(horizon):
    mdp = problem(horizon)
    demos = observed(mdp)
    estimator = ix.MCEIRL(objective="likelihood", progress=False)
    fit = estimator.fit(mdp, REWARD, ix.DemoStatistics.from_demos(demos, **sizes(mdp)))
    expected = estimator.fit(mdp, REWARD, demos)
    for kind in ("hessian", "opg", "sandwich"):
        np.testing.assert_allclose(fit.standard_errors(kind), expected.standard_errors(kind), rtol=1e-8)
    assert str(fit.regression_table()) == str(expected.regression_table())


def test_what_needs_episodes_is_refused():
    mdp = problem(None)
    statistics = ix.DemoStatistics.from_demos(observed(mdp), **sizes(mdp))
    fit = ix.MCEIRL(objective="likelihood", progress=False).fit(mdp, REWARD, statistics)
    with pytest.raises(ValueError, match="scores of each episode"):
        fit.standard_errors("sandwich", cluster="episode")
    with pytest.raises(ValueError, match="scores of each episode"):
        fit.standard_errors("sandwich", weights="sampling")
    with pytest.raises(ValueError, match="The bootstrap needs the episodes themselves"):
        fit.bootstrap(num=10, key=jax.random.key(0))
    with pytest.raises(ValueError, match="`l2='cv'` needs the episodes themselves"):
        ix.MCEIRL(objective="likelihood", l2="cv", progress=False).fit(mdp, REWARD, statistics)
    with pytest.raises(ValueError, match="Two-step estimation needs the episodes themselves"):
        ix.TwoStepIRL().fit(mdp, REWARD, statistics)
    by_move = ix.LinearReward(np.random.default_rng(0).normal(size=(S, A, S, 2)))
    with pytest.raises(ValueError, match="under the path model needs the episodes themselves"):
        ix.MaxEntIRL(progress=False).fit(mdp, by_move, statistics)


def test_choices_at_each_time_serve_every_discount():
    mdp = problem(5)
    demos = observed(mdp)
    statistics = ix.DemoStatistics.from_demos(demos, **sizes(mdp) | {"discount": 0.5})
    for objective in OBJECTIVES:
        estimator = ix.MCEIRL(objective=objective, l2=0.01, progress=False)
        assert_same_fit(estimator.fit(mdp, REWARD, statistics), estimator.fit(mdp, REWARD, demos))


def test_statistics_of_another_problem_are_refused():
    mdp = problem(5)
    demos = observed(mdp)
    fit = ix.MCEIRL(objective="likelihood", progress=False).fit
    endless = sizes(mdp) | {"horizon": None}
    with pytest.raises(ValueError, match=r"Compute the statistics with `horizon=5`"):
        fit(mdp, REWARD, ix.DemoStatistics.from_demos(demos, **endless))
    other = ix.DemoStatistics.from_demos(demos, **endless | {"discount": 0.5})
    for objective in OBJECTIVES[:2]:
        with pytest.raises(ValueError, match=r"summed with discount 0.5, but the MDP has 0.9"):
            ix.MCEIRL(objective=objective, progress=False).fit(mdp.replace(horizon=None), REWARD, other)
    with pytest.raises(ValueError, match="times go up to 4, but must lie below the horizon 3"):
        fit(mdp.replace(horizon=3), REWARD, other)
    with pytest.raises(ValueError, match="of 5 states and 2 actions"):
        fit(mdp, REWARD, ix.DemoStatistics.from_demos(demos, **sizes(mdp) | {"num_states": 5}))
    certain = ix.MDP.from_successors(np.zeros((S, A, 1), int), np.ones((S, A, 1)), mdp.initial, discount=GAMMA)
    with pytest.raises(ValueError, match="probability 0 in the MDP"):
        fit(certain, REWARD, other)
    cut = frame(mdp)[lambda rows: rows["t"] < 3]
    short = ix.DemoStatistics.from_demos(ix.Demonstrations.from_frame(cut, **COLUMNS), **sizes(mdp))
    with pytest.raises(ValueError, match="60 of 60 do not have 5 steps"):
        ix.MCEIRL(progress=False).fit(mdp, REWARD, short)


@pytest.mark.parametrize("horizon", [None, 5])
def test_a_fit_to_statistics_is_saved_with_them(tmp_path, horizon):
    mdp = problem(horizon, ends=True)
    statistics = ix.DemoStatistics.from_demos(observed(mdp), **sizes(mdp))
    fit = ix.MCEIRL(objective="likelihood", progress=False).fit(mdp, REWARD, statistics)
    again = ix.load(fit.save(tmp_path / "run"))
    assert str(again.summary()) == str(fit.summary())
    np.testing.assert_allclose(again.standard_errors(), fit.standard_errors(), rtol=1e-12)
    statistics.save(tmp_path / "statistics.npz")
    loaded = ix.DemoStatistics.load(tmp_path / "statistics.npz")
    assert str(loaded) == str(statistics)
    for one, other in zip(jax.tree.leaves(loaded), jax.tree.leaves(statistics), strict=True):
        same = (one != other).nnz == 0 if hasattr(one, "nnz") else np.array_equal(one, other)
        assert same


def test_transitions_are_estimated_from_statistics():
    mdp = problem(None, ends=True)
    demos = observed(mdp)
    statistics = ix.DemoStatistics.from_demos(demos, **sizes(mdp))
    counts, starts = np.zeros((S, A, S)), np.zeros(S)
    weights = np.repeat(demos.weights, demos.lengths)
    np.add.at(counts, (demos.states, demos.actions, demos.next_states), weights)
    np.add.at(starts, demos.start_states, demos.weights)
    for options in ({"unseen": "stay"}, {"unseen": "uniform"}, {"smoothing": 0.5}):
        found = ix.MDP.from_statistics(statistics, **options)
        expected = ix.MDP.from_counts(counts, starts, discount=GAMMA, **options)
        np.testing.assert_allclose(found.dynamics.to_dense(), expected.dynamics.to_dense(), rtol=1e-12)
        np.testing.assert_allclose(found.initial, expected.initial, rtol=1e-12)
        assert found.discount == GAMMA and found.horizon is None
    with pytest.raises(ValueError, match="no observation of 2 of 8"):
        ix.MDP.from_statistics(statistics)
    assert ix.MDP.from_statistics(statistics, discount=0.5, horizon=7, unseen="stay").discount == 0.5
