"""Loggers: every line of a run's log arrives where it is sent, without a network."""

import json
from pathlib import Path

import numpy as np
import pytest

import irlax as ix
from irlax.loggers import AbstractLogger, MLflow, TensorBoard, WeightsAndBiases, scalars
from tests.sweeps import square

MDP = ix.MDP.from_dense(np.full((2, 2, 2), 0.5), [1.0, 0.0], discount=0.9)
POLICY = np.array([[0.3, 0.7], [0.6, 0.4]])
REWARD = ix.LinearReward(np.eye(4).reshape(2, 2, 4)[..., 1:3])


def logged_fit(folder, logger):
    """The numbers of a small fit's iterates."""
    fit = ix.MCEIRL(progress=False).fit(MDP, REWARD, POLICY, run=ix.RunFolder(folder, loggers=[logger]))
    return fit.history


class Collecting(AbstractLogger):
    """Keeps what it is sent in a file."""

    def opened(self, folder):
        import contextlib

        @contextlib.contextmanager
        def collecting():
            with (folder / "own.txt").open("w") as file:
                yield lambda line: file.write(json.dumps(scalars(line) | {"step": line["step"]}) + "\n")

        return collecting()


def test_a_logger_of_ones_own_receives_what_is_in_the_log(tmp_path):
    history = logged_fit(tmp_path, Collecting())
    texts = [(tmp_path / name).read_text() for name in ("log.jsonl", "own.txt")]
    log, own = ([json.loads(line) for line in text.splitlines()] for text in texts)
    assert own == log and [line["loss"] for line in log] == history.loss.tolist()
    ix.map_fits(square, [{"x": 1}, {"x": 2}], out=tmp_path / "sweep", loggers=[Collecting()])
    lines = [json.loads(line) for line in (tmp_path / "sweep" / "own.txt").read_text().splitlines()]
    assert lines[-1]["step"] == 2 and lines[-1]["failed"] == 0


def test_each_seed_is_a_series_and_what_is_not_finite_is_left_out():
    line = {"step": 3, "return": np.array([1.0, 2.0]), "loss": 0.5, "gap": float("nan")}
    assert scalars(line) == {"return/0": 1.0, "return/1": 2.0, "loss": 0.5}


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra `tracking` is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = logged_fit(tmp_path, TensorBoard())
    events = EventAccumulator(str(tmp_path)).Reload()
    assert np.allclose([event.value for event in events.Scalars("loss")], history.loss, rtol=1e-6)


def test_weights_and_biases_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logged_fit(tmp_path, WeightsAndBiases(mode="offline"))
    (written,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert b"gradient" in written.read_bytes()


@pytest.mark.filterwarnings("ignore")  # SQLAlchemy warns of how MLflow uses it
def test_mlflow_in_a_database_of_the_run_folder(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    pytest.importorskip("sqlalchemy", reason="MLflow's database needs it")
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    history = logged_fit(tmp_path, MLflow(experiment="tests"))
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("tests").experiment_id])
    losses = [metric.value for metric in client.get_metric_history(run.info.run_id, "loss")]
    assert np.allclose(losses, history.loss, rtol=1e-12) and run.info.status == "FINISHED"


@pytest.mark.parametrize("logger", [TensorBoard(), WeightsAndBiases(), MLflow()])
def test_what_is_not_installed_is_named(tmp_path, monkeypatch, logger):
    import sys

    for name in ("tensorboard", "wandb", "mlflow", "tensorboard.compat.proto.event_pb2"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'irlax\["), logger.opened(Path(tmp_path)):
        pass
