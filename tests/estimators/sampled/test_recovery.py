"""The last theorem of the Primer: AIRL's discriminator gives state-only rewards back, where states are linked."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import irlax as ix
from tests.estimators.sampled import exact

STATES, ACTIONS, DISCOUNT = 16, 4, 0.9
HALF = STATES // 2


def random_moves(seed, kind):
    """Deterministic moves [S, A].

    "linked": any state follows some state, and chance links all of them. "alternating": from either half of the
    states to the other. "unentered": as linked, but nothing leads to the last state.
    """
    rng = np.random.default_rng(seed)
    if kind == "alternating":
        return rng.integers(HALF, size=(STATES, ACTIONS)) + HALF * (np.arange(STATES) < HALF)[:, None]
    moves = rng.integers(STATES, size=(STATES, ACTIONS))
    moves[:, 0] = rng.permutation(STATES)
    return np.minimum(moves, STATES - 2) if kind == "unentered" else moves


@eqx.filter_jit
def _value_and_slope(flat, log_policy, visits, transitions):
    def loss(flat):
        return exact.shaped_loss((flat[:STATES], flat[STATES:]), log_policy, visits, visits, (transitions, DISCOUNT))

    return jax.value_and_grad(loss)(flat)


def recovered(seed, kind):
    """The MDP, the true r(s), and g and h that minimise AIRL's loss when the policy is the expert's."""
    moves = random_moves(seed, kind)
    start = np.full(STATES, 1 / STATES)
    mdp = ix.MDP.from_successors(moves[..., None], np.ones((STATES, ACTIONS, 1)), start, discount=DISCOUNT)
    truth = np.random.default_rng((seed, 1)).normal(size=STATES)
    plan = ix.soft_plan(mdp, truth)
    with jax.enable_x64(True):
        given = [jnp.asarray(array) for array in (plan.log_policy, ix.visits(mdp, plan), np.eye(STATES)[moves])]
        best = scipy.optimize.minimize(
            lambda flat: [np.asarray(part) for part in _value_and_slope(jnp.asarray(flat), *given)],
            np.zeros(2 * STATES),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 10000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 30},
        )
    np.testing.assert_allclose(best.fun, np.log(4), atol=1e-12)
    return mdp, moves, plan, truth, best.x[:STATES], best.x[STATES:]


def invisible(moves):
    """All g for which some h gives g(s) + γh(s') − h(s) = 0 on every move: an orthonormal basis, [k, S]."""
    here = np.repeat(np.arange(STATES), ACTIONS)
    rows = np.hstack([np.eye(STATES)[here], DISCOUNT * np.eye(STATES)[moves.ravel()] - np.eye(STATES)[here]])
    return scipy.linalg.orth(scipy.linalg.null_space(rows)[:STATES]).T


@pytest.mark.parametrize("seed", [0, 1])
def test_the_reward_comes_back_where_states_are_linked(seed):
    mdp, _, plan, truth, g, h = recovered(seed, "linked")
    assert ix.is_decomposable(mdp)
    assert np.corrcoef(g, truth)[0, 1] >= 0.99
    np.testing.assert_allclose(np.ptp(g - truth), 0, atol=1e-3)
    np.testing.assert_allclose(np.ptp(h - plan.value), 0, atol=1e-3)


@pytest.mark.parametrize("kind", ["alternating", "unentered"])
def test_what_does_not_come_back_is_what_nobody_can_see(kind):
    mdp, moves, plan, truth, g, _ = recovered(1, kind)
    assert not ix.is_decomposable(mdp)
    unseen = invisible(moves)
    assert len(unseen) == len(np.unique(ix.linked_components(mdp))) > 1
    error = g - truth
    beyond = error - error @ unseen.T @ unseen
    np.testing.assert_allclose(beyond, 0, atol=1e-3)
    # A constant apart, the error is there, and `identify` says where.
    assert np.ptp(error) > 0.05
    basis = ix.identify(mdp, ix.TabularReward("s"), plan).null_basis
    np.testing.assert_allclose(error - basis.T @ np.linalg.lstsq(basis.T, error, rcond=None)[0], 0, atol=1e-3)
