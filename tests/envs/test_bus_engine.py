"""Rust's replacement problem against a literal statement of it."""

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.envs import BusEngine, BusPanel


def literal(bins, shares, parameters):
    """P[s, a, s'] and u[s, a], written out from Rust (1987)."""
    transitions, utility = np.zeros((bins, 2, bins)), np.zeros((bins, 2))
    rc, theta = parameters
    for x in range(bins):
        for j, share in enumerate(shares):
            transitions[x, 0, min(x + j, bins - 1)] += share
            transitions[x, 1, min(j, bins - 1)] += share
        utility[x] = -0.001 * theta * x, -rc
    return transitions, utility


def test_the_problem_is_rusts():
    engine = BusEngine([0.35, 0.64, 0.01], bins=5, discount=0.9, parameters=[10.0, 2.3])
    transitions, utility = literal(5, [0.35, 0.64, 0.01], (10.0, 2.3))
    np.testing.assert_allclose(engine.mdp.dynamics.to_dense(), transitions, atol=1e-15)
    np.testing.assert_allclose(engine.reward.table(engine.mdp), utility, atol=1e-15)
    assert engine.reward.names == ("RC", "theta_11")
    assert (engine.mdp.discount, engine.mdp.horizon) == (0.9, None)
    assert engine.mdp.initial.tolist() == [1, 0, 0, 0, 0]
    assert BusEngine([1.0]).mdp.num_states == 90


def test_any_cost_that_is_linear_in_parameters():
    by_function = BusEngine([0.5, 0.5], bins=4, cost=lambda x: np.stack([1 + x, x**2], axis=1), parameters=[3, 1, 2])
    assert by_function.reward.names == ("RC", "theta_11", "theta_12")
    x = np.arange(4)
    # A new engine costs what one at bin 0 costs, beside RC.
    expected = np.stack([-(1 + x + 2 * x**2), np.full(4, -3.0 - 1)], axis=1)
    np.testing.assert_allclose(by_function.reward.table(by_function.mdp), expected)
    by_array = BusEngine([0.5, 0.5], bins=4, cost=np.sqrt(x), names=["new engine", "root"])
    assert by_array.reward.names == ("new engine", "root")
    np.testing.assert_allclose(by_array.reward.features[:, 0, 1], -np.sqrt(x))


def test_bad_problems_are_refused(as_a_user):
    with pytest.raises(ValueError, match="sum to 1"):
        BusEngine([0.5, 0.6])
    with pytest.raises(ValueError, match="`bins` must be at least 2"):
        BusEngine([1.0], bins=1)
    with pytest.raises(ValueError, match="1 to 2 probabilities"):
        BusEngine([0.2, 0.3, 0.5], bins=2)
    with pytest.raises(ValueError, match=r"\(bins, K\)"):
        BusEngine([1.0], bins=4, cost=np.zeros((5, 1)))
    with pytest.raises(ValueError, match="RC and one for each feature"):
        BusEngine([1.0], parameters=[1.0])
    with pytest.raises(ValueError, match="`names` must name RC"):
        BusEngine([1.0], names=["RC"])
    demos = ix.Demonstrations.from_arrays([[0, 1]], [[0, 1]])
    with pytest.raises(ValueError, match="one for each observed choice"):
        BusPanel(demos, np.zeros(3, int), 4)
    with pytest.raises(ValueError, match="bins"):
        BusPanel(ix.Demonstrations.from_arrays([[0, 7]], [[0, 1]]), np.zeros(2, int), 4)
    with pytest.raises(ValueError, match="No increment was observed"):
        BusPanel(demos, np.array([-1, -1]), 4).increment_shares
    with pytest.raises(ValueError, match="other bins"):
        BusEngine([1.0], bins=5).nature(BusPanel(demos, np.zeros(2, int), 4))


def test_increments_are_estimated_by_their_shares_among_weighted_buses():
    demos = ix.Demonstrations.from_arrays([[0, 1], [1, 1]], [[0, 0], [0, 0]], weights=[1.0, 3.0])
    panel = BusPanel(demos, np.array([0, 1, 2, -1]), 6)
    assert panel.increment_counts.tolist() == [1, 1, 3]
    engine = BusEngine.from_panel(panel, discount=0.5)
    np.testing.assert_allclose(engine.increments, [0.2, 0.2, 0.6])
    with jax.enable_x64(True):
        nature = engine.nature(panel)
        assert nature.names == ("p0", "p1")
        np.testing.assert_allclose(np.exp(nature.log_density(nature.parameters)), [0.2, 0.2, 0.6, 1.0])
        dense = nature.dynamics(nature.parameters).to_dense()
    np.testing.assert_allclose(dense, engine.mdp.dynamics.to_dense(), atol=1e-15)
