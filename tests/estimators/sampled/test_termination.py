"""Who survives and who seeks the end are told apart by the learned reward of the absorbing state."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.envs import Absorbing, Tabular
from irlax.rl import PPO

STAY, LEAVE = 0, 1
ALIVE, ENDED = np.array([1.0, 0.0, 0.0], np.float32), np.array([0.0, 0.0, 1.0], np.float32)
ESTIMATOR = ix.SampledMCEIRL(
    reward=ix.RewardNet(over="s", depth=0, normalise=False),
    learner=PPO(temperature=1.0, discount=0.9, depth=0, learning_rate=3e-2, explore=0.0),
    rounds=ix.Rounds(num=60, episodes=64, tol=0.0),
    penalty=0.0,
    learning_rate=3e-2,
    updates=4,
    batch_size=512,
)


class Mostly(eqx.Module):
    """Nine times out of ten the same action."""

    action: jnp.ndarray

    def __call__(self, observation, *, key):
        return jnp.where(jr.bernoulli(key, 0.9), self.action, 1 - self.action)


@pytest.mark.parametrize("action", [STAY, LEAVE])
def test_end_is_worth_little_to_who_stays_and_much_to_who_leaves(action):
    """In state 0 one may stay or leave for the end; what the environment itself pays is never looked at."""
    transitions = [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]
    mdp = ix.MDP.from_dense(transitions, [1, 0], discount=0.9, horizon=20)
    env = Absorbing(Tabular(mdp, np.zeros(2), terminates=True))
    inner = ix.envs.collect(env.env, Mostly(jnp.array(action)), 100, key=jr.key(0))
    fit = ESTIMATOR.fit(env, env.pad(inner, key=jr.key(1)), key=jr.key(2), progress=False)
    alive, end = (float(fit.reward(jnp.asarray(seen), 0, jnp.asarray(seen))) for seen in (ALIVE, ENDED))
    assert end < alive - 0.1 if action == STAY else end > alive + 0.1
    # It behaves as was demonstrated, although nobody forced the sign of its reward.
    assert np.exp(fit.policy.log_probs(jnp.asarray(ALIVE)))[action] == pytest.approx(0.9, abs=0.07)
