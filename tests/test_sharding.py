"""States spread over four devices, which the host is made to pretend in a process of its own."""

import os
import subprocess
import sys

SCRIPT = """
import jax, numpy as np, irlax as ix
from tests.planning.test_large import slippery

mesh = jax.make_mesh((4,), ("states",))
reward = np.random.default_rng(0).normal(size=144)
features = np.random.default_rng(1).normal(size=(144, 3))
for options in (dict(discount=0.9, horizon=6), dict(discount=0.9)):
    alone = slippery(12, **options)
    spread = alone.sharded(mesh)
    assert len(spread.dynamics.probs.sharding.device_set) == 4
    assert not spread.dynamics.links.successors.sharding.is_fully_replicated
    one, four = ix.soft_plan(alone, reward), ix.soft_plan(spread, reward)
    assert np.abs(one.value - four.value).max() < 1e-10
    assert np.abs(ix.visits(alone, one) - ix.visits(spread, four)).max() < 1e-10
    if alone.horizon is None:
        continue
    fits = [ix.MCEIRL(progress=False).fit(mdp, ix.LinearReward(features), one) for mdp in (alone, spread)]
    assert all(fit.converged for fit in fits)
    assert np.abs(fits[0].reward.weights - fits[1].reward.weights).max() < 1e-10
    assert np.abs(fits[0].policy - fits[1].policy).max() < 1e-10
    table = spread.load_table(lambda first, last: features[first:last])
    assert [shard.data.shape for shard in table.addressable_shards] == [(36, 3)] * 4
    placed = ix.MCEIRL(progress=False).fit(spread, ix.LinearReward(table), four)
    assert np.abs(placed.reward.weights - fits[0].reward.weights).max() < 1e-10

# Loaded in parts: devices send each other single values, or all of them where each needs nearly all.
rng = np.random.default_rng(2)
near = (np.arange(144)[:, None, None] + np.array([[-1, 0, 1], [-2, 3, 12]])) % 144
for successors, exchange in ((near, "SpreadLinks"), (rng.integers(0, 144, (144, 2, 3)), "Links")):
    probs, initial = rng.dirichlet(np.ones(3), (144, 2)), rng.dirichlet(np.ones(144))
    source = lambda first, last: (successors[first:last], probs[first:last], initial[first:last])
    for horizon in (6, None):
        alone = ix.MDP.from_successors(successors, probs, initial, discount=0.9, horizon=horizon)
        parts = ix.MDP.from_shards(source, mesh, num_states=144, discount=0.9, horizon=horizon)
        links = parts.dynamics.links
        assert type(links).__name__ == exchange
        assert np.array_equal(links.successors, successors.T) and links.num_states == 144
        one, four = ix.soft_plan(alone, reward, tol=1e-13), ix.soft_plan(parts, reward, tol=1e-13)
        assert np.abs(one.value - four.value).max() < 1e-10
        assert np.abs(ix.visits(alone, one) - ix.visits(parts, four)).max() < 1e-10
    with jax.enable_x64(True):
        # Collecting is the transpose of looking up, also as JAX derives it.
        flow, value = rng.normal(size=(3, 2, 144)), rng.normal(size=144)
        expected = np.zeros(144)
        np.add.at(expected, successors.T, flow)
        assert np.abs(links.collect(flow) - expected).max() < 1e-12
        assert np.array_equal(links.next_values(value), value[successors.T])
        derived = jax.grad(lambda value: (flow * links.next_values(value)).sum())(jax.numpy.asarray(value))
        assert np.abs(derived - expected).max() < 1e-12
try:
    slippery(11, discount=0.9).sharded(mesh)
except ValueError as error:
    assert "124" in str(error)
else:
    raise AssertionError("121 states over 4 devices")
print("sharded results agree")
"""


def test_four_devices_agree_with_one():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert ran.stdout.strip() == "sharded results agree", ran.stderr[-2000:]
