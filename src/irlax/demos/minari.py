"""Demonstrations from and to Minari datasets (`pip install irlax[minari]`)."""

import warnings
from typing import Any

import numpy as np

from irlax.demos.demonstrations import Demonstrations
from irlax.demos.trajectories import Trajectory, from_trajectories, to_trajectories


def from_minari(dataset: Any) -> Demonstrations:
    """From a Minari dataset, or from the id of one that is stored on this machine.

    Observations and actions must be arrays; an episode is terminated if its last step says so, and otherwise
    truncated, whether it says so or not. Nothing is downloaded: `minari download ID` does that.
    """
    minari = _minari()
    if isinstance(dataset, str):
        known = minari.list_local_datasets()
        if dataset not in known:
            raise ValueError(
                f"There is no Minari dataset {dataset!r} on this machine (there are {', '.join(known) or 'none'}). "
                f"Fetch it with `minari download {dataset}`."
            )
        dataset = minari.load_dataset(dataset)
    return from_trajectories(_trajectory(k, episode) for k, episode in enumerate(dataset.iterate_episodes()))


def to_minari(demos: Demonstrations, dataset_id: str, *, env: Any = None, **metadata: Any) -> Any:
    """Write a local Minari dataset, such as "cartpole/expert-v0", and return it.

    `env` is the Gymnasium environment, or its id, that the demonstrations are from: it is named in the dataset and
    gives its spaces. Without one they are taken from the demonstrations: boxes without bounds, or as many discrete
    actions as were observed. `metadata` (author, algorithm_name, description, …) goes to Minari. A dataset
    cannot hold weights and labels; they are left out.
    """
    minari = _minari()
    trajectories = to_trajectories(demos)
    if env is None:
        metadata = {"observation_space": _space(trajectories[0].obs, demos), "action_space": _actions(demos)} | metadata
    with warnings.catch_warnings():
        # Minari warns of each piece of metadata that is not given; none is needed.
        warnings.filterwarnings("ignore", category=UserWarning, module="minari")
        return minari.create_dataset_from_buffers(
            dataset_id=dataset_id,
            buffer=[_buffer(minari, k, trajectory) for k, trajectory in enumerate(trajectories)],
            env=env,
            # Arrow is a dependency of ours; Minari's default needs one more library.
            data_format="arrow",
            **metadata,
        )


def _minari() -> Any:
    try:
        import minari  # pyright: ignore[reportMissingImports]
        import minari.data_collector  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("minari is not installed: `pip install irlax[minari]`, or `pip install minari`.") from error
    return minari


def _trajectory(k: int, episode: Any) -> Any:
    for name in ("observations", "actions"):
        if not isinstance(getattr(episode, name), np.ndarray):
            raise TypeError(
                f"Episode {k} has {name} that are not an array but a {type(getattr(episode, name)).__name__}. Flatten "
                f"them first, for example with `gymnasium.spaces.flatten`."
            )
    return Trajectory(
        acts=episode.actions,
        obs=episode.observations,
        terminal=bool(episode.terminations[-1]),
        rews=np.asarray(episode.rewards, np.float64),
    )


def _buffer(minari: Any, k: int, trajectory: Trajectory) -> Any:
    last = np.arange(len(trajectory)) == len(trajectory) - 1
    rewards = np.zeros(len(trajectory)) if trajectory.rews is None else trajectory.rews
    return minari.data_collector.EpisodeBuffer(
        id=k,
        observations=list(trajectory.obs),
        actions=list(trajectory.acts),
        rewards=list(rewards),
        terminations=list(last & trajectory.terminal),
        truncations=list(last & (not trajectory.terminal)),
    )


def _space(values: np.ndarray, demos: Demonstrations) -> Any:
    from gymnasium import spaces

    if demos.states is not None and demos.next_states is not None:
        return spaces.Discrete(int(max(demos.states.max(), demos.next_states.max())) + 1)
    return spaces.Box(-np.inf, np.inf, values.shape[1:], values.dtype.type)


def _actions(demos: Demonstrations) -> Any:
    from gymnasium import spaces

    if demos.actions.dtype.kind in "iu":
        return spaces.Discrete(int(demos.actions.max()) + 1)
    return spaces.Box(-np.inf, np.inf, demos.actions.shape[1:], demos.actions.dtype.type)
