import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.mdp import AbstractDynamics, Dense, Deterministic, Links, Successors, Transitions
from irlax.mdp.derived import reweighted
from tests.problems import NATURES, STORES, A, S, T, as_mdp, assert_equal, random_policy, random_problem

CASES = [(store, nature, masked) for store in STORES for nature in NATURES for masked in (False, True)]


def case(store, nature, masked):
    problem = random_problem(1, nature, masked=masked)
    return problem, as_mdp(problem, store).dynamics


def existing_only(problem, table):
    """What the dynamics say of actions that do not exist is no one's business."""
    return np.where(problem.available, table, 0.0)


@pytest.mark.parametrize(
    ("store", "nature", "kind"),
    [
        ("dense", "stochastic", Dense),
        ("dense", "deterministic", Dense),
        ("successors", "stochastic", Successors),
        ("successors", "deterministic", Deterministic),
        ("scipy", "stochastic", Successors),
        ("scipy", "deterministic", Deterministic),
    ],
)
def test_each_store_has_its_class_and_sparse_deterministic_ones_keep_no_probabilities(store, nature, kind):
    assert type(case(store, nature, False)[1]) is kind


@pytest.mark.parametrize(("store", "nature", "masked"), CASES)
def test_push_is_the_adjoint_of_expect(store, nature, masked):
    _, dynamics = case(store, nature, masked)
    rng = np.random.default_rng(0)
    for _ in range(3):
        value, mass = rng.normal(size=S), rng.normal(size=(S, A))
        assert_equal(dynamics.push(mass) @ value, (mass * dynamics.expect(value)).sum())


@pytest.mark.parametrize(("store", "nature", "masked"), CASES)
def test_expect_is_the_mean_over_next_states(store, nature, masked):
    problem, dynamics = case(store, nature, masked)
    value = np.random.default_rng(2).normal(size=S)
    expected = [[problem.transitions[s, a] @ value for a in range(A)] for s in range(S)]
    assert_equal(existing_only(problem, dynamics.expect(value)), existing_only(problem, expected))


@pytest.mark.parametrize(("store", "nature", "masked"), CASES)
def test_push_lands_mass_where_transitions_lead(store, nature, masked):
    problem, dynamics = case(store, nature, masked)
    mass = np.random.default_rng(3).random((S, A)) * problem.available
    expected = sum(mass[s, a] * problem.transitions[s, a] for s in range(S) for a in range(A))
    assert_equal(dynamics.push(mass), expected)
    assert_equal(dynamics.push(mass).sum(), mass.sum())


@pytest.mark.parametrize(("store", "nature", "masked"), CASES)
def test_dense_and_scipy_forms_hold_the_given_transitions(store, nature, masked):
    problem, dynamics = case(store, nature, masked)
    exists = problem.available[..., None]
    expected = np.where(exists, problem.transitions, 0)
    assert_equal(np.where(exists, dynamics.to_dense(), 0), expected)
    for a, matrix in enumerate(dynamics.to_scipy()):
        assert matrix.shape == (S, S)
        assert_equal(np.where(exists[:, a], matrix.toarray(), 0), expected[:, a])


@pytest.mark.parametrize(("store", "nature", "masked"), CASES)
def test_matrix_mixes_actions_by_the_policy(store, nature, masked):
    problem, dynamics = case(store, nature, masked)
    policy = random_policy(problem, 0, stationary=True)
    with jax.enable_x64(True):
        chain = dynamics.matrix(jnp.asarray(policy.T))
    expected = [sum(policy[s, a] * problem.transitions[s, a] for a in range(A)) for s in range(S)]
    assert_equal(chain, expected)


@pytest.mark.parametrize(("store", "nature", "masked"), CASES)
def test_entropy_of_next_states(store, nature, masked):
    problem, dynamics = case(store, nature, masked)
    with jax.enable_x64(True):
        entropy = np.asarray(dynamics.entropy()).T
    probs = problem.transitions
    expected = -(probs * np.log(np.where(probs > 0, probs, 1))).sum(axis=-1)
    assert_equal(existing_only(problem, entropy), existing_only(problem, expected))


@pytest.mark.parametrize(("store", "nature", "masked"), CASES)
def test_means_over_transitions_weigh_each_outcome_by_its_probability(store, nature, masked):
    problem, dynamics = case(store, nature, masked)
    table = np.random.default_rng(4).normal(size=(S, A, S))
    with jax.enable_x64(True):
        aligned = dynamics.align(table)
        mean, log_mean_exp = dynamics.mean(aligned), dynamics.log_mean_exp(aligned)
    expected = (problem.transitions * table).sum(axis=-1)
    assert_equal(existing_only(problem, mean.T), existing_only(problem, expected))
    expected = np.log((problem.transitions * np.exp(table)).sum(axis=-1))
    assert_equal(existing_only(problem, log_mean_exp.T), existing_only(problem, expected))


@pytest.mark.parametrize("store", STORES)
def test_tilted_transitions_are_reweighted_and_impossible_ones_stay_impossible(store):
    problem, dynamics = case(store, "stochastic", False)
    assert problem.transitions[0, 0, 2] == 0
    table = np.random.default_rng(5).normal(size=(S, A, S))
    # exp overflows here, where the probability is 0.
    table[0, 0, 2] = 1e4
    with jax.enable_x64(True):
        tilted = reweighted(dynamics, dynamics.align(table))
    table[0, 0, 2] = 0
    assert_equal(tilted.to_dense(), problem.transitions * np.exp(table))


@pytest.mark.parametrize(("store", "nature", "masked"), CASES)
def test_probability_looks_up_one_transition(store, nature, masked):
    problem, dynamics = case(store, nature, masked)
    s, a, after = (index.ravel() for index in np.indices((S, A, S)))
    exists = problem.available[s, a]
    s, a, after = s[exists], a[exists], after[exists]
    with jax.enable_x64(True):
        found = dynamics.probability(s, a, after)
    assert_equal(found, problem.transitions[s, a, after])


@pytest.mark.parametrize(("store", "nature", "masked"), CASES)
def test_inversion_gives_each_next_state_its_share_of_the_unit_interval(store, nature, masked):
    problem, dynamics = case(store, nature, masked)
    num = 1000
    uniform = (np.arange(num) + 0.5) / num
    states, actions = np.nonzero(problem.available)
    with jax.enable_x64(True):
        after = dynamics.sample(
            np.repeat(states, num), np.repeat(actions, num), jnp.asarray(np.tile(uniform, len(states)))
        )
    for s, a, found in zip(states, actions, np.asarray(after).reshape(-1, num), strict=True):
        share = np.bincount(found, minlength=S) / num
        assert np.abs(share - problem.transitions[s, a]).max() <= 1.5 / num


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("row", [[0.0, 0.4, 0.6], [0.4, 0.0, 0.6], [0.4, 0.6, 0.0]])
def test_inversion_never_finds_an_impossible_state_even_at_the_ends(store, row):
    transitions = random_problem(1).transitions.copy()
    transitions[1, 1] = row
    dynamics = as_mdp(random_problem(1)._replace(transitions=transitions), store).dynamics
    ends = np.array([0.0, 0.4, np.nextafter(1, 0)])
    with jax.enable_x64(True):
        after = np.asarray(dynamics.sample(np.full(3, 1), np.full(3, 1), jnp.asarray(ends)))
    assert (np.array(row)[after] > 0).all()


def test_operators_follow_a_policy_through_time():
    """Pushing T times is the same as the T-step law of the chain, whatever the store."""
    problem = random_problem(3)
    policy = random_policy(problem, 3)
    for store in STORES:
        dynamics, mass, chain = as_mdp(problem, store).dynamics, problem.initial, np.eye(S)
        for t in range(T):
            mass = dynamics.push(mass[:, None] * policy[t])
            chain = chain @ np.einsum("sa,sat->st", policy[t], problem.transitions)
        assert_equal(mass, problem.initial @ chain)


class Ring(AbstractDynamics):
    """States in a ring; action 0 stays, action 1 goes on, and with probability ¼ either does the other."""

    size: int = eqx.field(static=True)

    @property
    def num_states(self):
        return self.size

    @property
    def num_actions(self):
        return 2

    def backward(self, value):
        stay, go = value, jnp.roll(value, -1)
        return jnp.stack([0.75 * stay + 0.25 * go, 0.25 * stay + 0.75 * go])

    def forward(self, mass):
        return 0.75 * mass[0] + 0.25 * mass[1] + jnp.roll(0.25 * mass[0] + 0.75 * mass[1], 1)

    def transitions(self):
        here = jnp.arange(self.size)
        links = Links(jnp.stack([here, (here + 1) % self.size])[:, None])
        return Transitions(links, jnp.asarray([[0.75, 0.25], [0.25, 0.75]])[..., None])


@pytest.mark.parametrize("horizon", [4, None])
def test_five_members_make_dynamics_of_ones_own(horizon, tmp_path):
    size, rng = 7, np.random.default_rng(7)
    initial, reward = rng.dirichlet(np.ones(size)), rng.normal(size=(size, 2, size))
    successors = np.broadcast_to((np.arange(size)[:, None, None] + np.arange(2)) % size, (size, 2, 2))
    probs = np.broadcast_to([[0.75, 0.25], [0.25, 0.75]], successors.shape)
    known = ix.MDP.from_successors(successors, probs, initial, discount=0.9, horizon=horizon)
    own = ix.MDP.from_dynamics(Ring(size), initial, discount=0.9, horizon=horizon)
    for plan in (ix.soft_plan, ix.path_plan, ix.hard_plan):
        plans = plan(own, reward), plan(known, reward)
        np.testing.assert_allclose(plans[0].value, plans[1].value, atol=1e-8)
        np.testing.assert_allclose(ix.occupancy(own, plans[0]), ix.occupancy(known, plans[1]), atol=1e-8)
    for entropy in (ix.transition_entropy, ix.conditional_entropy):
        np.testing.assert_allclose(entropy(own, plans[0]), entropy(known, plans[1]), atol=1e-8)
    ix.rollout(own, plans[0], num=20, length=None if horizon else 9, key=jr.key(0)).check(known)
    last, going_on = np.full(1000, size - 1), np.ones(1000, int)
    after = own.dynamics.sample(last, going_on, (np.arange(1000) + 0.5) / 1000)
    np.testing.assert_array_equal(np.bincount(after, minlength=size)[[size - 1, 0]], [250, 750])
    np.testing.assert_allclose(own.dynamics.probability(last[:2], going_on[:2], np.array([0, 1])), [0.75, 0])
    np.testing.assert_array_equal(own.absorbing, np.zeros(size, bool))
    ix.save_mdp(tmp_path / "own.npz", own)
    np.testing.assert_allclose(ix.load_mdp(tmp_path / "own.npz").dynamics.to_dense(), known.dynamics.to_dense())
