"""Every numbered result of the Primer, in its order, as something that runs.

A. Gleave and S. Toyer, "A Primer on Maximum Causal Entropy Inverse Reinforcement Learning". Claims of the running text
stand where the text makes them. Where it has a slip, the test says what is right.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import irlax as ix
from irlax.analysis import linked
from tests import oracles
from tests.problems import as_mdp, random_policy, random_problem, random_reward

FEATURES = np.random.default_rng(0).normal(size=(3, 2, 2))
THETA = np.array([0.8, -0.5])


def world(seed=0, nature="stochastic", **options):
    problem = random_problem(seed, nature, **options)
    return problem, as_mdp(problem)


def returns_of(law, reward, discount):
    """Σ_τ p(τ) · return(τ)."""
    return sum(p * oracles.discounted_return(path, reward, discount) for path, p in law)


# Section 2: background.


def test_definition_2_1_an_mdp_and_the_probability_of_its_trajectories():
    problem, mdp = world(horizon=3)
    policy = random_policy(problem, 0)
    law = list(oracles.paths(problem, policy))
    np.testing.assert_allclose(sum(p for _, p in law), 1)
    reward = oracles.full_reward(problem, random_reward(0, "sas"))
    np.testing.assert_allclose(ix.expected_return(mdp, policy, reward), returns_of(law, reward, 0.9))


def test_section_2_2_matched_features_give_equal_return_under_the_unknown_reward():
    problem, mdp = world(1)
    expert = random_policy(problem, 0)
    fit = ix.MCEIRL(tol=1e-10).fit(mdp, ix.LinearReward(FEATURES), expert)
    assert np.abs(fit.policy - expert).max() > 0.01
    for theta in np.random.default_rng(1).normal(size=(5, 2)):
        truth = FEATURES @ theta
        np.testing.assert_allclose(
            ix.expected_return(mdp, fit.policy, truth), ix.expected_return(mdp, expert, truth), atol=1e-8
        )


def test_section_2_3_every_policy_with_the_same_features_has_the_same_log_loss():
    """The game behind maximum entropy: against the MCE policy no consistent adversary does better than another."""
    _, mdp = world(2)
    expert = 0.5 * ix.soft_plan(mdp, FEATURES @ THETA).policy + 0.25
    fit = ix.MCEIRL(tol=1e-11).fit(mdp, ix.LinearReward(FEATURES), expert)
    losses = [-(ix.occupancy(mdp, policy) * np.log(fit.policy)).sum() for policy in (expert, fit.policy)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-9)
    np.testing.assert_allclose(losses[1], ix.causal_entropy(mdp, fit.policy), rtol=1e-9)
    # And the expert's own entropy is no larger: the MCE policy is the most uncertain of them.
    assert ix.causal_entropy(mdp, expert) < losses[1]


def test_definition_2_2_causal_entropy_is_the_discounted_sum_of_policy_entropies():
    problem, mdp = world(3, horizon=3)
    policy = random_policy(problem, 1)
    literal = -sum(
        p * sum(0.9**t * np.log(policy[t, path[2 * t], path[2 * t + 1]]) for t in range(3))
        for path, p in oracles.paths(problem, policy)
    )
    np.testing.assert_allclose(ix.causal_entropy(mdp, policy), literal, rtol=1e-12)


@pytest.mark.parametrize("nature", ["stochastic", "deterministic"])
def test_remark_2_1_trajectory_entropy_is_transition_entropy_plus_causal_entropy(nature):
    problem, mdp = world(4, nature, discount=1.0, horizon=3)
    policy = random_policy(problem, 2)
    law = oracles.decision_law(problem, policy)
    shannon = -sum(p * np.log(p) for p in law.values())
    parts = ix.transition_entropy(mdp, policy) + ix.causal_entropy(mdp, policy)
    np.testing.assert_allclose([ix.trajectory_entropy(mdp, policy), parts], shannon, rtol=1e-10)
    # Later states tell something about earlier actions.
    assert ix.conditional_entropy(mdp, policy) <= ix.causal_entropy(mdp, policy) + 1e-12
    if nature == "deterministic":
        # The text forgets the start: transition entropy is zero only if that is deterministic, too.
        assert ix.transition_entropy(mdp, policy) > 0.1
        assert abs(ix.transition_entropy(mdp.replace(initial=np.eye(3)[0]), policy)) < 1e-12


# Section 3: maximum causal entropy IRL.


def lagrangian(problem, policy, theta, matched):
    """Λ(π, θ) = H + θᵀ(E_π Σγᵗφ − matched), differentiable in a policy that need not be normalised."""
    mass, entropy, features = problem.initial, 0.0, 0.0
    for t in range(problem.horizon):
        joint = mass[:, None] * policy[t]
        entropy -= problem.discount**t * (joint * jnp.log(policy[t])).sum()
        features += problem.discount**t * jnp.einsum("sa,sak->k", joint, FEATURES)
        mass = jnp.einsum("sa,sax->x", joint, problem.transitions)
    return entropy + theta @ (features - matched)


def test_problems_3_1_and_3_2_the_dual_minimum_is_the_entropy_of_the_matched_policy():
    _, mdp = world(5)
    expert = 0.5 * ix.soft_plan(mdp, FEATURES @ THETA).policy + 0.25
    matched = ix.feature_expectations(mdp, expert, FEATURES)
    fit = ix.MCEIRL(tol=1e-11).fit(mdp, ix.LinearReward(FEATURES), expert)

    def dual(theta):
        return mdp.initial @ ix.soft_plan(mdp, FEATURES @ theta).value[0] - theta @ matched

    best = dual(fit.reward.weights)
    np.testing.assert_allclose(best, ix.causal_entropy(mdp, fit.policy), rtol=1e-9)
    for step in np.random.default_rng(2).normal(size=(8, 2)):
        assert dual(fit.reward.weights + 0.1 * step) > best


def test_problem_3_3_the_soft_plan_attains_the_dual_function():
    problem, mdp = world(6)
    matched = np.array([0.3, -0.2])
    plan = ix.soft_plan(mdp, FEATURES @ THETA)
    with jax.enable_x64(True):
        attained = float(lagrangian(problem, plan.policy, THETA, matched))
        np.testing.assert_allclose(attained, mdp.initial @ plan.value[0] - THETA @ matched, rtol=1e-12)
        for seed in range(8):
            assert float(lagrangian(problem, random_policy(problem, seed), THETA, matched)) < attained


def lemma_3_1(problem, policy, theta):
    """The right-hand side without μ: −ρ_t(s)(1 + log π − θᵀφ − E[Σ later | s, a])."""
    horizon = problem.horizon
    later = np.zeros(problem.num_states)
    inner = np.zeros(policy.shape)
    for t in reversed(range(horizon)):
        inner[t] = FEATURES @ theta + problem.discount * problem.transitions @ later
        later = (policy[t] * (inner[t] - np.log(policy[t]))).sum(axis=-1)
    mass, slope = problem.initial, np.zeros(policy.shape)
    for t in range(horizon):
        rho = problem.discount**t * mass
        slope[t] = -rho[:, None] * (1 + np.log(policy[t]) - inner[t])
        mass = np.einsum("sa,sax->x", mass[:, None] * policy[t], problem.transitions)
    return slope


def test_lemma_3_1_the_gradient_of_the_lagrangian():
    """The exponent in the entropy's derivative is γ^{t'}, where the text prints γᵗ."""
    problem, _ = world(7, horizon=3)
    policy = random_policy(problem, 3)
    with jax.enable_x64(True):
        by_autodiff = jax.grad(lambda policy: lagrangian(problem, policy, THETA, np.zeros(2)))(jnp.asarray(policy))
    np.testing.assert_allclose(by_autodiff, lemma_3_1(problem, policy, THETA), rtol=1e-10)


def test_lemma_3_2_soft_value_iteration_satisfies_the_kkt_conditions():
    """With V_T = 0, so Q_{T−1} = r: the recursion's last line prints T for T−1."""
    problem, mdp = world(8, horizon=3)
    plan = ix.soft_plan(mdp, FEATURES @ THETA)
    slope = lemma_3_1(problem, plan.policy, THETA)
    # ∂Λ + μ_s = 0 for all actions of a state: the gradient is the same along them.
    np.testing.assert_allclose(slope[..., 0], slope[..., 1], rtol=1e-9)
    np.testing.assert_allclose(plan.q[-1], FEATURES @ THETA, rtol=1e-12)
    np.testing.assert_allclose(plan.policy.sum(axis=-1), 1, rtol=1e-12)


def test_remark_3_1_actions_have_probability_exponential_in_the_soft_advantage():
    _, mdp = world(9)
    plan = ix.soft_plan(mdp, FEATURES @ THETA)
    np.testing.assert_allclose(np.exp(plan.q - plan.value[..., None]), plan.policy, rtol=1e-12)
    np.testing.assert_allclose(np.log(np.exp(plan.q).sum(axis=-1)), plan.value, rtol=1e-12)


def test_algorithm_1_dual_ascent_matches_features():
    _, mdp = world(10)
    expert = ix.soft_plan(mdp, FEATURES @ THETA)
    fit = ix.MCEIRL(solver=ix.DualAscent(step_size=0.5)).fit(mdp, ix.LinearReward(FEATURES), expert)
    assert fit.converged
    np.testing.assert_allclose(fit.reward.weights, THETA, atol=1e-6)


def test_definition_3_1_the_discounted_likelihood():
    problem, mdp = world(11, horizon=3)
    plan = ix.soft_plan(mdp, FEATURES @ THETA)
    demos = ix.rollout(mdp, plan, num=4, key=jax.random.key(0))
    found = ix.trajectory_log_likelihood(mdp, plan, demos)
    for k in range(4):
        rows = slice(demos.offsets[k], demos.offsets[k + 1])
        likelihood = problem.initial[demos.states[rows][0]]
        for t, (s, a, after) in enumerate(
            zip(demos.states[rows], demos.actions[rows], demos.next_states[rows], strict=True)
        ):
            likelihood *= problem.transitions[s, a, after] * plan.policy[t, s, a] ** (0.9**t)
        np.testing.assert_allclose(found[k], np.log(likelihood), rtol=1e-12)


def test_lemma_3_3_expected_likelihood_and_dual_have_opposite_gradients():
    """V₀ stands under an expectation over the demonstrator's start, which Eq. (43) leaves out."""
    _, mdp = world(12)
    expert = ix.occupancy(mdp, 0.5 * ix.soft_plan(mdp, FEATURES @ THETA).policy + 0.25)

    def likelihood(theta):
        return (expert * ix.soft_plan(mdp, FEATURES @ theta).log_policy).sum()

    def dual(theta):
        matched = jnp.einsum("tsa,sak->k", expert, FEATURES)
        return mdp.initial @ ix.soft_plan(mdp, FEATURES @ theta).value[0] - theta @ matched

    with jax.enable_x64(True):
        for theta in np.random.default_rng(3).normal(size=(4, 2)):
            rising, falling = (np.asarray(jax.grad(f)(jnp.asarray(theta))) for f in (likelihood, dual))
            np.testing.assert_allclose(rising, -falling, atol=1e-10)


def test_lemma_3_4_with_deterministic_dynamics_paths_are_weighted_by_their_exponential_return():
    """At γ < 1 the formula holds, but Z = exp V₀ normalises at γ = 1 only."""
    for discount, total in ((1.0, 1.0), (0.5, None)):
        problem, mdp = world(13, "deterministic", discount=discount, horizon=3)
        problem = problem.starting_in(0)
        mdp = mdp.replace(initial=problem.initial)
        reward = random_reward(1)
        plan = ix.soft_plan(mdp, reward)
        weights = []
        for path, _ in oracles.paths(problem, plan.policy):
            density = np.prod([plan.policy[t, path[2 * t], path[2 * t + 1]] ** (discount**t) for t in range(3)])
            earned = oracles.discounted_return(path, oracles.full_reward(problem, reward), discount)
            np.testing.assert_allclose(density, np.exp(earned - plan.value[0, 0]), rtol=1e-10)
            weights.append(density)
        if total is None:
            assert abs(sum(weights) - 1) > 0.1
        else:
            np.testing.assert_allclose(sum(weights), total, rtol=1e-10)


def test_section_3_3_maximum_entropy_believes_more_than_the_dynamics_allow():
    env = ix.envs.RiskyPath(discount=1.0, horizon=6)
    plan = ix.path_plan(env.mdp, env.reward)
    believed, real = (f(env.mdp, plan)[1:].sum(axis=-1) for f in (ix.believed_occupancy, ix.occupancy))
    gamble = plan.policy[0, 0, env.RISKY]
    assert believed[0, 2] > 0.999 * gamble
    np.testing.assert_allclose(real[0, [2, 3]], gamble / 2, rtol=1e-10)


def test_section_3_3_risky_path_turns_risky_for_large_discounts():
    """The text says "sufficiently small": it is for γ > log 2 that the path model prefers the risk."""
    for discount in (0.1, 0.5, 0.69, 0.7, 0.9, 0.99):
        env = ix.envs.RiskyPath(discount=discount)
        assert (ix.path_plan(env.mdp, env.reward).policy[0, env.RISKY] > 0.5) == (discount > np.log(2))
        assert ix.soft_plan(env.mdp, env.reward).policy[0, env.RISKY] < 0.5
        assert ix.hard_plan(env.mdp, env.reward).policy[0, env.SAFE] == 1


# Section 4: dynamics-free approximations.


def soft_sweep(mdp, reward, value):
    dense = mdp.dynamics.to_dense()
    return np.log(np.exp(reward + float(mdp.discount) * dense @ value).sum(axis=-1))


def test_section_4_1_soft_value_iteration_contracts_by_the_discount():
    mdp = ix.envs.RandomMDP(5, 3, discount=0.8).mdp
    rng = np.random.default_rng(0)
    reward = rng.normal(size=(5, 3))
    for _ in range(20):
        one, two = rng.normal(size=(2, 5))
        apart = np.abs(soft_sweep(mdp, reward, one) - soft_sweep(mdp, reward, two)).max()
        assert apart <= 0.8 * np.abs(one - two).max() + 1e-12
    value = ix.soft_plan(mdp, reward).value
    np.testing.assert_allclose(soft_sweep(mdp, reward, value), value, rtol=1e-9)


def test_section_4_2_self_normalised_importance_sampling_gives_the_path_expectation():
    problem, mdp = world(14, "deterministic", discount=1.0, horizon=3)
    reward = oracles.full_reward(problem, FEATURES @ THETA)
    proposal = dict(oracles.paths(problem, random_policy(problem, 4)))
    features = {
        path: oracles.discounted_return(path, oracles.full_reward(problem, FEATURES[..., 0]), 1.0) for path in proposal
    }
    # Given the start, which nobody chooses, the model's law is the soft policy's.
    weight = {
        path: np.exp(oracles.discounted_return(path, reward, 1.0)) * problem.initial[path[0]] / q
        for path, q in proposal.items()
    }
    plan = ix.soft_plan(mdp, FEATURES @ THETA)
    for start in range(3):
        mine = [path for path in proposal if path[0] == start]
        top = sum(proposal[p] * weight[p] * features[p] for p in mine)
        bottom = sum(proposal[p] * weight[p] for p in mine)
        there = mdp.replace(initial=np.eye(3)[start])
        np.testing.assert_allclose(top / bottom, ix.feature_expectations(there, plan, FEATURES)[0], rtol=1e-9)


def discriminator_loss(discriminator, data, generated):
    return -(generated * np.log(1 - discriminator)).sum() - (data * np.log(discriminator)).sum()


def test_section_4_3_the_optimal_discriminator_and_its_loss():
    rng = np.random.default_rng(1)
    for _ in range(5):
        data, generated = rng.dirichlet(np.ones(6), size=2)
        best = data / (data + generated)
        middle = (data + generated) / 2
        jsd = 0.5 * (data * np.log(data / middle)).sum() + 0.5 * (generated * np.log(generated / middle)).sum()
        least = discriminator_loss(best, data, generated)
        np.testing.assert_allclose(least, np.log(4) - 2 * jsd, rtol=1e-12)
        for _ in range(10):
            other = np.clip(best + 0.05 * rng.normal(size=6), 0.01, 0.99)
            assert discriminator_loss(other, data, generated) > least
    np.testing.assert_allclose(discriminator_loss(np.full(6, 0.5), data, data), np.log(4), rtol=1e-12)


def test_section_4_4_1_the_generator_reward_is_f_minus_log_policy():
    f, log_policy = np.random.default_rng(2).normal(size=(2, 10)) - 1
    discriminator = np.exp(f) / (np.exp(f) + np.exp(log_policy))
    np.testing.assert_allclose(np.log(discriminator) - np.log(1 - discriminator), f - log_policy, rtol=1e-10)


def test_section_4_4_1_both_generator_objectives_share_their_fixed_point():
    """At D = ½, where f = log π, each objective is stationary in the policy: no action is better than another."""
    log_policy = np.log(np.random.default_rng(3).dirichlet(np.ones(4)))
    half = np.exp(log_policy) / (np.exp(log_policy) + np.exp(log_policy))
    for objective in (np.log(half), -np.log(1 - half)):
        np.testing.assert_allclose(objective - objective[0], 0, atol=1e-12)


def test_section_4_4_1_the_policy_that_maximises_it_is_the_exponential_of_the_soft_advantage():
    mdp = ix.envs.RandomMDP(4, 3, discount=0.9, seed=1).mdp
    f = np.random.default_rng(4).normal(size=(4, 3))
    plan = ix.soft_plan(mdp, f)

    def objective(policy):
        return ix.expected_return(mdp, policy, f) + ix.causal_entropy(mdp, policy)

    best = objective(plan.policy)
    np.testing.assert_allclose(best, mdp.initial @ plan.value, rtol=1e-9)
    for policy in np.random.default_rng(5).dirichlet(np.ones(3), size=(10, 4)):
        assert objective(0.9 * plan.policy + 0.1 * policy) < best


def test_section_4_4_2_at_the_optimum_f_is_the_soft_advantage():
    """D = ½ everywhere means f = log π_E = A_soft, and that f has the expert's policy for its own soft optimum."""
    mdp = ix.envs.RandomMDP(4, 3, branching=1, discount=0.9, seed=2).mdp
    expert = ix.soft_plan(mdp, np.random.default_rng(6).normal(size=4))
    advantage = expert.q - expert.value[:, None]
    np.testing.assert_allclose(advantage, np.log(expert.policy), rtol=1e-9)
    np.testing.assert_allclose(ix.soft_plan(mdp, advantage).policy, expert.policy, atol=1e-10)


def test_definition_4_1_and_theorem_4_1_shaping_and_scaling_keep_the_optimal_actions_under_all_dynamics():
    rng = np.random.default_rng(7)
    reward, potential = rng.normal(size=(4, 3, 4)), rng.normal(size=4)
    for seed in range(4):
        mdp = ix.envs.RandomMDP(4, 3, discount=0.8, seed=seed).mdp
        assert ix.same_hard_policy(mdp, reward, 2.5 * ix.shape(mdp, reward, potential))
    assert not ix.same_hard_policy(mdp, reward, -reward)


def test_definition_4_2_and_theorem_4_2_shaping_keeps_the_soft_policy_under_all_dynamics():
    """Q' = Q − Φ: the text's proof prints +Φ in the advantage of the shaped reward."""
    rng = np.random.default_rng(8)
    reward, potential = rng.normal(size=(4, 3, 4)), rng.normal(size=4)
    for seed in range(4):
        mdp = ix.envs.RandomMDP(4, 3, discount=0.8, seed=seed).mdp
        shaped = ix.shape(mdp, reward, potential)
        plain, other = ix.soft_plan(mdp, reward), ix.soft_plan(mdp, shaped)
        np.testing.assert_allclose(other.q, plain.q - potential[:, None], atol=1e-9)
        np.testing.assert_allclose(other.policy, plain.policy, atol=1e-10)
        assert ix.same_soft_policy(mdp, reward, shaped)


def test_remark_4_1_rescaling_makes_the_soft_policy_less_or_more_random():
    mdp = ix.envs.RandomMDP(4, 3, discount=0.8).mdp
    reward = np.random.default_rng(9).normal(size=(4, 3))
    entropies = [ix.causal_entropy(mdp, ix.soft_plan(mdp, factor * reward)) for factor in (0.5, 1.0, 2.0)]
    assert entropies[0] > entropies[1] > entropies[2]
    assert not ix.same_soft_policy(mdp, reward, 2 * reward)


def test_theorem_4_3_the_discriminator_gradient_is_the_maximum_entropy_gradient():
    """Finite horizon, so f is indexed by time with V_T = 0; sums run to T−1 (the proof prints T).

    log(1 − D) is log π − log(exp f + π): the text once leaves out the log.
    """
    _, mdp = world(15, "deterministic", discount=1.0, horizon=3)
    expert = ix.occupancy(mdp, ix.soft_plan(mdp, random_reward(3)))

    def advantage(theta):
        return ix.soft_plan(mdp, FEATURES @ theta).log_policy

    def likelihood(theta):
        return (expert * advantage(theta)).sum()

    with jax.enable_x64(True):
        theta = jnp.asarray(THETA)
        policy = ix.soft_plan(mdp, FEATURES @ THETA)
        log_policy, generated = jnp.asarray(policy.log_policy), ix.occupancy(mdp, policy)

        def loss(theta):
            f = advantage(theta)
            norm = jnp.logaddexp(f, log_policy)
            return -(generated * (log_policy - norm)).sum() - (expert * (f - norm)).sum()

        left = -2 * np.asarray(jax.grad(loss)(theta))
        by_time = np.asarray(jax.jacfwd(advantage)(theta))
        right = np.einsum("tsa,tsak->k", expert - generated, by_time)
        np.testing.assert_allclose(left, right, atol=1e-10)
        np.testing.assert_allclose(left, np.asarray(jax.grad(likelihood)(theta)), atol=1e-10)
    features = ix.feature_expectations(mdp, policy, FEATURES)
    np.testing.assert_allclose(left, np.einsum("tsa,sak->k", expert, FEATURES) - features, atol=1e-9)


def test_remark_4_2_away_from_an_advantage_the_gradients_differ():
    _, mdp = world(16, "deterministic", discount=1.0, horizon=3)
    expert = ix.occupancy(mdp, ix.soft_plan(mdp, random_reward(4)))
    policy = ix.soft_plan(mdp, FEATURES @ THETA)
    log_policy, generated = policy.log_policy, ix.occupancy(mdp, policy)
    # f = r instead of its advantage: a reward network in the middle of training.
    f = np.broadcast_to(FEATURES @ THETA, log_policy.shape)
    discriminator = 1 / (1 + np.exp(log_policy - f))
    slope = np.einsum("tsa,sak->k", expert * (1 - discriminator) - generated * discriminator, FEATURES)
    wanted = np.einsum("tsa,sak->k", expert - generated, FEATURES)
    assert np.abs(2 * slope - wanted).max() > 0.05


def test_definition_4_3_decomposability_and_its_examples():
    assert not ix.is_decomposable(ix.envs.TwoStateCycle().mdp)
    assert ix.is_decomposable(ix.envs.TwoStateCycle(self_loops=True).mdp)
    checkerboard = ix.envs.Gridworld.open(4, 4, bump="unavailable").mdp
    assert ix.linked_components(checkerboard).max() == 1
    assert ix.is_decomposable(ix.envs.Gridworld.open(4, 4, bump="unavailable", stay=True).mdp)
    # n-step links: a cell and one two moves away share a predecessor; farther ones of a colour need more links.
    one, two = linked(checkerboard, 1), linked(checkerboard, 2)
    assert one[0, 2] and not one[0, 10] and two[0, 10] and not two[0, 1]


def decomposable_world(seed):
    mdp = ix.envs.RandomMDP(8, 3, branching=1, discount=0.9, seed=seed).mdp
    return mdp if ix.is_decomposable(mdp) else None


def test_theorem_4_4_equal_soft_policies_mean_state_rewards_equal_up_to_a_constant():
    tested = 0
    for seed in range(40):
        mdp = decomposable_world(seed)
        if mdp is None:
            continue
        tested += 1
        reward = np.random.default_rng(seed).normal(size=8)
        found = ix.identify(mdp, ix.TabularReward("s"), ix.soft_plan(mdp, reward))
        assert found.kinds == ("constant",)
    assert tested >= 5
    cycle = ix.envs.TwoStateCycle().mdp
    assert ix.same_soft_policy(cycle, np.array([1.0, 0.0]), np.array([0.0, 1.0]))


def test_lemma_4_1_functions_equal_along_all_transitions_are_equal_up_to_a_constant():
    """a(s) − c(s) = b(s') − d(s') on every transition forces both sides to be one constant, if decomposable."""
    for mdp, expected in (
        (next(filter(None, map(decomposable_world, range(40)))), 1),
        (ix.envs.TwoStateCycle().mdp, 2),
    ):
        size = mdp.num_states
        rows = []
        for s, a in itertools.product(range(size), range(mdp.num_actions)):
            after = int(np.argmax(mdp.dynamics.to_dense()[s, a]))
            rows.append(np.concatenate([np.eye(size)[s], -np.eye(size)[after]]))
        # Unknowns f = a − c and g = b − d; solutions of f(s) = g(s').
        assert 2 * size - np.linalg.matrix_rank(np.array(rows)) == expected


def test_theorem_4_5_at_the_optimum_g_is_the_reward_and_h_the_soft_value_up_to_constants():
    mdp = next(filter(None, map(decomposable_world, range(40))))
    reward = np.random.default_rng(10).normal(size=8)
    expert = ix.soft_plan(mdp, reward)
    rows, advantage = [], []
    for s, a in itertools.product(range(8), range(3)):
        after = int(np.argmax(mdp.dynamics.to_dense()[s, a]))
        # f(s,a,s') = g(s) + γh(s') − h(s) must equal the soft advantage.
        rows.append(np.concatenate([np.eye(8)[s], 0.9 * np.eye(8)[after] - np.eye(8)[s]]))
        advantage.append(np.log(expert.policy[s, a]))
    solution = np.linalg.lstsq(np.array(rows), np.array(advantage), rcond=None)[0]
    np.testing.assert_allclose(np.array(rows) @ solution, advantage, atol=1e-8)
    g, h = solution[:8], solution[8:]
    np.testing.assert_allclose(np.ptp(g - reward), 0, atol=1e-7)
    np.testing.assert_allclose(np.ptp(h - expert.value), 0, atol=1e-7)


def test_remark_4_3_with_random_transitions_no_function_of_s_and_next_s_is_the_advantage():
    mdp = ix.envs.RandomMDP(4, 2, discount=0.9, seed=3).mdp
    expert = ix.soft_plan(mdp, np.random.default_rng(11).normal(size=4))
    # Every s' can follow both actions of s, so f(s, s') cannot tell them apart; their advantages differ.
    assert (mdp.dynamics.to_dense() > 0).all()
    assert np.abs(expert.log_policy[:, 0] - expert.log_policy[:, 1]).min() > 1e-3


def test_conclusion_the_discriminator_departs_from_mce_irl_when_discounted():
    """At γ < 1 AIRL's undiscounted loss has not the gradient of the discounted likelihood, even at an advantage."""
    _, mdp = world(17, "deterministic", discount=0.5, horizon=3)
    expert_policy = ix.soft_plan(mdp, random_reward(5))
    undiscounted = 0.5 ** np.arange(3)[:, None, None]
    policy = ix.soft_plan(mdp, FEATURES @ THETA)
    lacking = (ix.occupancy(mdp, expert_policy) - ix.occupancy(mdp, policy)) / undiscounted
    with jax.enable_x64(True):
        slopes = np.asarray(
            jax.jacfwd(lambda theta: ix.soft_plan(mdp, FEATURES @ theta).log_policy)(jnp.asarray(THETA))
        )
    airl = np.einsum("tsa,tsak->k", lacking, slopes)
    mce = np.einsum("tsa,tsak->k", lacking * undiscounted, slopes)
    cosine = airl @ mce / np.linalg.norm(airl) / np.linalg.norm(mce)
    assert cosine < 0.999
