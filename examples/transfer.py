"""A reward that survives a change of the world: learned in one maze, used in another, where the old policy fails."""

import argparse

import jax

import irlax as ix

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=300, help="of AIRL, at most")
parser.add_argument("--episodes", type=int, help="in a round; by default, as many as make 8,000 steps")
parser.add_argument("--steps", type=int, help="of training in the other maze; by default, PPO's own")
options = parser.parse_args()

# The way round the barrier is on the right; in the other maze, on the left.
here, there = ix.envs.make("point-maze"), ix.envs.make("point-maze", wall="right")
demos = ix.expert_demos("point-maze")
learn_key, train_key, judge_key = jax.random.split(jax.random.key(0), 3)

# g(s) + γh(s') − h(s): h is rich and takes what belongs to these dynamics; g is a bowl, minus a squared distance that
# is learned, which extrapolates well in a room. A fifth of the episodes begin at random, and show where nobody goes.
airl = ix.AIRL(
    reward=ix.RewardNet(over="s", quadratic=True, width=8, depth=0),
    potential=ix.RewardNet(over="s", width=64, depth=2),
    rounds=ix.Rounds(num=options.rounds, episodes=options.episodes, explore=0.2),
)
fit = airl.fit(here, demos, key=learn_key)

# The demonstrator's model, temperature 1, for the reward that was learned with it; many begin at random here, too.
learner = ix.rl.PPO(temperature=1.0, explore=0.3)
moved = learner.train(there, reward=fit.transferable_reward, steps=options.steps, key=train_key)

# The mazes are mirror images: what was demonstrated in one could be had in the other.
print(f"{'demonstrations':50} {demos.returns.mean():8.1f}")
for name, env, policy in (
    ("where it was learned: the policy", here, fit.policy),
    ("wall moved: the same policy", there, fit.policy),
    ("wall moved: a new policy for the learned reward", there, moved.policy),
):
    print(f"{name:50} {ix.evaluate(env, policy, num=100, key=judge_key).mean():8.1f}")
