"""What estimators share in continuous control over long episodes: their learner, and what bounds their rewards."""

from typing import Any

import jax
import jax.random as jr

from irlax.envs.environment import AbstractEnvironment
from irlax.estimators.sampled.losses import half_square
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.steps import Steps
from irlax.rewards import ObservedReward, RewardNet
from irlax.rl.sac import SAC
from irlax.spaces import Box
from irlax.typing import Array, Float, PRNGKeyArray

#: As many gradient steps as steps, and an entropy that no reward can take away.
LEARNER = SAC(
    temperature=1.0,
    keep_entropy=True,
    num_envs=16,
    length=2,
    updates=32,
    batch_size=256,
    capacity=1_000_000,
    warmup=1,
    learning_rate=3e-4,
    tau=0.005,
    width=256,
    explore=0.0,
)
#: 307,200 steps.
ROUNDS = Rounds(num=600, steps=512, tol=0.0)
#: More rounds than any replay holds.
WHOLE_REPLAY = 1_000_000
#: Episodes in JAX that are longer than this are control, too.
LONG = 500


def control_settings(**own: Any) -> dict[str, Any]:
    """Settings that all methods share, and those of one of them."""
    shared = {
        "reward": RewardNet(width=128),
        "learner": LEARNER,
        "rounds": ROUNDS,
        "discounted": False,
        "penalty": 0.1,
        "keep_penalty": True,
        "smoothness": 0.005,
        "updates": 25,
        "batch_size": 256,
        "learning_rate": 1e-3,
    }
    return shared | own


def is_control(env: Any) -> bool:
    """Whether an environment has continuous actions, and is one of Gymnasium or has long episodes."""
    if not isinstance(env.actions, Box):
        return False
    return not isinstance(env, AbstractEnvironment) or env.horizon > LONG


def regularisation(
    estimator: Any, reward: Any, steps: tuple[Steps, Steps], rewards: tuple[Array, Array], *, rate: Any, key: Any
) -> Float[Array, ""]:
    r"""$\tfrac{c}{2}\mathbb{E}[r^2] + \tfrac{\kappa n}{2}\mathbb{E}\|\nabla r\|^2$ over steps of expert and policy.

    c is the estimator's `penalty`, which falls to 0 with `rate` unless `keep_penalty`, κ its `smoothness`, and n the
    number of inputs.
    """
    expert, policy = steps
    weight = estimator.penalty * (1.0 if estimator.keep_penalty else rate)
    loss = weight * half_square(*rewards, expert.weight, policy.weight)
    if estimator.smoothness:
        loss += estimator.smoothness * half_square_slope(reward, expert, policy, key=key)
    return loss


def half_square_slope(reward: Any, expert: Steps, policy: Steps, *, key: PRNGKeyArray) -> Float[Array, ""]:
    """½ n E‖∇r‖² between steps of the expert and the policy, by the n numbers that the network reads.

    The gradient penalty of Gulrajani et al. (2017), for slopes over root mean square distances. Over the usual ones
    single steps are the farther apart the more numbers there are, so that the same slope lets a network with many
    inputs learn single demonstrated steps by heart.
    """
    if not isinstance(reward, ObservedReward):
        raise TypeError(
            f"`smoothness` needs a reward that is a network of observations, but this is a {type(reward).__name__}: "
            f"say smoothness=0."
        )

    def slope(expert: Steps, policy: Steps, share: Array) -> Array:
        both = [reward.inputs(each.observation, each.action, each.next_observation) for each in (expert, policy)]
        between = share * both[0] + (1 - share) * both[1]
        gradient = jax.grad(reward.of_inputs)(between, expert.action)
        return len(between) * gradient @ gradient

    num = min(len(expert.weight), len(policy.weight))
    one, other = (jax.tree.map(lambda array: array[:num], each) for each in (expert, policy))
    return jax.vmap(slope)(one, other, jr.uniform(key, (num,))).mean() / 2
