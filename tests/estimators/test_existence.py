"""Whether a finite optimum exists: the engines against each other, against closed forms, and at sizes of their own."""

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.estimators.tabular import existence

GRID = ix.envs.Gridworld(["S..", "..G", "..."], slip=0.0, stay=False, discount=0.9, horizon=8)
#: The verdict does not wait for the solver to arrive.
SOLVERS = {
    "newton": "newton",
    "lbfgs": "lbfgs",
    "dual-ascent": ix.DualAscent(max_steps=100),
    "adam": ix.Adam(max_steps=100),
}


def walks(num=30):
    return ix.rollout(GRID.mdp, ix.soft_plan(GRID.mdp, GRID.reward), num=num, key=jax.random.key(0))


# tests/metamorphic/test_verdicts.py tries every solver with feature matching and the likelihood, with few features, so
# here each of these once, with a table of rewards; the discounted likelihood is tried here alone.
@pytest.mark.parametrize(
    ("solver", "objective"),
    [
        *((solver, "discounted-likelihood") for solver in SOLVERS),
        ("newton", "feature-matching"),
        ("lbfgs", "likelihood"),
    ],
)
def test_a_reachable_action_that_is_never_taken_has_no_finite_reward(solver, objective):
    with pytest.warns(ix.UnfinishedWarning, match="no finite optimum"):
        fit = ix.MCEIRL(solver=SOLVERS[solver], objective=objective).fit(GRID.mdp, ix.TabularReward("sa"), walks())
    assert fit.status is ix.Status.UNBOUNDED and not fit.converged


@pytest.mark.parametrize("tol", [1e-3, 1e-8, 1e-12])
def test_the_verdict_does_not_depend_on_the_tolerance(tol):
    with pytest.warns(ix.UnfinishedWarning, match="no finite optimum"):
        fit = ix.MCEIRL(tol=tol).fit(GRID.mdp, ix.TabularReward("sa"), walks())
    assert fit.status is ix.Status.UNBOUNDED


def test_fits_made_together_have_the_verdict_of_fits_made_alone():
    with pytest.warns(ix.UnfinishedWarning, match="no finite optimum"):
        (fit,) = ix.MCEIRL().fit_many(GRID.mdp, ix.TabularReward("sa"), [walks()])
    assert fit.status is ix.Status.UNBOUNDED
    with pytest.warns(ix.UnfinishedWarning, match="no finite optimum"):
        assert ix.MaxEntIRL().fit(GRID.mdp, ix.TabularReward("sa"), walks()).status is ix.Status.UNBOUNDED


def coin(heads, tosses):
    """One choice between two actions, made so many times: log-odds are finite unless it always falls alike."""
    mdp = ix.MDP.from_dense(np.ones((1, 2, 1)), [1.0], discount=0.9, horizon=1)
    actions = (np.arange(tosses) < heads).astype(int)[:, None]
    features = np.zeros((1, 2, 1))
    features[0, 1] = 1.0
    return mdp, ix.LinearReward(features), ix.Demonstrations.from_arrays(np.zeros_like(actions), actions)


@pytest.mark.parametrize("objective", ["feature-matching", "likelihood"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "dual-ascent"])
def test_one_event_in_many_is_an_estimate_and_none_is_not(solver, objective):
    for heads, tosses in ((1, 20), (1, 20_000)):
        mdp, reward, demos = coin(heads, tosses)
        fit = ix.MCEIRL(solver=solver, objective=objective, tol=1e-10).fit(mdp, reward, demos)
        assert fit.converged
        np.testing.assert_allclose(fit.reward.weights, np.log(heads / (tosses - heads)), rtol=1e-4)
    with pytest.warns(ix.UnfinishedWarning, match="no finite optimum"):
        assert not ix.MCEIRL(solver=solver, objective=objective).fit(*coin(0, 20)).converged


def test_a_choice_between_states_that_nobody_entered_can_have_no_finite_reward():
    """From the start, 0 leads to a state with a choice that only pays less, 1 to an end; four of ten take 0.

    The first choice is log Σ exp of the second: with one weight on a worse second action, action 0 is taken by at least
    half of those who start, and by just half only at infinity. With six of ten the weight is finite.
    """
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, 1] = transitions[0, 1, 2] = 1.0
    transitions[1:, :, 3] = 1.0
    available = np.array([[1, 1], [1, 1], [1, 0], [1, 0]], bool)
    mdp = ix.MDP.from_dense(transitions, [1.0, 0, 0, 0], discount=1.0, horizon=2, available=available)
    features = np.zeros((4, 2, 1))
    features[1, 1] = -1.0

    def fit(taking_0):
        actions = (np.arange(10) >= taking_0).astype(int)[:, None]
        demos = ix.Demonstrations.from_arrays(np.zeros((10, 1), int), actions)
        return ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), demos)

    with pytest.warns(ix.UnfinishedWarning, match="no finite optimum"):
        assert fit(4).status is ix.Status.UNBOUNDED
    found = fit(6)
    # P(0) = (1 + e^−θ) / (2 + e^−θ) = .6
    assert found.converged
    np.testing.assert_allclose(found.reward.weights, np.log(2.0), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("seed", "horizon"), [(0, 3), (1, 3), (2, 3), (3, None), (4, None), (5, None)])
def test_linear_programme_and_gradients_agree(seed, horizon, monkeypatch):
    """The engine for large problems is asked about small ones, which the linear programme decides exactly.

    Of each horizon three problems, one of which has no finite optimum.
    """
    rng = np.random.default_rng(seed)
    transitions = np.eye(4)[rng.integers(4, size=(4, 3))]
    mdp = ix.MDP.from_dense(transitions, rng.dirichlet(np.ones(4)), discount=0.8, horizon=horizon)
    features = rng.normal(size=(4, 3, 2))
    plan = ix.soft_plan(mdp, (1 + 2 * (seed % 3)) * features @ [1.0, -1.0])
    length = {} if horizon else {"length": 200}
    demos = ix.rollout(mdp, plan, num=2 + 2 * seed, key=jax.random.key(seed), **length)
    verdicts = []
    for small in (existence.SMALL, 0):
        monkeypatch.setattr(existence, "SMALL", small)
        verdicts.append(ix.MCEIRL().fit(mdp, ix.LinearReward(features), demos).status)
    assert verdicts[0] is verdicts[1]
    assert verdicts[0] in (ix.Status.CONVERGED, ix.Status.UNBOUNDED)


def test_five_thousand_parameters_are_judged_as_well():
    """A state that is never entered, among so many that curvature is out of reach."""
    grid = ix.envs.Gridworld(["." * 71] * 71, slip=0.1, discount=0.9, horizon=2)
    demos = ix.rollout(grid.mdp, ix.soft_plan(grid.mdp, np.zeros(71 * 71)), num=50, key=jax.random.key(0))
    with pytest.warns(ix.UnfinishedWarning, match="no finite optimum"):
        fit = ix.MCEIRL(tol=0.1).fit(grid.mdp, ix.TabularReward("s"), demos)
    assert fit.status is ix.Status.UNBOUNDED
    everything = np.full((grid.mdp.num_states, grid.mdp.num_actions), 1 / grid.mdp.num_actions)
    assert ix.MCEIRL(tol=0.1).fit(grid.mdp, ix.TabularReward("s"), everything).converged


def test_what_cannot_be_decided_is_no_success(monkeypatch):
    mdp, reward, demos = coin(5, 20)
    monkeypatch.setattr(existence, "_matching_exists", lambda search: None)
    with pytest.warns(ix.UnfinishedWarning, match="whether a finite optimum exists is not known"):
        fit = ix.MCEIRL().fit(mdp, reward, demos)
    assert fit.status is ix.Status.UNCERTAIN and not fit.converged


def test_adam_that_hardly_moves_has_not_converged():
    mdp, reward, demos = coin(5, 20)
    for objective in ("feature-matching", "likelihood"):
        with pytest.warns(ix.UnfinishedWarning, match="stalled"):
            fit = ix.MCEIRL(objective=objective, solver=ix.Adam(learning_rate=1e-9)).fit(mdp, reward, demos)
        assert not fit.converged and fit.certificate.gradient > 0.1
    with pytest.raises(ValueError, match="no standard errors"):
        fit.standard_errors()
    network = ix.NeuralReward(np.eye(1), over="sa", num_actions=2, width=4, depth=1, key=jax.random.key(0))
    with pytest.warns(ix.UnfinishedWarning, match="stalled"):
        assert not ix.MCEIRL(solver=ix.Adam(learning_rate=1e-12)).fit(mdp, network, demos).converged
