"""A panel with standard errors: who replaces a machine, and what wear costs.

A machine wears by 0, 1 or 2 notches a month. Its owner keeps it (0), and pays for the wear, or replaces it (1). The
panel is a table with a row for each machine and month; months are missing here and there, as they are.
"""

import jax
import numpy as np

import irlax as ix

# The dynamics, as estimated from counts of how machines wore while they were kept.
notches = np.arange(20)
worn = np.minimum(notches[:, None] + np.arange(3), 19)
successors = np.stack([worn, np.broadcast_to(np.arange(3), worn.shape)], axis=1)  # [state, action, successor]
mdp = ix.MDP.from_successors(successors, np.broadcast_to([0.35, 0.5, 0.15], (20, 2, 3)), np.eye(20)[0], discount=0.95)

features = np.zeros((20, 2, 2))
features[:, 0, 0] = -notches / 20
features[:, 1, 1] = -1.0
reward = ix.LinearReward(features, names=["wear", "replacement"])

# In place of your own table, one with a known truth: wear 4, replacement 3.
truth = ix.soft_plan(mdp, features @ np.array([4.0, 3.0]))
table = ix.rollout(mdp, truth, num=60, length=80, key=jax.random.key(0)).to_frame()
table = table.sample(frac=0.9, random_state=0)  # a tenth of the rows is lost
print(table.sort_values(["episode", "t"]).head(3).to_string(index=False), "\n")

panel = ix.Demonstrations.from_frame(table, episode="episode", time="t", state="state", action="action")
fit = ix.MCEIRL(objective="likelihood").fit(mdp, reward, panel)
print(fit.regression_table("sandwich", cluster="episode"))

# Does wear matter at all? A likelihood-ratio test against the smaller model.
smaller = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features[..., 1:], names=["replacement"]), panel)
print()
print(fit.compare_nested(smaller))

# And if replacements cost twice as much?
now = fit.counterfactual(mdp=mdp)
dearer = fit.counterfactual(parameters={"replacement": 2 * fit.reward.weights[1]})
print(f"\nReplacements a month: {now.rate(1):.3f} now, {dearer.rate(1):.3f} at twice the price.")
