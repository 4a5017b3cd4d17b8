"""The MDP of a scene with a state for every cell, walls included, so that a change of walls recompiles nothing."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from irlax.demos import Demonstrations
from irlax.demos.demonstrations import from_rows
from irlax.mdp import MDP
from irlax.mdp.links import Links
from irlax.mdp.sparse import Successors
from irlax.precision import scope
from irlax.rewards import AbstractReward, LinearReward, TabularReward
from irlax.studio.scene import STEPS, Scene
from irlax.typing import Bool, Float, Int

NUM_ACTIONS = len(STEPS)
#: With more states and actions than this, the lists of choices are not padded to all of them.
MAX_PADDED = 1600
UP, STAY = 0, NUM_ACTIONS


class Grid(eqx.Module):
    """The cells of a scene as the states of an MDP, row by row.

    Every cell has five links (up, right, down, left, and to itself), of which only the probabilities depend on walls,
    marks and slip: scenes of one size share their compiled programs. A wall is a state that nothing enters.
    """

    scene: Scene
    mdp: MDP
    free: Bool[np.ndarray, " S"]
    #: Where walks end.
    ended: Bool[np.ndarray, " S"]

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width)."""
        return self.scene.shape

    def picture(self, values: Float[np.ndarray, "S *rest"]) -> Float[np.ndarray, "height width *rest"]:
        """Values over states as a picture, NaN in walls."""
        values = np.asarray(values, float)
        masked = np.where(self.free.reshape(-1, *[1] * (values.ndim - 1)), values, np.nan)
        return masked.reshape(*self.shape, *values.shape[1:])

    def state(self, cell: tuple[int, int]) -> int:
        """The state of a cell."""
        return cell[0] * self.shape[1] + cell[1]

    def reward(self) -> AbstractReward:
        """The reward to be learned, with all parameters 0."""
        if self.scene.reward == "marks":
            return marks_reward(self.scene.marks.ravel())
        return TabularReward("s" if self.scene.reward == "cells" else "sa").bind(self.mdp)

    def true_reward(self) -> Float[np.ndarray, " S"] | None:
        """The reward over states that a preset knows; 0 in walls."""
        truth = self.scene.truth
        if truth is None:
            return None
        marks = self.scene.marks.ravel()
        known = np.select([marks == "G", marks == "X"], [truth.goal, truth.hazard], truth.step)
        return np.where(self.free, known, 0.0)

    def table(self, reward: AbstractReward) -> Float[np.ndarray, "S *A"]:
        """A reward as it is drawn: over states, or over states and actions."""
        table = np.asarray(reward.table(self.mdp))
        return table if self.scene.reward == "moves" else table[:, 0]

    def choices(self) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """The states and actions of all choices that were drawn."""
        walks = [np.array(walk) for walk in self.scene.demonstrations]
        cells = np.concatenate([walk[:-1] for walk in walks])
        steps = np.concatenate([np.diff(walk, axis=0) for walk in walks])
        actions = (steps[:, None, :] == np.array(STEPS)).all(axis=2).argmax(axis=1)
        return cells @ np.array([self.shape[1], 1]), actions

    def demos(self, *, padded: bool) -> Demonstrations:
        """The walks as demonstrations.

        With `padded`, each possible choice is added once, with weight 0, where a likelihood is maximised: so the lists
        of distinct choices have one length, and another walk recompiles nothing.
        """
        states, actions = self.choices()
        walks = self.scene.demonstrations
        after = np.concatenate([[self.state(cell) for cell in walk[1:]] for walk in walks])
        lengths = np.array([len(walk) - 1 for walk in walks])
        weights = np.ones(len(walks))
        terminated = np.array([self.scene.is_end(walk[-1]) for walk in walks])
        if padded and self._can_be_padded():
            possible = np.argwhere(np.asarray(self.mdp.available))
            states, actions = np.append(states, possible[:, 0]), np.append(actions, possible[:, 1])
            after = np.append(after, self.likely_next()[tuple(possible.T)])
            lengths = np.append(lengths, np.ones(len(possible), int))
            weights, terminated = np.append(weights, np.zeros(len(possible))), np.append(terminated, possible[:, 0] < 0)
        return from_rows(states, actions, lengths, next_states=after, terminated=terminated, weights=weights)

    def _can_be_padded(self) -> bool:
        # Without a penalty, whether an optimum exists is decided from what was chosen, and weights of 0 would confuse.
        scene, size = self.scene, NUM_ACTIONS * len(self.free)
        return scene.horizon is None and scene.objective != "feature-matching" and scene.l2 > 0 and size <= MAX_PADDED

    def likely_next(self) -> Int[np.ndarray, "S A"]:
        """Where each action leads if it does not slip."""
        return _targets(self.scene)[0]


def grid_of(scene: Scene) -> Grid:
    """The grid of a scene, with its MDP."""
    target, free, ended = _targets(scene)
    num_states = len(free)
    links = np.concatenate([_neighbours(*scene.shape).T, np.arange(num_states)[None]])
    chances = (1 - scene.slip) * np.eye(NUM_ACTIONS) + scene.slip / NUM_ACTIONS
    # The chance of making a move is that of its link, or of staying where it leads nowhere.
    moves = np.arange(num_states) != target.T
    made = np.where(moves[:, None, :], chances.T[:, :, None], 0.0)
    probs = np.concatenate([made, 1 - made.sum(axis=0, keepdims=True)])
    available = ~ended[None, :] | (np.arange(NUM_ACTIONS)[:, None] == UP)
    with scope():
        dynamics = Successors(Links.of(links[:, None], np.ones(links[:, None].shape, bool)), jnp.asarray(probs))
        start = _starts(scene, free)
        initial, discount, mask = map(jnp.asarray, (start, scene.discount, available))
        mdp = MDP(dynamics, initial, discount, mask, horizon=scene.horizon)
    return Grid(scene, mdp, free, ended)


def marks_reward(marks: np.ndarray) -> LinearReward:
    """A reward that is linear in whether a cell is a goal, and whether it is a hazard."""
    return LinearReward(np.stack([marks == "G", marks == "X"], axis=-1).astype(float), names=["goal", "hazard"])


def _neighbours(height: int, width: int) -> Int[np.ndarray, "S A"]:
    """The cell beside each one, around the edges of the board: so every cell has as many links in as out."""
    rows, columns = np.divmod(np.arange(height * width), width)
    beside = [((rows + down) % height) * width + (columns + right) % width for down, right in STEPS]
    return np.stack(beside, axis=1)


def _targets(scene: Scene) -> tuple[Int[np.ndarray, "S A"], Bool[np.ndarray, " S"], Bool[np.ndarray, " S"]]:
    """Where each move leads, which cells are free, and in which a walk ends."""
    height, width = scene.shape
    marks = scene.marks.ravel()
    free, ended = marks != "#", np.isin(marks, ["G", "X"]) & scene.ends
    here = np.arange(len(marks))
    cells = np.stack(np.divmod(here, width), axis=1)
    beyond = cells[:, None, :] + np.array(STEPS)
    inside = ((beyond >= 0) & (beyond < (height, width))).all(axis=-1)
    beside = _neighbours(height, width)
    possible = inside & free[beside] & (free & ~ended)[:, None]
    return np.where(possible, beside, here[:, None]), free, ended


def _starts(scene: Scene, free: Bool[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """The start distribution: of the walks if there are any, else as the marks say."""
    starts = np.zeros(len(free))
    for walk in scene.demonstrations:
        starts[walk[0][0] * scene.shape[1] + walk[0][1]] += 1
    marked = (scene.marks.ravel() == "S").astype(float)
    chosen = starts if starts.any() else marked if marked.any() else free.astype(float)
    return chosen / chosen.sum()
