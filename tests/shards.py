"""One of several processes with a share of an MDP each: `python -m tests.shards PORT NUMBER OF FOLDER SIDE`."""

import json
import resource
import sys

import jax
import numpy as np

HORIZON, DISCOUNT = 5, 0.9


def part(first, last, side):
    """Some states of a torus with slips, in NumPy: four moves, or any of the four by chance; and mass at the start."""
    state = np.arange(first, last)
    x, y = state % side, state // side
    around = [
        y * side + (x + 1) % side,
        y * side + (x - 1) % side,
        (y + 1) % side * side + x,
        (y - 1) % side * side + x,
    ]
    successors = np.broadcast_to(np.stack(around, axis=-1)[:, None], (len(state), 4, 4))
    slip = 0.1 + 0.1 * (state % 3)
    probs = slip[:, None, None] / 4 + (1 - slip)[:, None, None] * np.eye(4)
    return successors, probs, np.full(len(state), 1 / side**2)


def results(mdp, side):
    """What is compared: values, visits, and the weights of a fit to visits, all spread as the MDP is."""
    import irlax as ix

    state = np.arange(side**2)
    features = np.stack([np.sin(state), np.cos(3.0 * state)], axis=-1)
    expert = ix.soft_plan(mdp, features @ [1.0, -0.5])
    visits = ix.visits(mdp, expert)
    fit = ix.MCEIRL(progress=False).fit(mdp, ix.LinearReward(features), occupancy=visits)
    assert "converged" in str(fit.summary()) and "values at t = 0" in str(expert.summary())
    return {"value": expert.value, "visits": visits, "weights": fit.reward.weights, "policy": fit.policy}


def main(port, number, of, folder, side):
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", of, number)
    import irlax as ix
    from irlax.mdp import gathered

    mesh = jax.make_mesh((of,), ("states",))
    mdp = ix.MDP.from_shards(
        lambda first, last: part(first, last, side), mesh, num_states=side**2, discount=DISCOUNT, horizon=HORIZON
    )
    own = sum(shard.data.nbytes for shard in mdp.dynamics.probs.addressable_shards)
    found = results(mdp, side)
    for name in ("value", "visits", "policy"):
        # Nothing that has a number for each state is whole anywhere.
        assert sum(shard.data.nbytes for shard in found[name].addressable_shards) * of == found[name].nbytes, name
    found = {name: gathered(array) for name, array in found.items()}
    if number == 0:
        np.savez(f"{folder}/found.npz", **found)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"own": own, "whole": mdp.dynamics.probs.nbytes, "peak": peak}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
