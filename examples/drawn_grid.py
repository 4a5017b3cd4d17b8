"""A reward for a grid, from demonstrations drawn as arrows."""

import numpy as np

import irlax as ix

GRID = [
    "S....",
    "..#..",
    ".....",
    "....G",
]
# Three episodes of twelve steps from S to G, where the demonstrator stays (o). None goes through the middle.
WALKS = ["↓↓↓→→→→ooooo", "→→→→↓↓↓ooooo", "↓↓↓→→→→ooooo"]

env = ix.envs.Gridworld(GRID, stay=True, discount=0.95, horizon=12)
steps = np.array([["↑→↓←o".index(arrow) for arrow in walk] for walk in WALKS])
moves = np.array([(-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)])[steps]
start = np.argwhere(env.board == "S")[0]
places = start + np.cumsum(moves, axis=1) - moves  # before each step
demos = ix.Demonstrations.from_arrays(env.state_at[places[..., 0], places[..., 1]], steps)

# A weight for each cell. Three episodes do not determine nineteen weights: the penalty keeps the others near 0.
fit = ix.MCEIRL(l2=0.05).fit(env.mdp, ix.TabularReward("s"), demos)
print(f"{fit.status.value}; above the minimum by at most {fit.certificate.duality_gap:.0e}")

print("\nThe learned reward (# is the wall):")
for row in env.to_board(fit.reward.table(env.mdp)[:, 0]):
    print("  ".join("    #" if np.isnan(value) else f"{value:5.2f}" for value in row))

print("\nThe likeliest first move from each cell:")
likeliest = env.to_board(fit.policy[0].argmax(axis=1), fill=-1).astype(int)
for row in likeliest:
    print(" ".join("#" if action < 0 else "↑→↓←o"[action] for action in row))

end = ix.occupancy(env.mdp, fit.policy)[-1].sum(axis=1) / 0.95**11
print(f"\nAt the last step it is at the goal with probability {end[env.marks == 'G'].item():.2f}.")
