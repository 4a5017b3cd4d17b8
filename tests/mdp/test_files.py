import equinox as eqx
import jax
import numpy as np
import pytest

from irlax import MDP, envs, soft_plan
from irlax.mdp import Dense, Deterministic, Labels, Successors
from irlax.mdp.npz import load_mdp, save_mdp
from tests.demos.test_npz import Trap
from tests.problems import STORES, as_mdp, random_problem, random_reward


@pytest.mark.parametrize("horizon", [None, 4])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("nature", ["stochastic", "deterministic"])
@pytest.mark.parametrize("store", STORES)
def test_round_trips_are_exact(tmp_path, store, nature, masked, horizon):
    mdp = as_mdp(random_problem(0, nature, masked=masked, horizon=horizon), store)
    save_mdp(tmp_path / "mdp.npz", mdp)
    again = load_mdp(tmp_path / "mdp.npz")
    assert eqx.tree_equal(again, mdp)
    reward = random_reward(0)
    assert np.array_equal(soft_plan(again, reward).value, soft_plan(mdp, reward).value)
    assert [file.name for file in tmp_path.iterdir()] == ["mdp.npz"]


def test_an_undiscounted_end_is_found_again(tmp_path):
    mdp = envs.Gridworld(("S..", "..G"), ends=True, discount=1.0).mdp
    save_mdp(tmp_path / "mdp.npz", mdp)
    assert np.array_equal(load_mdp(tmp_path / "mdp.npz").terminal, mdp.terminal)


def test_labels_come_back(tmp_path):
    grid = envs.Gridworld(("S.#", "..G"))
    names = [f"cell {row},{column}" for row, column in grid.cells]
    mdp = grid.mdp.labelled(states=names, actions=("up", "→", "down", "left"), state_unit="km", time_unit="hour")
    save_mdp(tmp_path / "mdp.npz", mdp)
    again = load_mdp(tmp_path / "mdp.npz")
    assert again.labels == Labels(tuple(names), ("up", "→", "down", "left"), grid.layout, "km", None, "hour")
    assert eqx.tree_equal(again, grid.mdp)
    save_mdp(tmp_path / "bare.npz", envs.RandomMDP(3, 2).mdp)
    assert load_mdp(tmp_path / "bare.npz").labels == Labels()


def test_a_drawing_of_something_else_is_left_out_with_a_warning(tmp_path):
    path = tmp_path / "mdp.npz"
    np.savez(path, **VALID, layout=np.array(["...", ".#."]), action_names=np.array(["a", "b", "c"]))
    with pytest.warns(UserWarning, match="draws 5 cells, but there are 2 states"):
        mdp = load_mdp(path)
    assert mdp.labels == Labels(actions=("a", "b", "c"))


def test_a_handmade_file_needs_no_more_than_the_problem(tmp_path):
    path = tmp_path / "mdp.npz"
    np.savez(path, transitions=np.full((2, 3, 2), 0.5, np.float32), initial=[1, 0], discount=0.5)
    mdp = load_mdp(path)
    assert isinstance(mdp.dynamics, Dense) and mdp.horizon is None and mdp.initial.dtype == float
    np.savez(path, successors=[[[1]], [[0]]], initial=[1.0, 0], discount=1, horizon=7)
    mdp = load_mdp(path)
    assert isinstance(mdp.dynamics, Deterministic) and mdp.horizon == 7
    np.savez(path, successors=np.array([[[0, 1]]] * 2, ">i2"), probs=[[[0.5, 0.5]]] * 2, initial=[1, 0], discount=0)
    assert isinstance(load_mdp(path).dynamics, Successors)


VALID = {"transitions": np.full((2, 3, 2), 0.5), "initial": np.array([1.0, 0.0]), "discount": 0.9, "horizon": 5}
SPARSE = {"transitions": None, "successors": np.array([[[0, 1]] * 3] * 2), "probs": np.full((2, 3, 2), 0.5)}


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"transitions": None}, "must hold `transitions` or `successors`.*It holds initial, discount, horizon"),
        ({"successors": np.zeros((2, 3, 1), int)}, "and not both"),
        ({"initial": None}, "has no initial"),
        ({"initial": None, "discount": None}, "has no initial and no discount"),
        ({"reward": np.zeros(2)}, "holds 'reward', but may hold only format, transitions"),
        ({"format": "irlax-demos-1"}, "format must be 'irlax-mdp-1', but is 'irlax-demos-1'"),
        ({"transitions": np.full((2, 3, 2), 0.4)}, "must sum to 1"),
        ({"transitions": np.full((2, 3, 2), np.nan)}, "must be finite"),
        ({"transitions": np.full((2, 3, 2), 1e308)}, "must sum to 1"),
        ({"transitions": np.full((2, 3, 3), 1 / 3)}, r"must have shape \(S, A, S\)"),
        ({"transitions": np.zeros((0, 10**9, 0))}, "none of them empty"),
        ({"transitions": np.zeros((2, 2))}, "three axes"),
        ({"transitions": np.full((2, 3, 2), "x")}, "must hold numbers, but has dtype <U1"),
        ({"transitions": np.full((2, 3, 2), 0.5 + 0j)}, "must hold numbers"),
        ({"probs": np.full((2, 3, 2), 0.5)}, "`probs` belongs to `successors`"),
        ({"initial": np.array([1.0, 1.0])}, "`initial` must sum to 1"),
        ({"initial": np.array([1.0])}, "`initial` must have shape"),
        ({"discount": 1.5}, "`discount` must lie between 0 and 1"),
        ({"discount": np.nan}, "`discount` must lie between 0 and 1"),
        ({"discount": [0.5, 0.5]}, "`discount` must be one number"),
        ({"discount": True}, "`discount` must be one number"),
        ({"horizon": 0}, "`horizon` must be at least 1"),
        ({"horizon": -2}, "`horizon` must be at least 1"),
        ({"horizon": 2.5}, "`horizon` must be one whole number"),
        ({"horizon": "5"}, "`horizon` must be one whole number"),
        ({"discount": 1.0, "horizon": -1}, "no state is absorbing"),
        ({"available": np.ones((2, 3))}, "`available` must be an array of booleans"),
        ({"available": np.zeros((2, 3), bool)}, "leaves no action"),
        ({"available": np.ones((2, 2), bool)}, "`available` must have shape"),
        ({"layout": np.array(["..", "."])}, "rows of equal length"),
        ({"layout": np.array(3)}, "`layout` must hold text"),
        ({"layout": np.array("..")}, "`layout` must have shape"),
        ({"time_unit": np.array(["day", "week"])}, "`time_unit` must have shape"),
        ({"places": np.array(["here", "there"])}, "`places` must hold numbers"),
        ({"places": np.zeros((5, 4))}, "`places` must have shape"),
        ({"state_names": np.array(["a"])}, "`state_names` must have shape"),
        ({"action_names": np.array(["a", "b"])}, "`action_names` must have shape"),
        (SPARSE | {"probs": None}, "lists 2 successors for each state and action, but no `probs`"),
        (SPARSE | {"successors": SPARSE["successors"] + 1}, "must lie in 0..1"),
        (SPARSE | {"successors": SPARSE["successors"].astype(float)}, "`successors` must hold integers"),
        (SPARSE | {"probs": np.full((2, 3, 1), 1.0)}, "`successors` must have shape"),
        (SPARSE | {"successors": np.full((2, 3, 2), 2**64 - 1, np.uint64)}, "must lie in 0..1"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, changes, message):
    path = tmp_path / "mdp.npz"
    np.savez(path, **{name: value for name, value in (VALID | changes).items() if value is not None})
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}") as caught:
        load_mdp(path)
    assert str(path) in str(caught.value)


def test_pickles_are_never_loaded(tmp_path):
    path = tmp_path / "mdp.npz"
    for name in ("transitions", "horizon", "layout"):
        np.savez(path, **VALID | {name: np.array(Trap(tmp_path / "marker"), object)})
        with pytest.raises(ValueError, match=f"{name}.npy holds Python objects"):
            load_mdp(path)
    assert not (tmp_path / "marker").exists()


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "mdp.npz"
    save_mdp(path, as_mdp(random_problem(0)))
    valid = path.read_bytes()
    for length in (0, 4, 100, len(valid) // 2, len(valid) - 1):
        path.write_bytes(valid[:length])
        with pytest.raises(ValueError, match=r"cannot be read as an MDP \(\.npz\)"):
            load_mdp(path)


def test_what_cannot_be_saved_is_not(tmp_path, as_a_user):
    mdp = as_mdp(random_problem(0))
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        save_mdp(tmp_path / "mdp.json", mdp)
    with pytest.raises(TypeError, match="`mdp` must be an MDP"):
        save_mdp(tmp_path / "mdp.npz", np.zeros(3))

    def save_inside(discount):
        traced = MDP.from_dense(np.ones((1, 1, 1)), np.ones(1), discount=discount)
        save_mdp(tmp_path / "mdp.npz", traced)
        return discount

    with pytest.raises(TypeError, match="inside `jit`"):
        jax.jit(save_inside)(0.5)
    assert not list(tmp_path.iterdir())
