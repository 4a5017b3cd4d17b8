"""A small grid with a goal and a hazard, and 200 episodes of a demonstrator."""

import jax
import numpy as np

import irlax as ix

# One step in ten goes in a random direction. The true reward is 1 in the goal (G) and −1 in the hazard (X).
env = ix.envs.Gridworld(["S..#G", ".X...", "....."], slip=0.1, stay=True, discount=0.95, horizon=40)
expert = ix.soft_plan(env.mdp, env.reward)
demos = ix.rollout(env.mdp, expert, num=200, key=jax.random.key(0))

# Features of each state and action: in the goal, in the hazard, moving. Their true weights are 1, −1 and 0.
moving = np.broadcast_to(np.arange(5) < 4, (env.mdp.num_states, 5))
goal, hazard = (np.broadcast_to((env.marks == mark)[:, None], moving.shape) for mark in "GX")
reward = ix.LinearReward(np.stack([goal, hazard, moving], axis=-1), names=["goal", "hazard", "moving"])
