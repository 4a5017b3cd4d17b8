"""CartPole from twenty demonstrations, without a model: AIRL, MCE IRL from samples, and cloning as the baseline."""

import argparse

import jax

import irlax as ix

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument(
    "--rounds", type=int, default=300, help="at most; each collects whole episodes and learns from them"
)
parser.add_argument("--episodes", type=int, help="in a round; by default, as many as make 8,000 steps")
parser.add_argument("--methods", nargs="*", default=["SampledMCEIRL", "AIRL", "BehaviouralCloning"])
options = parser.parse_args()

# Every episode has 500 steps: after a fall comes one absorbing state, an observation of zeros with a last entry of 1.
env = ix.envs.make("cartpole", after_end="absorbing")
demos = ix.expert_demos("cartpole", after_end="absorbing")
print(f"demonstrations: {demos.num_episodes}, true return {demos.returns.mean():.0f}")

for method in options.methods:
    # Cloning takes no environment steps, and so has no rounds.
    rounds = ix.Rounds(num=options.rounds, episodes=options.episodes)
    settings = {} if method == "BehaviouralCloning" else {"rounds": rounds}
    fit = getattr(ix, method)(**settings).fit(env, demos, key=jax.random.key(0))
    returns = ix.evaluate(env, fit.policy, num=100, key=jax.random.key(1))
    learned = isinstance(fit, ix.RewardFit)
    last = "" if not learned else f", gap {fit.history['gap'][-1]:+.2f} after {fit.iterations} rounds"
    print(f"{method}: true return {returns.mean():.0f} ± {returns.std():.0f}{last}")

    if learned:
        # The learned reward of an upright pole and of one that leans, both in the middle and at rest.
        for name, angle in (("upright", 0.0), ("leaning", 0.15)):
            seen = jax.numpy.array([0.0, 0.0, angle, 0.0, 0.0])
            print(f"  {name}, pushed left and right: {[round(float(fit.reward(seen, a, seen)), 2) for a in (0, 1)]}")
