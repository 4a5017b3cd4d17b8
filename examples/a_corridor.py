"""A corridor that can only be walked in, and 200 walks of somebody who would rather be at its end."""

import jax
import jax.numpy as jnp
import numpy as np

import irlax as ix

# Three places; one goes left, stays, or goes right. We know these dynamics and the truth; the estimators only walk.
moves = np.array([[0, 0, 1], [0, 1, 2], [1, 2, 2]])
mdp = ix.MDP.from_successors(moves[..., None], np.ones((3, 3, 1)), np.full(3, 1 / 3), discount=0.7)
true_reward = np.array([0.0, 0.5, 1.5])
expert = ix.soft_plan(mdp, true_reward)

env = ix.envs.Tabular(mdp, true_reward, horizon=12)
log_policy = jnp.log(expert.policy)
demos = ix.envs.collect(
    env, lambda seen, key: jax.random.categorical(key, seen @ log_policy), 200, key=jax.random.key(0)
)

# So small a problem needs no networks: without hidden layers, on one-hot observations, policies and rewards are tables.
learner = ix.rl.PPO(temperature=1.0, discount=0.7, explore=0.0, depth=0, gae=0.8, learning_rate=0.03, minibatches=2)
table = {over: ix.RewardNet(over=over, depth=0, normalise=False) for over in ("s", "sa")}
small = {"learner": learner, "rounds": ix.Rounds(num=40, episodes=128), "learning_rate": 0.03}


def distance(policy) -> float:
    """How far a policy is from the demonstrator's, at most: total variation between their actions."""
    learned = np.exp(jax.vmap(policy.log_probs)(jnp.eye(3)))
    return np.abs(learned - expert.policy).sum(axis=1).max() / 2
