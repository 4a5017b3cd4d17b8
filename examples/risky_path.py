"""RiskyPath: the smallest problem in which two models of a demonstrator part. Primer, section 3.3.

From the start a sure detour leads to a goal, or a gamble at even odds: the goal one step sooner, or a hazard.
"""

import numpy as np

import irlax as ix

print("How often would a demonstrator gamble whose reward is 1 in the goal and −100 in the hazard, a step?")
for discount in (0.5, 0.69, 0.7, 0.9):
    env = ix.envs.RiskyPath(discount=discount)
    causal, path = ix.soft_plan(env.mdp, env.reward), ix.path_plan(env.mdp, env.reward)
    print(f"  γ = {discount:<4}  causal {causal.policy[0, env.RISKY]:.3f}   path {path.policy[0, env.RISKY]:.3f}")

# Now the other way round: watch somebody who gambles one time in ten, and ask what the two places are worth to her.
env = ix.envs.RiskyPath(discount=0.9)
watched = np.array([[0.9, 0.1], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
places = ix.LinearReward(np.eye(4)[:, [2, 3]], names=["goal", "hazard"])

print("\nWhat is learned from one who gambles one time in ten:")
for estimator in (ix.MCEIRL(), ix.MaxEntIRL()):
    fit = estimator.fit(env.mdp, places, watched)
    goal, hazard = fit.reward.weights
    print(f"  {fit.method:9}  goal {goal:+.3f}   hazard {hazard:+.3f}   identified: {fit.identification().line()}")

print("""
The causal model concludes that the hazard is worse than the goal. The path model believes that luck can be bought at
the price of its log-probability, so one who shuns the gamble can only be in no hurry to arrive: goal and hazard are
equally bad. One number was observed, so one direction of two is learned; each fit starts at 0 and moves along it.""")
