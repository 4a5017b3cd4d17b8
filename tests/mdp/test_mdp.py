import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from irlax import MDP, envs, path_plan, soft_plan
from irlax.mdp import Deterministic, Successors
from tests.problems import STORES, A, S, T, as_mdp, assert_equal, random_problem, successor_lists

PROBLEM = random_problem(0)
P, INITIAL = PROBLEM.transitions, PROBLEM.initial


def dense(transitions=P, initial=INITIAL, **options):
    return MDP.from_dense(transitions, initial, **({"discount": 0.9, "horizon": T} | options))


def refuses(message, error=ValueError):
    return pytest.raises(error, match=re.escape(message))


def spoiled(*changes):
    transitions = P.copy()
    for place, entry in changes:
        transitions[place] = entry
    return transitions


# What is built.


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("masked", [False, True])
def test_every_constructor_holds_what_it_was_given(store, masked):
    problem = random_problem(4, masked=masked, discount=0.7, horizon=5)
    mdp = as_mdp(problem, store)
    assert (mdp.num_states, mdp.num_actions, mdp.horizon, mdp.discount) == (S, A, 5, 0.7)
    assert_equal(mdp.initial, problem.initial)
    assert np.array_equal(mdp.available, problem.available)


def test_repeated_successors_add_up_and_zero_ones_are_dropped():
    successors = np.array([[[1, 1, 0]], [[0, 1, 1]]])
    probs = np.array([[[0.25, 0.25, 0.5]], [[0.0, 0.5, 0.5]]])
    mdp = MDP.from_successors(successors, probs, [1, 0], discount=0.5)
    assert isinstance(mdp.dynamics, Successors)
    assert mdp.dynamics.probs.shape == (2, 1, 2)
    assert_equal(mdp.dynamics.to_dense(), [[[0.5, 0.5]], [[0.0, 1.0]]])


def test_successors_that_all_repeat_are_deterministic():
    mdp = MDP.from_successors([[[1, 1]], [[0, 0]]], [[[0.5, 0.5]], [[1.0, 0.0]]], [1, 0], discount=0.5)
    assert isinstance(mdp.dynamics, Deterministic)
    assert_equal(mdp.dynamics.to_dense(), [[[0, 1]], [[1, 0]]])


def test_whole_numbers_held_as_floats_are_accepted_as_successors():
    mdp = MDP.from_successors([[[1.0]], [[0.0]]], [[[1]], [[1]]], [1, 0], discount=0.5)
    assert_equal(mdp.dynamics.to_dense(), [[[0, 1]], [[1, 0]]])


def test_absorbing_states_are_those_no_available_action_leaves():
    transitions = np.zeros((3, 2, 3))
    transitions[0, :, 1] = transitions[1, 0, 1] = transitions[1, 1, 0] = transitions[2, :, 2] = 1
    assert dense(transitions).absorbing.tolist() == [False, False, True]
    available = np.array([[True, True], [True, False], [True, True]])
    assert dense(transitions, available=available).absorbing.tolist() == [False, True, True]


def test_replace_changes_what_it_is_told_and_nothing_else():
    problem = random_problem(4, masked=True)
    mdp = as_mdp(problem)
    changed = mdp.replace(discount=0.25, horizon=7, initial=np.eye(S)[1])
    assert (changed.discount, changed.horizon, changed.initial.tolist()) == (0.25, 7, [0, 1, 0])
    assert np.array_equal(changed.available, problem.available)
    assert changed.dynamics is mdp.dynamics
    assert (mdp.discount, mdp.horizon) == (0.9, T)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"discount": 1.5}, "`discount` must lie between 0 and 1, but is 1.5"),
        ({"horizon": 0}, "`horizon` must be at least 1"),
        ({"initial": [1.0, 1.0, 0.0]}, "`initial` must sum to 1"),
        ({"horizon": None, "discount": 1}, "no state is absorbing"),
    ],
)
def test_replace_checks_again(changes, message):
    with refuses(message):
        dense().replace(**changes)


def test_replace_refuses_what_it_does_not_know():
    with refuses("`replace` takes discount, horizon and initial, but got gamma.", TypeError):
        dense().replace(gamma=0.5)


# Rows that are not probabilities.


@pytest.mark.parametrize(
    ("transitions", "initial", "advice"),
    [
        (7 * P, INITIAL, "`transitions` .* `MDP.from_counts`"),
        (P, 7 * INITIAL, "`initial` (?!.*from_counts).* Divide it by its sum first."),
    ],
)
def test_the_advice_about_rows_off_one_fits_what_they_are(transitions, initial, advice):
    with pytest.raises(ValueError, match=advice):
        MDP.from_dense(transitions, initial, discount=0.9)


def test_rows_off_one_are_named_with_how_far():
    transitions = spoiled(((1, 0, 2), P[1, 0, 2] + 0.125), ((2, 1, 0), P[2, 1, 0] + 0.25))
    with refuses("`transitions` must sum to 1 along its last axis, but is off by up to 0.25 in rows (1, 0), (2, 1)."):
        dense(transitions)


def test_many_bad_rows_are_counted_not_listed():
    with refuses("off by up to 1 in rows (0, 0), (0, 1), (1, 0), (1, 1), (2, 0) and 1 more. If it holds counts"):
        dense(2 * P)


def test_rounding_in_row_sums_is_no_error():
    dense(P * (1 + 1e-12))


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite_are_named(entry):
    with refuses("`transitions` must be finite, but has NaN or infinite entries at (0, 1, 2)."):
        dense(spoiled(((0, 1, 2), entry)))


def test_negative_entries_are_named():
    with refuses("`transitions` must not be negative, but is at (2, 0, 0), (2, 0, 1) (smallest -0.5)."):
        dense(spoiled(((2, 0), [-0.5, -0.25, 1.75])))


@pytest.mark.parametrize("row", [[np.nan] * S, [-1.0, 0.0, 7.0], [0.0] * S])
@pytest.mark.parametrize("store", STORES)
def test_rows_of_actions_that_do_not_exist_are_ignored(row, store):
    available = np.ones((S, A), bool)
    available[1, 1] = False
    transitions = spoiled(((1, 1), row))
    options = {"discount": 0.9, "horizon": T, "available": available}
    if store == "dense":
        mdp = MDP.from_dense(transitions, INITIAL, **options)
    elif store == "scipy":
        mdp = MDP.from_scipy([sp.csr_array(transitions[:, a]) for a in range(A)], INITIAL, **options)
    else:
        successors = np.broadcast_to(np.arange(S), (S, A, S)).copy()
        successors[1, 1] = [-1, S, 999]
        mdp = MDP.from_successors(successors, transitions, INITIAL, **options)
    plan = soft_plan(mdp, np.ones((S, A)))
    assert np.isfinite(plan.value).all()
    assert (plan.policy[:, 1, 1] == 0).all()
    assert (plan.q[:, 1, 1] == -np.inf).all()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda successors, probs: probs.__setitem__((2, 0, 1), np.nan), "`probs` must be finite"),
        (lambda successors, probs: probs.__setitem__((2, 0, 1), -0.5), "`probs` must not be negative"),
        (lambda successors, probs: probs.__imul__(2), "`probs` must sum to 1 along its last axis"),
        (
            lambda successors, probs: successors.__setitem__((2, 0, 1), S),
            "`successors` must lie in 0..2 (states), but does not at (2, 0, 1) (found 3)",
        ),
        (lambda successors, probs: successors.__setitem__((0, 1, 3), -1), "at (0, 1, 3) (found -1)"),
    ],
)
def test_bad_successor_lists_are_refused(spoil, message):
    successors, probs = (array.copy() for array in successor_lists(PROBLEM))
    spoil(successors, probs)
    with refuses(message):
        MDP.from_successors(successors, probs, INITIAL, discount=0.9)


def test_fractional_successors_are_refused():
    with refuses("`successors` must hold whole numbers, but does not at (1, 0, 0) (found 0.5)"):
        MDP.from_successors([[[1.0]], [[0.5]]], [[[1]], [[1]]], [1, 0], discount=0.5)


def test_scipy_rows_off_one_are_refused():
    with refuses("off by up to 0.5"):
        MDP.from_scipy([sp.csr_array(P[:, 0] * 1.5), sp.csr_array(P[:, 1])], INITIAL, discount=0.9)


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ([0.5, 0.5], "`initial` must have shape (3) = (S,), but has (2,)."),
        ([0.5, 0.5, 0.5], "`initial` must sum to 1 along its last axis, but is off by up to 0.5"),
        ([1.5, -0.5, 0.0], "`initial` must not be negative, but is at 1"),
        ([np.nan, 0.5, 0.5], "`initial` must be finite, but has NaN or infinite entries at 0"),
    ],
)
def test_bad_initial_distributions_are_refused(initial, message):
    with refuses(message):
        dense(initial=initial)


# Shapes and types.


@pytest.mark.parametrize("shape", [(3, 3), (3, 2, 4), (1, 3, 2, 3)])
def test_transitions_of_another_shape_are_refused(shape):
    with refuses(f"`transitions` must have shape (S, A, S), but has {shape}."):
        dense(np.full(shape, 0.25))


@pytest.mark.parametrize("transitions", ["P", [["a"]], [[[1.0], [0.5, 0.5]]]])
def test_transitions_that_are_no_numbers_are_a_type_error(transitions):
    with refuses("`transitions` must be an array of numbers", TypeError):
        dense(transitions)


@pytest.mark.parametrize(
    ("successors", "probs", "message"),
    [
        (np.zeros((3, 2), int), np.ones((3, 2)), "`probs` must have shape (S, A, B), but has (3, 2)."),
        (
            np.zeros((3, 2, 2), int),
            np.ones((3, 2, 1)),
            "`successors` must have shape (3, 2, 1) = (S, A, B)",
        ),
    ],
)
def test_successor_lists_of_another_shape_are_refused(successors, probs, message):
    with refuses(message):
        MDP.from_successors(successors, probs, INITIAL, discount=0.9)


@pytest.mark.parametrize("transitions", [P, sp.csr_array(P[:, 0]), [], [P[:, 0], P[:, 1]]])
@pytest.mark.usefixtures("as_a_user")
def test_from_scipy_wants_a_list_of_sparse_matrices(transitions):
    with pytest.raises(TypeError, match=r"scipy\.sparse"):
        MDP.from_scipy(transitions, INITIAL, discount=0.9)


def test_from_scipy_wants_square_matrices_of_one_size():
    with refuses("`transitions[1]` must have shape (3, 3) = (S, S), the same for every action, but has (2, 2)."):
        MDP.from_scipy([sp.eye_array(3), sp.eye_array(2)], INITIAL, discount=0.9)


def test_available_of_another_shape_is_refused():
    with refuses("`available` must have shape (3, 2) = (S, A), but has (2, 3)."):
        dense(available=np.ones((2, 3), bool))


def test_available_must_be_boolean():
    with refuses("`available` must be an array of booleans, but has dtype int64.", TypeError):
        dense(available=np.ones((3, 2), int))


@pytest.mark.parametrize("store", STORES)
def test_states_with_no_available_action_are_named(store):
    available = np.array([[True, False], [False, False], [False, False]])
    with refuses("`available` leaves no action in states 1, 2. Give each state at least one"):
        as_mdp(PROBLEM._replace(available=available), store)


# Discount and horizon.


@pytest.mark.parametrize("discount", [-0.1, 1.0001, np.nan, np.inf])
def test_discount_outside_the_unit_interval_is_refused(discount):
    with refuses(f"`discount` must lie between 0 and 1, but is {discount}."):
        dense(discount=discount)


@pytest.mark.parametrize("discount", ["0.9", None, [0.9], True, 0.9j])
@pytest.mark.usefixtures("as_a_user")
def test_discount_of_another_type_is_refused(discount):
    with refuses("`discount` must be a number between 0 and 1", TypeError):
        dense(discount=discount)


@pytest.mark.parametrize("discount", [0, 1, 0.5, np.float32(0.5), np.int64(1)])
@pytest.mark.usefixtures("as_a_user")
def test_discount_may_be_any_real_number_in_the_unit_interval(discount):
    assert dense(discount=discount).discount == float(discount)


@pytest.mark.parametrize("horizon", [0, -3])
def test_horizon_below_one_is_refused(horizon):
    with refuses(f"`horizon` must be at least 1 decision, but is {horizon}. For an infinite horizon pass None."):
        dense(horizon=horizon)


@pytest.mark.parametrize("horizon", [2.0, "3", True, [3]])
@pytest.mark.usefixtures("as_a_user")
def test_horizon_of_another_type_is_refused(horizon):
    with refuses("`horizon` must be a whole number of decisions or None", TypeError):
        dense(horizon=horizon)


@pytest.mark.usefixtures("as_a_user")
def test_infinite_float_horizon_is_pointed_to_none():
    with refuses("for an infinite horizon pass None", TypeError):
        dense(horizon=np.inf)


@pytest.mark.usefixtures("as_a_user")
def test_numpy_horizon_is_a_whole_number():
    assert dense(horizon=np.int32(3)).horizon == 3


# γ = 1 with no horizon.


def corridor(length=3, **changes):
    """Left or right along a corridor whose last cell is the end, with one action."""
    places = np.arange(length)
    transitions = np.zeros((length, 2, length))
    transitions[places, 0, np.maximum(places - 1, 0)] = 1
    transitions[places, 1, np.minimum(places + 1, length - 1)] = 1
    transitions[-1] = np.eye(length)[-1]
    available = np.ones((length, 2), bool)
    available[-1, 0] = False
    options = {"discount": 1.0, "available": available} | changes
    return MDP.from_dense(transitions, np.eye(length)[0], **options)


def test_undiscounted_and_endless_is_accepted_when_proper():
    mdp = corridor()
    assert mdp.terminal.tolist() == [False, False, True]
    assert corridor(discount=0.9).terminal is None
    assert corridor(horizon=5).terminal is None


@pytest.mark.parametrize("store", STORES)
def test_undiscounted_and_endless_needs_an_absorbing_state(store):
    with refuses("needs absorbing states in which the problem ends, but no state is absorbing. Give a horizon"):
        as_mdp(random_problem(0, discount=1.0, horizon=None), store)


def test_undiscounted_and_endless_needs_one_action_in_absorbing_states():
    with refuses("absorbing states 2 have more than one available action, so choosing there would earn entropy"):
        corridor(available=None)


@pytest.mark.parametrize("nature", ["trap", "trapped pair"])
def test_undiscounted_and_endless_needs_the_end_to_be_reached_from_everywhere(nature):
    transitions = np.zeros((4, 1, 4))
    transitions[[0, 3], 0, 3] = 1
    # A state that leads to itself is an end too, so what cannot end is a pair that leads to each other.
    transitions[1, 0, 2] = transitions[2, 0, 1] = 1
    if nature == "trap":
        transitions[0, 0] = [0, 0.5, 0, 0.5]
    with refuses("no absorbing state can be reached from states 1, 2, so their values would be infinite."):
        MDP.from_dense(transitions, np.eye(4)[0], discount=1)


@pytest.mark.parametrize("plan", [soft_plan, path_plan])
@pytest.mark.parametrize("over", ["s", "sa", "sas"])
def test_undiscounted_reward_in_absorbing_states_is_refused(plan, over):
    reward = np.full((3, 2, 3)[: len(over)], -1.0)
    with refuses("`reward` must be 0 in absorbing states, but is -1.0 in 2, which would be earned for ever."):
        plan(corridor(), reward)


def test_reward_for_entering_an_absorbing_state_is_no_reward_in_it():
    reward = np.full((3, 2, 3), -1.0)
    reward[2] = 0
    reward[:2, :, 2] = 5.0
    assert np.isfinite(soft_plan(corridor(), reward).value).all()


def test_reward_of_an_absorbing_states_missing_action_does_not_matter():
    reward = np.full((3, 2), -1.0)
    reward[2] = [-7.0, 0.0]
    assert np.isfinite(soft_plan(corridor(), reward).value).all()


# From counts.

COUNTS = np.array([[[2.0, 6.0], [0.0, 0.0]], [[1.0, 0.0], [3.0, 1.0]]])
START = [3, 1]


def in_form(counts, form):
    return counts if form == "array" else [sp.csr_array(counts[:, a]) for a in range(counts.shape[1])]


@pytest.mark.parametrize("form", ["array", "scipy"])
def test_counts_become_relative_frequencies(form):
    counts = COUNTS + 1
    mdp = MDP.from_counts(in_form(counts, form), START, discount=0.9)
    assert_equal(mdp.dynamics.to_dense(), counts / counts.sum(axis=-1, keepdims=True))
    assert_equal(mdp.initial, [0.75, 0.25])


@pytest.mark.parametrize("form", ["array", "scipy"])
def test_state_actions_never_seen_are_refused_by_name(form):
    with refuses("`counts` has no observation of 1 of 4 state–actions: (0, 1). Nothing is known of where they lead."):
        MDP.from_counts(in_form(COUNTS, form), START, discount=0.9)


@pytest.mark.parametrize("form", ["array", "scipy"])
@pytest.mark.parametrize(("unseen", "row"), [("stay", [1.0, 0.0]), ("uniform", [0.5, 0.5])])
def test_state_actions_never_seen_stay_or_go_anywhere_if_told_to(form, unseen, row):
    mdp = MDP.from_counts(in_form(COUNTS, form), START, discount=0.9, unseen=unseen)
    assert_equal(mdp.dynamics.to_dense(), [[[0.25, 0.75], row], [[1.0, 0.0], [0.75, 0.25]]])
    assert np.all(mdp.available)


@pytest.mark.parametrize("form", ["array", "scipy"])
def test_state_actions_never_seen_do_not_exist_if_told_so(form):
    mdp = MDP.from_counts(in_form(COUNTS, form), START, discount=0.9, unseen="unavailable")
    assert np.array_equal(mdp.available, [[True, False], [True, True]])
    assert_equal(mdp.dynamics.to_dense()[mdp.available], [[0.25, 0.75], [1.0, 0.0], [0.75, 0.25]])
    assert soft_plan(mdp, np.zeros(2)).policy[0].tolist() == [1, 0]


@pytest.mark.parametrize("form", ["array", "scipy"])
def test_states_in_which_nothing_was_seen_cannot_be_without_actions(form):
    counts = COUNTS.copy()
    counts[0] = 0
    with refuses("`counts` has no observation of any action in states 0"):
        MDP.from_counts(in_form(counts, form), START, discount=0.9, unseen="unavailable")


@pytest.mark.parametrize("form", ["array", "scipy"])
def test_state_actions_that_do_not_exist_need_no_observation(form):
    available = np.array([[True, False], [True, True]])
    mdp = MDP.from_counts(in_form(COUNTS, form), START, discount=0.9, available=available)
    assert np.array_equal(mdp.available, available)
    assert_equal(mdp.dynamics.to_dense()[available], [[0.25, 0.75], [1.0, 0.0], [0.75, 0.25]])


@pytest.mark.parametrize("form", ["array", "scipy"])
def test_smoothing_adds_to_every_count_alike(form):
    mdp = MDP.from_counts(in_form(COUNTS, form), START, discount=0.9, smoothing=1)
    assert_equal(mdp.dynamics.to_dense(), [[[0.3, 0.7], [0.5, 0.5]], [[2 / 3, 1 / 3], [4 / 6, 2 / 6]]])


@pytest.mark.parametrize("form", ["array", "scipy"])
def test_smoothing_can_be_given_for_each_transition(form):
    prior = np.zeros((2, 2, 2))
    prior[0, 1, 1] = 1e-3
    mdp = MDP.from_counts(in_form(COUNTS, form), START, discount=0.9, smoothing=prior)
    assert_equal(mdp.dynamics.to_dense(), [[[0.25, 0.75], [0, 1]], [[1, 0], [0.75, 0.25]]])


@pytest.mark.parametrize("form", ["array", "scipy"])
@pytest.mark.parametrize("entry", [-1.0, np.nan, np.inf])
def test_counts_that_are_no_counts_are_refused(form, entry):
    counts = COUNTS + 1
    counts[1, 0, 1] = entry
    with refuses("`counts` must be finite and not negative"):
        MDP.from_counts(in_form(counts, form), START, discount=0.9)


def test_counts_of_another_shape_are_refused():
    with refuses("`counts` must have shape (S, A, S), but has (2, 2, 3)."):
        MDP.from_counts(np.ones((2, 2, 3)), START, discount=0.9)


@pytest.mark.parametrize("initial", [[0, 0], [-1, 2], [np.nan, 1], [[1, 1]]])
def test_start_counts_that_are_no_counts_are_refused(initial):
    with refuses("`initial` must hold non-negative counts or probabilities, (S,), not all of them zero."):
        MDP.from_counts(COUNTS + 1, initial, discount=0.9)


@pytest.mark.usefixtures("as_a_user")
def test_an_unknown_word_for_unseen_is_refused_with_the_known_ones():
    with refuses("`unseen` must be one of 'error', 'unavailable', 'stay', 'uniform', but is 'guess'."):
        MDP.from_counts(COUNTS, START, discount=0.9, unseen="guess")


@pytest.mark.parametrize("smoothing", [-0.5, np.nan, np.ones(2), np.ones((2, 2, 3))])
def test_smoothing_that_is_no_prior_count_is_refused(smoothing):
    with pytest.raises(ValueError, match="`smoothing`"):
        MDP.from_counts(COUNTS + 1, START, discount=0.9, smoothing=smoothing)


# Inside transforms.


def test_constructors_pass_traced_arrays():
    with jax.enable_x64(True):
        value = jax.jit(lambda p: soft_plan(MDP.from_dense(p, INITIAL, discount=0.9, horizon=T), np.ones(S)).value)(P)
    assert_equal(value, soft_plan(dense(), np.ones(S)).value)


def test_environments_and_constructors_give_pytrees_whose_leaves_are_arrays():
    mdp = envs.RandomMDP(num_states=4, branching=2, horizon=3).mdp
    leaves = jax.tree.leaves(mdp)
    assert all(isinstance(leaf, (jnp.ndarray, np.ndarray, float)) for leaf in leaves)
    assert jax.tree.structure(mdp) == jax.tree.structure(mdp.replace(discount=0.1))
