"""Fits on disk: what is saved is what is loaded, and nothing that is loaded can do harm."""

import dataclasses
import json
import pickle
import zipfile

import jax
import numpy as np
import pytest

from irlax import (
    MCEIRL,
    Demonstrations,
    LinearReward,
    MaxEntIRL,
    Newton,
    Status,
    TabularReward,
    UnfinishedWarning,
    load,
    registry,
    soft_plan,
    visits,
)
from irlax.demos.read_write import read_demos
from irlax.estimators.store import save, versions_of
from irlax.estimators.tabular.apprenticeship import ApprenticeshipIRL
from irlax.estimators.tabular.components import PolicyMixture, Posterior
from irlax.estimators.tabular.plan_of_reward import plan_of
from irlax.registry import FileFormat, stored
from irlax.rewards import AbstractReward
from irlax.rewards.linear import PlainUnfolded
from irlax.rewards.reward import AbstractFolded
from tests.fits import REWARDS, A, K, S, T, made, random_mdp, same


# A reward is stored alike whatever the plan is, so that one of each family will do for the other plans.
@pytest.mark.parametrize(
    ("kind", "model"),
    [(kind, "soft") for kind in REWARDS]
    + [(kind, model) for kind in ("linear sas", "tabular s", "shaped", "neural sa") for model in ("path", "hard")],
)
def test_round_trip_is_exact_for_every_reward(tmp_path, kind, model):
    fit = made(REWARDS[kind](), model=model)
    loaded = load(save(fit, tmp_path / "run"))
    assert same(loaded, fit)
    assert str(loaded.summary()) == str(fit.summary())
    assert np.array_equal(loaded.policy, fit.policy)


# Every kind of problem, with either demonstrator in turn: any three of the four settings in all their combinations.
@pytest.mark.parametrize("horizon", [T, None])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_round_trip_is_exact_for_every_problem(tmp_path, horizon, masked, sparse):
    demonstrator = ("demos", "occupancy")[((horizon is None) + masked + sparse) % 2]
    mdp = random_mdp(horizon=horizon, masked=masked, sparse=sparse)
    fit = made(TabularReward("sa"), mdp=mdp, demonstrator=demonstrator)
    assert same(load(save(fit, tmp_path / "run")), fit)


@pytest.mark.parametrize("status", Status)
def test_every_status_survives(tmp_path, status):
    fit = made(TabularReward("s"), status=status)
    loaded = load(save(fit, str(tmp_path / "run")))
    assert loaded.status is status and loaded.converged is status.success


def test_what_sampling_and_mixing_estimators_add_survives(tmp_path):
    fit = made(REWARDS["linear s"]())
    draws = np.random.default_rng(0).normal(size=(50, K))
    policy = np.full((T, S, A), 0.5)
    full = dataclasses.replace(
        fit,
        posterior=Posterior(draws, 1.001, 431.5, 2, np.arange(2, dtype=np.uint32)),
        mixture=PolicyMixture(policy, 0.25, 0.125, 7, 3),
        feature_gap=None,
        certificate=None,
        held_out_log_likelihood=-np.inf,
        missing_mass=0.25,
    )
    assert same(load(save(full, tmp_path / "run")), full)


def test_several_mdps_are_numbered(tmp_path):
    one, other = made(TabularReward("s")), made(TabularReward("s"), mdp=random_mdp(1), demonstrator="occupancy")
    both = dataclasses.replace(
        one,
        rewards=(*one.rewards, *one.rewards),
        experts=(*one.experts, *other.experts),
        plans=tuple(plan_of("soft", e.mdp, one.reward) for e in (*one.experts, *other.experts)),
    )
    loaded = load(save(both, tmp_path / "run"))
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["arrays.npz", "demos.npz", "fit.json", "mdp.npz", "mdp1.npz"]
    assert same(loaded, both)


@pytest.mark.parametrize("estimator", [MCEIRL, MaxEntIRL])
def test_real_fits_survive(tmp_path, estimator):
    mdp = random_mdp()
    features = np.random.default_rng(5).normal(size=(S, A, K))
    expert = made(LinearReward(features, [1.0, -1.0]), mdp=mdp)
    fit = estimator(l2=0.1).fit(mdp, LinearReward(features), expert.experts[0].demos)
    fit.save(tmp_path / "run")
    assert same(load(tmp_path / "run"), fit)


@pytest.mark.parametrize("given", ["occupancy", "large policy"])
def test_visits_summed_over_time_survive(tmp_path, monkeypatch, given):
    """Given as such, or of a policy with too many entries to be kept for each time apart."""
    monkeypatch.setattr("irlax.estimators.tabular.expert.MAX_OCCUPANCY_ENTRIES", T * S * A - 1)
    mdp, features = random_mdp(), np.random.default_rng(5).normal(size=(S, A, K))
    plan = soft_plan(mdp, features @ [1.0, -1.0])
    policy, summed = (None, visits(mdp, plan)) if given == "occupancy" else (plan, None)
    fit = MCEIRL(l2=0.1, progress=False).fit(mdp, LinearReward(features), policy, occupancy=summed)
    loaded = load(fit.save(tmp_path / "run"))
    assert same(loaded, fit)
    assert np.array_equal(loaded.experts[0].given_occupancy, visits(mdp, plan))


def test_apprenticeship_keeps_its_mixture(tmp_path):
    mdp = random_mdp()
    reward = LinearReward(np.eye(S))
    fit = ApprenticeshipIRL(tol=0.1).fit(mdp, reward, np.full((S, A), 0.5))
    loaded = load(save(fit, tmp_path / "run"))
    assert same(loaded, fit) and np.array_equal(loaded.policy, fit.mixture.policy)


def test_a_warm_start_from_a_loaded_fit_is_where_it_ended(tmp_path):
    mdp = random_mdp()
    demos = made(TabularReward("s")).experts[0].demos
    with pytest.warns(UnfinishedWarning):
        short = MCEIRL(l2=0.1, solver=Newton(max_steps=1)).fit(mdp, TabularReward("s"), demos)
    loaded = load(short.save(tmp_path / "run"))
    on = MCEIRL(l2=0.1).fit(mdp, loaded.reward, demos)
    assert on.history.loss[0] == short.history.loss[-1] and on.converged


def test_labels_travel_with_the_fit(tmp_path):
    mdp = random_mdp().labelled(layout=["..", ".."], actions=["left", "right"], time_unit="day")
    made(TabularReward("s"), mdp=mdp).save(tmp_path / "run")
    load(tmp_path / "run").save(tmp_path / "again")
    assert load(tmp_path / "again").mdp.labels == mdp.labels
    assert {"python", "irlax", "jax", "numpy"} <= set(dict(versions_of(tmp_path / "again")))


def test_a_fit_replaces_a_fit_and_nothing_else(tmp_path):
    fit = made(TabularReward("s"))
    run = tmp_path / "deep" / "run"
    save(fit, run)
    (run / "report.html").write_text("an old report")
    save(dataclasses.replace(fit, seconds=2.0), run)
    assert load(run).seconds == 2.0
    (run / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"notes\.txt"):
        save(fit, run)
    assert (run / "notes.txt").read_text() == "mine"
    for name, make in {"file": lambda p: p.write_text("x"), "folder": lambda p: (p.mkdir(), (p / "a").touch())}.items():
        make(tmp_path / name)
        with pytest.raises(ValueError, match=name):
            save(fit, tmp_path / name)
    (tmp_path / "empty").mkdir()
    save(fit, tmp_path / "empty")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "empty", "file", "folder"]


def test_a_failed_save_leaves_what_was_there(tmp_path, monkeypatch):
    fit = made(TabularReward("s"))
    save(fit, tmp_path / "run")

    def fails(*_):
        raise OSError("disk full")

    form = FileFormat("demos", fails, read_demos)
    monkeypatch.setitem(registry._FILES, Demonstrations, form)
    for name in ("run", "other"):
        with pytest.raises(OSError, match="disk full"):
            save(dataclasses.replace(fit, seconds=9.0), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert load(tmp_path / "run").seconds == fit.seconds


def test_what_cannot_be_stored_is_refused_before_anything_is_written(tmp_path):
    class Strange(AbstractReward):
        inner: AbstractReward
        parameters = property(lambda self: self.inner.parameters)
        with_parameters = bind = fold = unfold = parameter_names = scales = None

    fit = made(TabularReward("s"))
    with pytest.raises(TypeError, match="Strange"):
        save(dataclasses.replace(fit, rewards=(Strange(fit.reward),)), tmp_path / "run")
    endless = LinearReward(np.ones((S, 1))).with_parameters(np.array([np.inf]))
    with pytest.raises(ValueError, match="finite"):
        save(dataclasses.replace(fit, rewards=(endless,)), tmp_path / "run")
    assert not list(tmp_path.iterdir())


@stored("test-quadratic-reward")
class Quadratic(AbstractReward):
    """Somebody's own reward, −(θ·φ)², saved by its fields."""

    inner: LinearReward
    parameters = property(lambda self: self.inner.parameters)

    def with_parameters(self, parameters):
        return Quadratic(self.inner.with_parameters(parameters))

    def bind(self, mdp):
        return Quadratic(self.inner.bind(mdp))

    def fold(self, mdp):
        return Squared(self.inner.fold(mdp))

    def unfold(self, mdp):
        return PlainUnfolded(self.fold(mdp))

    def parameter_names(self):
        return self.inner.parameter_names()

    def scales(self, mdp):
        return self.inner.scales(mdp)


class Squared(AbstractFolded):
    folded: AbstractFolded

    def __call__(self, parameters):
        return -(self.folded(parameters) ** 2)


def test_a_users_own_reward_is_saved_and_loaded_with_its_fit(tmp_path):
    fit = made(Quadratic(LinearReward(np.random.default_rng(0).normal(size=(S, K)), [1.0, 2.0])))
    assert same(load(fit.save(tmp_path / "run")), fit)


@pytest.fixture
def run(tmp_path):
    save(made(REWARDS["neural s"]()), tmp_path / "run")
    return tmp_path / "run"


def edit_record(run, edit):
    record = json.loads((run / "fit.json").read_text())
    edit(record)
    (run / "fit.json").write_text(json.dumps(record))


def edit_arrays(run, name="arrays.npz", **changes):
    with np.load(run / name) as file:
        arrays = dict(file)
    arrays |= changes
    np.savez(run / name, **{key: array for key, array in arrays.items() if array is not None})


@pytest.mark.parametrize("name", ["fit.json", "arrays.npz", "mdp.npz", "demos.npz"])
@pytest.mark.parametrize("harm", ["missing", "empty", "cut", "garbage", "folder"])
def test_damaged_files_are_a_value_error_that_names_them(run, name, harm):
    path = run / name
    content = path.read_bytes()
    path.unlink()
    if harm == "folder":
        path.mkdir()
    elif harm != "missing":
        path.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "garbage": bytes(range(256))}[harm])
    with pytest.raises(ValueError, match=name):
        load(run)


def fields(record):
    return record["fit"]["fields"]


def reward(record):
    return fields(record)["rewards"][0]["fields"]


EDITS = {
    "format": lambda record: record.update(format="irlax-run-2"),
    "no format": lambda record: record.pop("format"),
    "no fit": lambda record: record.pop("fit"),
    "not a fit": lambda record: record.update(fit=fields(record)["rewards"][0]),
    "status": lambda record: fields(record)["status"].update(member="GREAT"),
    "estimator": lambda record: fields(record)["estimator"].update(kind="os.system"),
    "no estimator": lambda record: fields(record).update(estimator={"kind": "newton", "fields": {}}),
    "setting": lambda record: fields(record)["estimator"]["fields"].update(l2=-1.0),
    "unknown setting": lambda record: fields(record)["estimator"]["fields"].update(magic=1),
    "model": lambda record: fields(record).update(model="__import__('os')"),
    "likelihood": lambda record: fields(record).update(log_likelihood={"number": "nan"}),
    "seconds": lambda record: fields(record).update(seconds=True),
    "no seconds": lambda record: fields(record).pop("seconds"),
    "number": lambda record: fields(record).update(seconds={"number": "one"}),
    "certificate": lambda record: fields(record)["certificate"]["fields"].update(gradient="small"),
    "two demonstrators": lambda record: fields(record)["experts"].append(fields(record)["experts"][0]),
    "no rewards": lambda record: fields(record).update(rewards=[], experts=[]),
    "class": lambda record: fields(record)["rewards"][0].update(kind="os.system"),
    "no class": lambda record: fields(record)["rewards"][0].pop("kind"),
    "file": lambda record: fields(record)["experts"][0]["fields"]["mdp"].update(file="../mdp.npz"),
    "kind of file": lambda record: fields(record)["experts"][0]["fields"]["mdp"].update(kind="demos"),
    "unknown kind of file": lambda record: fields(record)["experts"][0]["fields"]["mdp"].update(kind="pickle"),
    "width": lambda record: reward(record).update(width=10**12),
    "depth": lambda record: reward(record).update(depth=10**9),
    "leaves": lambda record: reward(record).update(leaves=10**9),
    "activation": lambda record: reward(record).update(activation="eval"),
    "over": lambda record: reward(record).update(over="sas"),
    "shaped for ever": lambda record: fields(record).update(rewards=[shaped(100)]),
}


def shaped(depth):
    base = {"kind": "tabular-reward", "fields": {"over": "s"}}
    for _ in range(depth):
        base = {"kind": "shaped-reward", "fields": {"discount": 0.9, "base": base}}
    return base


@pytest.mark.parametrize("edit", EDITS)
def test_a_record_that_cannot_be_is_a_value_error(run, edit):
    edit_record(run, EDITS[edit])
    with pytest.raises(ValueError, match="run"):
        load(run)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": NaN}', "[1]", '{"format": "irlax-run-1"}', "\ufffd\x00"])
def test_a_record_that_is_none_is_a_value_error(run, text):
    (run / "fit.json").write_text(text)
    with pytest.raises(ValueError, match="run"):
        load(run)


def test_a_folder_that_does_not_call_itself_a_fit_is_not_replaced(run):
    (run / "fit.json").write_text("[1]")
    with pytest.raises(ValueError, match="may be replaced"):
        save(made(TabularReward("s")), run)


ARRAYS = {
    "nan gap": {"feature_gap": np.full(21, np.nan)},
    "short gap": {"feature_gap": np.zeros(3)},
    "nan parameters": {"rewards.0.leaves.0": np.full((4, 3), np.nan)},
    "wrong parameters": {"rewards.0.leaves.0": np.zeros((3, 4))},
    "text parameters": {"rewards.0.leaves.0": np.full((4, 3), "a")},
    "missing parameters": {"rewards.0.leaves.1": None},
    "nan observations": {"rewards.0.observations": np.full((S, 3), np.nan)},
    "more states": {"rewards.0.observations": np.zeros((S + 1, 3))},
    "history": {"history.columns.loss": np.zeros(2)},
    "history of text": {"history.columns.loss": np.array("x")},
    "unknown": {"mystery": np.zeros(1)},
}


@pytest.mark.parametrize("change", ARRAYS)
def test_arrays_that_cannot_be_are_a_value_error(run, change):
    edit_arrays(run, **ARRAYS[change])
    with pytest.raises(ValueError, match="run"):
        load(run)


def test_parts_of_different_fits_do_not_pass_for_one(run, tmp_path):
    edit_arrays(run, "mdp.npz", horizon=np.array(2))
    with pytest.raises(ValueError, match="horizon 2"):
        load(run)
    edit_arrays(run, "mdp.npz", horizon=np.array(10**12))
    with pytest.raises(ValueError, match="GiB"):
        load(run)


def test_no_path_leads_to_a_fit_that_is_not_there(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for name in ("nothing", "file", "folder"):
        with pytest.raises(ValueError, match=name):
            load(tmp_path / name)
    with pytest.raises(TypeError, match="path"):
        load(3)  # type: ignore[arg-type]


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


@pytest.mark.parametrize("name", ["arrays.npz", "mdp.npz", "demos.npz"])
@pytest.mark.parametrize("disguise", ["object array", "pickle in place of the archive", "pickle as a member"])
def test_loading_a_strangers_fit_runs_nothing(run, tmp_path, name, disguise):
    marker = tmp_path / "marker"
    bomb = np.array([Bomb(marker)], dtype=object)
    member = {"arrays.npz": "feature_gap", "mdp.npz": "initial", "demos.npz": "weights"}[name]
    if disguise == "object array":
        edit_arrays(run, name, **{member: bomb})
    elif disguise == "pickle as a member":
        edit_arrays(run, name, **{member: None})
        with zipfile.ZipFile(run / name, "a") as archive:
            archive.writestr(f"{member}.npy", pickle.dumps(Bomb(marker)))
    else:
        (run / name).write_bytes(pickle.dumps(Bomb(marker)))
    with pytest.raises(ValueError, match=name):
        load(run)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Bomb(marker))).close()
    assert marker.exists()


def test_the_global_precision_does_not_matter(tmp_path):
    fit = made(REWARDS["neural sas"]())
    save(fit, tmp_path / "run")
    assert not jax.config.read("jax_enable_x64")
    parameters = load(tmp_path / "run").reward.parameters
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(parameters))
