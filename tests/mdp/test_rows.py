"""States with many actions in several rows of a table, against the same MDP with room for them in every state."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.envs.tabular import Tabular
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.scene import Scene
from irlax.mdp import Deterministic, OneRow, SeveralRows, Successors
from irlax.planning.chain import DENSE_LIMIT

S, HUBS = 60, {7: 41, 8: 23, 59: 100}


def listed(seed=0, branches=3, ends=False):
    """Two or three actions in most states, many in the hubs, listed in no order; state 0 may be an end."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 4, S)
    for state, count in HUBS.items():
        counts[state] = count
    if ends:
        counts[0] = 1
    states = rng.permutation(np.repeat(np.arange(S), counts))
    successors, probs = rng.integers(0, S, (len(states), branches)), rng.dirichlet(np.ones(branches), len(states))
    if ends:
        successors[rng.random(successors.shape) < 0.2] = 0
        successors[states == 0] = 0
    return states, successors, probs, counts


def numbered(states):
    """Which of its state's actions each is."""
    seen: dict[int, int] = {}
    numbers = []
    for state in states:
        numbers.append(seen.get(state, 0))
        seen[state] = numbers[-1] + 1
    return np.array(numbers)


class Pair:
    """The MDP from its list, and with a row for each state; and tables of the one as tables of the other."""

    def __init__(self, *, discount, horizon, branches=3, ends=False, seed=0):
        states, successors, probs, counts = listed(seed, branches, ends)
        self.states, self.numbers, self.counts = states, numbered(states), counts
        initial = np.random.default_rng(1).dirichlet(np.ones(S))
        rest = {"discount": discount, "horizon": horizon}
        if branches == 1:
            self.ragged = ix.MDP.from_actions(states, successors[:, 0], initial, **rest)
        else:
            self.ragged = ix.MDP.from_actions(states, successors, initial, probs=probs, **rest)
        shape = (S, counts.max())
        full, weights, available = (
            np.zeros((*shape, branches), int),
            np.zeros((*shape, branches)),
            np.zeros(shape, bool),
        )
        at = (states, self.numbers)
        full[at], weights[at], available[at] = successors, probs, True
        self.padded = ix.MDP.from_successors(full, weights, initial, available=available, **rest)

    def unrolled(self, table):
        """A table over cells [..., R, W] as one with a row for each state."""
        table = np.asarray(table)
        result = np.zeros((*table.shape[:-2], S, self.counts.max()))
        result[..., self.states, self.numbers] = table[(..., *self.ragged.cells(self.states, self.numbers))]
        return result

    def rolled(self, table):
        """The other way round."""
        table = np.asarray(table)
        result = np.zeros((*table.shape[:-2], *self.ragged.table_shape))
        result[(..., *self.ragged.cells(self.states, self.numbers))] = table[..., self.states, self.numbers]
        return result

    def reward(self, over="sa", seed=2):
        """A reward for the one and for the other."""
        rng = np.random.default_rng(seed)
        if over == "s":
            table = rng.normal(size=S)
            table[0] = 0
            return table, table
        table = rng.normal(size=(S, self.counts.max())) * np.asarray(self.padded.available)
        table[0] = 0
        return self.rolled(table), table


def close(actual, expected, atol=1e-10):
    np.testing.assert_allclose(actual, expected, atol=atol, rtol=1e-9)


KINDS = {
    "finite": {"discount": 0.9, "horizon": 4},
    "endless": {"discount": 0.9, "horizon": None},
    "deterministic": {"discount": 1.0, "horizon": 5, "branches": 1},
    "until the end": {"discount": 1.0, "horizon": None, "ends": True},
}


@pytest.fixture(scope="module", params=KINDS)
def pair(request):
    return Pair(**KINDS[request.param])


def test_tables_take_little_more_room_than_there_are_actions(pair):
    dynamics = pair.ragged.dynamics
    assert isinstance(pair.ragged.rows, SeveralRows) and isinstance(pair.padded.rows, OneRow)
    assert isinstance(dynamics, Deterministic if dynamics.aligned_shape[0] == 1 else Successors)
    assert dynamics.num_states == S and dynamics.num_actions == pair.ragged.table_shape[1]
    assert np.prod(pair.ragged.table_shape) < 1.5 * len(pair.states) < 0.1 * S * pair.ragged.num_actions
    assert pair.ragged.num_states == S and pair.ragged.num_actions == 100
    rows, columns = pair.ragged.cells(pair.states, pair.numbers)
    np.testing.assert_array_equal(pair.ragged.cells(pair.states), (rows, columns))
    assert len(set(zip(rows.tolist(), columns.tolist(), strict=True))) == len(rows) == pair.ragged.available.sum()


def test_dynamics(pair):
    rng = np.random.default_rng(3)
    value, mass = rng.normal(size=S), rng.random((S, pair.counts.max())) * np.asarray(pair.padded.available)
    expected = np.asarray(pair.padded.dynamics.expect(value)) * np.asarray(pair.padded.available)
    close(pair.unrolled(pair.ragged.dynamics.expect(value)), expected)
    close(pair.ragged.dynamics.push(pair.rolled(mass)), pair.padded.dynamics.push(mass))
    matrices = np.asarray(pair.padded.dynamics.to_dense()) * np.asarray(pair.padded.available)[..., None]
    close(
        pair.ragged.dynamics.to_dense()[pair.ragged.cells(pair.states, pair.numbers)],
        matrices[pair.states, pair.numbers],
    )
    graph = (matrices.sum(axis=1) > 0).astype(float)
    np.testing.assert_array_equal(pair.ragged.successor_graph().toarray() > 0, graph > 0)
    np.testing.assert_array_equal(pair.ragged.num_available, pair.counts)
    with jax.enable_x64(True):
        policy = mass / mass.sum(axis=1, keepdims=True)
        chain = np.einsum("sa,sat->st", policy, matrices)
        of_rows = pair.ragged.dynamics.matrix(jnp.asarray(pair.rolled(policy).T))
        close(pair.ragged.rows.sum(of_rows), chain)
        cells = pair.ragged.cells(pair.states, pair.numbers)
        likely = pair.ragged.dynamics.probability(*cells, np.full(len(pair.states), 5))
    close(likely, matrices[pair.states, pair.numbers, 5])
    np.testing.assert_array_equal(pair.ragged.absorbing, pair.padded.absorbing)


@pytest.mark.parametrize(
    ("kind", "plan", "over"),
    [
        ("finite", ix.soft_plan, "sa"),
        ("finite", ix.hard_plan, "s"),
        ("finite", ix.path_plan, "sa"),
        ("endless", ix.soft_plan, "s"),
        ("endless", ix.hard_plan, "sa"),
        ("deterministic", ix.soft_plan, "sa"),
        ("until the end", ix.soft_plan, "sa"),
    ],
)
def test_plans_and_where_they_lead(kind, plan, over):
    pair = Pair(**KINDS[kind])
    mine, theirs = pair.reward(over)
    ragged, padded = plan(pair.ragged, mine), plan(pair.padded, theirs)
    close(ragged.value, padded.value, 1e-8)
    close(pair.unrolled(ragged.policy), padded.policy, 1e-8)
    close(pair.unrolled(ix.occupancy(pair.ragged, ragged)), ix.occupancy(pair.padded, padded), 1e-7)
    if plan is ix.soft_plan:
        close(pair.unrolled(ix.visits(pair.ragged, ragged.policy)), ix.visits(pair.padded, padded.policy), 1e-7)
        close(*(ix.causal_entropy(m, p) for m, p in ((pair.ragged, ragged), (pair.padded, padded))), 1e-7)
        returns = ix.expected_return(pair.ragged, ragged, mine), ix.expected_return(pair.padded, padded, theirs)
        close(*returns, 1e-7)
    if plan is ix.path_plan:
        believed = ix.believed_occupancy(pair.ragged, ragged)
        close(pair.unrolled(believed), ix.believed_occupancy(pair.padded, padded), 1e-7)


def test_entropies_and_the_long_run():
    for kind in ("finite", "endless"):
        pair = Pair(**KINDS[kind])
        mine, theirs = pair.reward()
        plans = ix.soft_plan(pair.ragged, mine), ix.soft_plan(pair.padded, theirs)
        for entropy in (ix.transition_entropy, ix.conditional_entropy):
            close(entropy(pair.ragged, plans[0]), entropy(pair.padded, plans[1]), 1e-8)
    close(pair.unrolled(ix.long_run(pair.ragged, plans[0])), ix.long_run(pair.padded, plans[1]), 1e-10)


def test_large_endless_ones_are_solved_by_iteration():
    rng = np.random.default_rng(0)
    size = DENSE_LIMIT + 1
    counts = np.full(size, 2)
    counts[:3] = 40
    states = np.repeat(np.arange(size), counts)
    successors = rng.integers(0, size, len(states))
    initial, reward = np.full(size, 1 / size), rng.normal(size=size)
    mdp = ix.MDP.from_actions(states, successors, initial, discount=0.9)
    assert isinstance(mdp.rows, SeveralRows)
    plan = ix.soft_plan(mdp, reward, method="newton")
    mass = np.asarray(ix.visits(mdp, plan))[mdp.cells(states)]
    # Both fixed points, written down once more: of values, and of visits.
    q = reward[states] + 0.9 * plan.value[successors]
    close(plan.value, np.log(np.bincount(states, weights=np.exp(q))), 1e-8)
    entering = initial + 0.9 * np.bincount(successors, weights=mass, minlength=size)
    close(mass, (entering * np.exp(-plan.value))[states] * np.exp(q), 1e-8)


@pytest.mark.parametrize(("kind", "objective"), [("finite", "feature-matching"), ("endless", "likelihood")])
def test_fits_agree(kind, objective):
    pair = Pair(**KINDS[kind])
    rng = np.random.default_rng(4)
    features = rng.normal(size=(S, pair.counts.max(), 3)) * np.asarray(pair.padded.available)[..., None]
    weights = np.array([1.0, -0.5, 0.3])
    expert = ix.soft_plan(pair.padded, features @ weights)
    demos = ix.rollout(pair.padded, expert, num=100, length=None if kind == "finite" else 50, key=jr.key(0))
    mine = np.moveaxis(pair.rolled(np.moveaxis(features, -1, 0)), 0, -1)
    fits = [
        ix.MCEIRL(objective=objective).fit(mdp, ix.LinearReward(table), demos)
        for mdp, table in ((pair.ragged, mine), (pair.padded, features))
    ]
    close(fits[0].reward.weights, fits[1].reward.weights, 1e-5)
    close(fits[0].log_likelihood, fits[1].log_likelihood, 1e-6)
    if objective == "likelihood":
        close(fits[0].standard_errors(), fits[1].standard_errors(), 1e-5)
        assert str(fits[0].regression_table()) == str(fits[1].regression_table())
    found = [fit.identification() for fit in fits]
    close(found[0].singular_values, found[1].singular_values, 1e-4)
    assert found[0].line() == found[1].line()


def test_values_of_the_host_are_repeated_inside_a_jit_too():
    """By hand: the first row of each state, and then the further rows of those that have some."""
    pair = Pair(**KINDS["finite"])
    rows, values = pair.ragged.rows, np.arange(S) + 0.5
    extra = -(-pair.counts // rows.width) - 1
    expected = np.append(values, np.repeat(values, extra))
    assert rows.num_rows(S) == len(expected) > S
    for repeated in (rows.repeat(values), jax.jit(lambda rows: rows.repeat(values))(rows)):
        np.testing.assert_array_equal(repeated, np.asarray(expected, repeated.dtype))


def test_rewards_of_states_and_potentials():
    pair = Pair(**KINDS["finite"])
    rng = np.random.default_rng(5)
    features, potential = rng.normal(size=(S, 2)), rng.normal(size=S)
    for reward in (
        ix.LinearReward(features, [1.0, 2.0]),
        ix.TabularReward("s", potential),
        ix.ShapedReward(ix.LinearReward(features, [1.0, 2.0]), potential, 0.9),
        ix.NeuralReward(features, key=jr.key(0)),
    ):
        table = np.asarray(reward.table(pair.padded)) * np.asarray(pair.padded.available)
        close(pair.unrolled(reward.table(pair.ragged)), table)
    expert = ix.soft_plan(pair.padded, features @ [1.0, 2.0])
    mass = ix.visits(pair.padded, expert)
    fit = ix.MCEIRL().fit(pair.ragged, ix.LinearReward(features), occupancy=pair.rolled(mass))
    close(fit.reward.weights, [1.0, 2.0], 1e-7)


def test_the_path_model_and_its_file(tmp_path):
    pair = Pair(**KINDS["deterministic"])
    features = np.random.default_rng(6).normal(size=(S, 2))
    demos = ix.rollout(pair.padded, ix.soft_plan(pair.padded, features @ [1.0, -1.0]), num=100, key=jr.key(1))
    reward = ix.LinearReward(features)
    fits = [ix.MaxEntIRL().fit(mdp, reward, demos) for mdp in (pair.ragged, pair.padded)]
    close(fits[0].reward.weights, fits[1].reward.weights, 1e-6)
    fits[0].save(tmp_path / "fit")
    close(ix.load(tmp_path / "fit").log_likelihood, fits[0].log_likelihood)


def test_episodes_are_sampled_from_all_rows():
    pair = Pair(**KINDS["finite"])
    initial = np.zeros(S)
    initial[59] = 1
    mdp = pair.ragged.replace(initial=initial)
    plan = ix.soft_plan(mdp, pair.reward()[0])
    demos = ix.rollout(mdp, plan, num=20_000, key=jr.key(0))
    demos.check(mdp)
    first = demos.actions[demos.offsets[:-1]]
    expected = np.asarray(plan.policy)[0][mdp.cells(59, np.arange(100))]
    shares = np.bincount(first, minlength=100) / len(first)
    # Within four standard errors, for a hundred actions in seven rows or more.
    assert (np.abs(shares - expected) < 4 * np.sqrt(expected / len(first)) + 1e-12).all()


def test_room_is_made_for_few_actions_in_every_state():
    states = np.repeat(np.arange(4), [2, 3, 2, 1])
    mdp = ix.MDP.from_actions(states, np.arange(8) % 4, np.full(4, 0.25), discount=0.9)
    assert mdp.table_shape == (4, 3) and isinstance(mdp.dynamics, Deterministic)
    np.testing.assert_array_equal(mdp.available.sum(axis=1), [2, 3, 2, 1])
    np.testing.assert_array_equal(mdp.cells([1, 0], [2, 1]), ([1, 0], [2, 1]))


def test_what_is_wrong_is_said():
    pair = Pair(**KINDS["finite"])
    with pytest.raises(ValueError, match=r"lists no action of states 1\b"):
        ix.MDP.from_actions([0, 0], [0, 1], [0.5, 0.5], discount=0.9)
    with pytest.raises(ValueError, match=r"`successors`.*\(N,\)"):
        ix.MDP.from_actions([0, 1], [[0, 1], [1, 0]], [0.5, 0.5], discount=0.9)
    with pytest.raises(ValueError, match="`probs`"):
        ix.MDP.from_actions([0, 1], [[0, 1], [1, 0]], [0.5, 0.5], discount=0.9, probs=[[0.5, 0.4], [1, 0]])
    with pytest.raises(ValueError, match="Action 3 is not available in state 1"):
        pair.ragged.cells(1, 3)
    with pytest.raises(ValueError, match=r"`reward` must have shape"):
        ix.soft_plan(pair.ragged, np.zeros((S, 100)))
    with pytest.raises(ValueError, match="over \\(s, a, s'\\)"):
        ix.soft_plan(pair.ragged, np.zeros((S, 100, S)))
    policy = np.asarray(ix.soft_plan(pair.ragged, np.zeros(S)).policy).copy()
    policy[0, -1] = 0
    with pytest.raises(ValueError, match=r"`policy`.*sum"):
        ix.visits(pair.ragged, policy)
    demos = ix.Demonstrations.from_arrays([[1]], [[50]])
    with pytest.raises(ValueError, match="available in its state"):
        demos.check(pair.ragged)
    mesh = jax.make_mesh((1,), ("states",))
    with pytest.raises(ValueError, match="several rows"):
        pair.ragged.sharded(mesh)


REFUSED = {
    "shape": lambda mdp, reward, demos: ix.shape(mdp, np.zeros(S), np.zeros(S)),
    "two-step": lambda mdp, reward, demos: ix.TwoStepIRL().fit(mdp, reward, demos),
    "apprenticeship": lambda mdp, reward, demos: ix.ApprenticeshipIRL().fit(mdp, reward, demos),
    "environment": lambda mdp, reward, demos: Tabular(mdp, np.zeros(S)),
    "report": lambda mdp, reward, demos: Scene.between(
        Expert.of(mdp, demos, None, "mdp"), ix.soft_plan(mdp, np.zeros(S)), reward
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("what", REFUSED)
def test_what_needs_a_row_for_each_state_is_refused(what):
    mdp = Pair(**KINDS["finite"]).ragged
    demos = ix.rollout(mdp, ix.soft_plan(mdp, np.zeros(S)), num=5, key=jr.key(0))
    with pytest.raises(ValueError, match="several rows"):
        REFUSED[what](mdp, ix.LinearReward(np.arange(2.0 * S).reshape(S, 2)), demos)


def test_files(pair, tmp_path):
    ix.save_mdp(tmp_path / "mdp.npz", pair.ragged)
    again = ix.load_mdp(tmp_path / "mdp.npz")
    assert isinstance(again.rows, SeveralRows) and again.table_shape == pair.ragged.table_shape
    reward = pair.reward()[0]
    close(ix.soft_plan(again, reward).value, ix.soft_plan(pair.ragged, reward).value)


def test_one_state_with_many_actions_costs_as_many_cells():
    size, many = 200_000, 50_000
    rng = np.random.default_rng(0)
    states = np.concatenate([np.repeat(np.arange(size), 2), np.zeros(many, int)])
    successors = rng.integers(0, size, len(states))
    mdp = ix.MDP.from_actions(states, successors, (np.arange(size) == 0).astype(float), discount=1.0, horizon=3)
    assert np.prod(mdp.table_shape) < 1.1 * len(states)
    plan = ix.soft_plan(mdp, np.zeros(size))
    # With nothing to gain the value counts the ways: the hub has 50,002 at each visit, other states two.
    ways = np.bincount(states, minlength=size).astype(float)
    one = np.log(ways)
    two = np.log(np.bincount(states, weights=ways[successors]))
    close(plan.value[2], one)
    assert (np.asarray(plan.value[1]) <= two + 1e-12).all()
    close(plan.value[1], np.log(np.bincount(states, weights=np.exp(one[successors]))))
    close(ix.visits(mdp, plan).sum(), 3)
