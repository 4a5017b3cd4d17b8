"""Is my reward identified? What no number of demonstrations can determine, and what to do about it."""

import numpy as np

import irlax as ix


def report(title: str, env: ix.envs.Gridworld, reward) -> None:
    """Print which directions of a reward the soft-optimal policy of the true reward determines."""
    found = ix.identify(env.mdp, reward, ix.soft_plan(env.mdp, env.reward))
    print(f"{title:58} {found.line()}")


board = ["S..", ".X.", "..G"]
plain = ix.envs.Gridworld(board)
bumpless = ix.envs.Gridworld(board, bump="unavailable")
lazy = ix.envs.Gridworld(board, stay=True)

print("A number for each state, in a 3 × 3 grid:")
report("  moves up, right, down, left; a wall is bumped into", plain, ix.TabularReward("s"))
report("  the same, but moves into walls do not exist", bumpless, ix.TabularReward("s"))
report("  with the action to stay", lazy, ix.TabularReward("s"))
print("\nA number for each state and action:")
report("  with the action to stay", lazy, ix.TabularReward("sa"))

# Why less is identified in the second grid: colour its cells like a chessboard; each move goes to the other colour, so
# that no state is followed by both.
print("\nLinked components of the grid without bumps:")
print(ix.linked_components(bumpless.mdp).reshape(3, 3))

# Two rewards with the same behaviour: the second is the first plus a potential.
potential = np.arange(9.0)
shaped = ix.shape(lazy.mdp, lazy.reward, potential)
print("\nSame soft policy after shaping:", ix.same_soft_policy(lazy.mdp, lazy.reward, shaped))
print(f"EPIC distance after shaping: {ix.epic_distance(lazy.mdp, lazy.reward, shaped):.6f}")
print("Same soft policy after doubling:", ix.same_soft_policy(lazy.mdp, lazy.reward, 2 * lazy.reward))

# What helps with state–action rewards: the same demonstrator in a second MDP. Here, one with another discount.
other = lazy.mdp.replace(discount=0.5)
print("\nTwo discounts instead of one:", ix.analysis.cao_two_environments(lazy.mdp, other).passes)
fit = ix.MCEIRL(l2=1e-6, tol=1e-9).fit(
    [lazy.mdp, other],
    ix.TabularReward("sa"),
    [ix.soft_plan(lazy.mdp, lazy.reward), ix.soft_plan(other, lazy.reward)],
)
learned = fit.reward.table(lazy.mdp)
true = np.broadcast_to(lazy.reward[:, None], learned.shape)
error = learned - true
print("Learned from both, up to a constant, to within 0.01:", np.abs(error - error.mean()).max() < 0.01)
