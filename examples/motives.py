"""An animal that looks for water, then goes home: which of the two it wanted at each step, from its moves alone."""

import jax
import numpy as np

import irlax as ix

# G is the water, X the nest. Staying is an action, too.
env = ix.envs.Gridworld(["G....", ".....", "..#..", ".....", "....X"], slip=0.05, stay=True, discount=0.9)
water, nest = (np.tile((env.marks == mark)[:, None], 5).astype(float) for mark in "GX")
reward = ix.LinearReward(np.stack([water, nest], axis=-1), names=["water", "nest"])

# The truth, which the fit does not see. Thirst ends at the water; rest ends anywhere, after twenty steps on average.
thirsty, tired = (ix.soft_plan(env.mdp, reward.features @ weights) for weights in ([2.0, 0.0], [0.0, 1.5]))
switching = np.tile([[0.99, 0.01], [0.05, 0.95]], (env.mdp.num_states, 1, 1))
switching[env.marks == "G", 0] = [0.5, 0.5]
demos, truth = ix.simulate_motives(
    env.mdp, [thirsty.policy, tired.policy], [0.5, 0.5], switching, num=45, length=100, key=jax.random.key(0)
)
training, test = demos.select(range(30)), demos.select(range(30, 45))

# Two motives, whose switches depend on where the animal is: at the water, or elsewhere.
estimator = ix.SwitchingIRL(num_motives=2, by_state=True, num_starts=2)
at_water = (env.marks == "G").astype(float)
fit = estimator.fit(env.mdp, reward, training, key=jax.random.key(1), switching_features=at_water)
print(fit.summary(), fit.baselines(), sep="\n\n", end="\n\n")

k = int(np.argmax([theta[0] for theta in fit.parameters]))
ends = fit.switching[:, k, 1 - k]
print(f"Thirst ends with probability {ends[at_water == 1][0]:.2f} at the water, {ends[at_water == 0][0]:.3f} elsewhere")
decoded = fit.likeliest_motives(test) == k
print(f"Motives of episodes that were not learned from: {np.mean(decoded == (truth[30 * 100 :] == 0)):.0%} right")
print(f"Held-out log likelihood of a choice: {fit.score(test):.3f}")
