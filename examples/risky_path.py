"""RiskyPath: a small problem in which two models of a demonstrator differ. Primer, section 3.3.

From the start a safe detour leads to a goal; a gamble at even odds leads to the goal one step sooner, or to a hazard.
"""

import numpy as np

import irlax as ix

print("The probability of the gamble, if a step in the goal has reward 1 and a step in the hazard −100:")
for discount in (0.5, 0.69, 0.7, 0.9):
    env = ix.envs.RiskyPath(discount=discount)
    causal, path = ix.soft_plan(env.mdp, env.reward), ix.path_plan(env.mdp, env.reward)
    print(f"  γ = {discount:<4}  causal {causal.policy[0, env.RISKY]:.3f}   path {path.policy[0, env.RISKY]:.3f}")

# The inverse problem: the demonstrator gambles one time in ten. What are the rewards of the two places?
env = ix.envs.RiskyPath(discount=0.9)
observed = np.array([[0.9, 0.1], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
places = ix.LinearReward(np.eye(4)[:, [2, 3]], names=["goal", "hazard"])

print("\nWhat is learned from a demonstrator who gambles one time in ten:")
for estimator in (ix.MCEIRL(), ix.MaxEntIRL()):
    fit = estimator.fit(env.mdp, places, observed)
    goal, hazard = fit.reward.weights
    print(f"  {fit.method:9}  goal {goal:+.3f}   hazard {hazard:+.3f}   identified: {fit.identification().line()}")

print("""
By the causal model the hazard is worse than the goal. The path model assumes that the demonstrator chooses the outcome
of the gamble, at a cost of minus its log-probability; one who avoids the gamble then must not want to arrive early, and
goal and hazard are equally bad. One number was observed, so one direction of two is learned; each fit starts at 0.""")
