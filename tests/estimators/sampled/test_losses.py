"""The objectives of dynamics-free estimators against the exact core, with exact expectations for samples."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.optimize
import scipy.special

import irlax as ix
from irlax.estimators.sampled import losses
from irlax.estimators.sampled.gan_gcl import GANGCL
from irlax.estimators.sampled.gcl import GCL, Samples
from irlax.estimators.sampled.steps import Steps, draw
from tests.estimators.sampled import exact
from tests.oracles import feature_expectations, path_law
from tests.oracles import plan as oracle_plan
from tests.problems import A, S, T, as_mdp, assert_equal, random_policy, random_problem, random_reward

#: One program each, instead of one for every operation in it.
balance, classification_loss, effective_share, importance_loss, log_mixture, matching_loss = map(
    jax.jit,
    (
        losses.balance,
        losses.classification_loss,
        losses.effective_share,
        losses.importance_loss,
        losses.log_mixture,
        losses.matching_loss,
    ),
)
tempering = jax.jit(losses.tempering, static_argnames="least")


@pytest.fixture(autouse=True)
def _in_double_precision():
    with jax.enable_x64(True):
        yield


def weighted(seed, size=7):
    """Numbers, and weights of which one is zero."""
    rng = np.random.default_rng(seed)
    weight = rng.exponential(size=size)
    weight[2] = 0.0
    return rng.normal(size=size), weight


# Formulas.


def test_classification_is_cross_entropy():
    (expert, expert_weight), (ours, our_weight) = weighted(0), weighted(1, 5)
    d_expert, d_ours = 1 / (1 + np.exp(-expert)), 1 / (1 + np.exp(-ours))
    expected = -np.average(np.log(d_expert), weights=expert_weight) - np.average(np.log(1 - d_ours), weights=our_weight)
    assert_equal(classification_loss(*map(jnp.asarray, (expert, ours, expert_weight, our_weight))), expected)


def test_matching_is_a_difference_of_means():
    (expert, expert_weight), (ours, our_weight) = weighted(2), weighted(3, 5)
    expected = np.average(ours, weights=our_weight) - np.average(expert, weights=expert_weight)
    assert_equal(matching_loss(*map(jnp.asarray, (expert, ours, expert_weight, our_weight))), expected)


@pytest.mark.parametrize("temper", [0.0, 0.4, 1.0])
def test_importance_weights_are_self_normalised(temper):
    (expert, expert_weight), (ours, our_weight) = weighted(4), weighted(5, 6)
    log_proposal = np.random.default_rng(6).normal(size=6)

    def loss(expert, ours):
        proposal, *weights = map(jnp.asarray, (log_proposal, expert_weight, our_weight))
        return importance_loss(expert, ours, proposal, *weights, temper=temper)

    gradient = jax.grad(loss, argnums=(0, 1))(jnp.asarray(expert), jnp.asarray(ours))
    ratio = our_weight * np.exp(ours - log_proposal) ** temper
    assert_equal(gradient[0], -expert_weight / expert_weight.sum())
    assert_equal(gradient[1], ratio / ratio.sum())


def test_effective_share_is_that_of_kish():
    log_weight = np.random.default_rng(7).normal(size=6)
    w = np.exp(log_weight)
    assert_equal(effective_share(jnp.asarray(log_weight), jnp.ones(6)), w.sum() ** 2 / (6 * (w**2).sum()))
    # A given weight of three is three samples, one of zero is none, and even weights are worth all of them.
    repeated = np.repeat(log_weight, [3, 1, 1, 0, 1, 1])
    w = np.exp(repeated)
    share = effective_share(jnp.asarray(log_weight), jnp.array([3.0, 1, 1, 0, 1, 1]))
    assert_equal(share, w.sum() ** 2 / (7 * (w**2).sum()))
    assert_equal(effective_share(jnp.full(6, -700.0), jnp.array([3.0, 1, 1, 0, 1, 1])), 1.0)


def test_log_mixture_is_the_log_of_a_mixture():
    rng = np.random.default_rng(8)
    log_densities, shares = rng.normal(size=(3, 5)), np.array([0.5, 0.5, 0.0])
    with np.errstate(divide="ignore"):
        log_shares = np.log(shares)
    assert_equal(
        log_mixture(jnp.asarray(log_densities), jnp.asarray(log_shares)), np.log(shares @ np.exp(log_densities))
    )


def test_balance_classifies_best():
    (expert, expert_weight), (ours, our_weight) = weighted(9), weighted(10, 5)

    def loss(constant):
        one, other = np.log1p(np.exp(-(expert - constant))), np.log1p(np.exp(ours - constant))
        return np.average(one, weights=expert_weight) + np.average(other, weights=our_weight)

    best = scipy.optimize.minimize_scalar(loss, bracket=(-5, 5), tol=1e-12).x
    np.testing.assert_allclose(balance(*map(jnp.asarray, (expert, ours, expert_weight, our_weight))), best, atol=1e-6)


def test_tempering_leaves_the_share_that_was_asked_for():
    log_weight, weight = (jnp.asarray(array) for array in weighted(11, 40))
    log_weight = 5 * log_weight
    powers = [float(tempering(log_weight, weight, least)) for least in (0.2, 0.5, 0.9)]
    assert 1 > powers[0] > powers[1] > powers[2] > 0
    shares = [float(effective_share(power * log_weight, weight)) for power in powers]
    np.testing.assert_allclose(shares, [0.2, 0.5, 0.9], atol=1e-4)
    assert float(tempering(log_weight, weight, 0.0)) == 1.0
    assert float(tempering(jnp.zeros(40), weight, 0.9)) == 1.0


def test_huge_logits_stay_finite():
    huge, ones = jnp.array([-1e6, 1e6, 3.0]), jnp.array([1.0, 1.0, 0.0])
    far = jnp.array([1e5, -1e5, 0.0])
    values_and_slopes = [
        jax.value_and_grad(lambda x: classification_loss(x, x, ones, ones))(huge),
        jax.value_and_grad(lambda x: importance_loss(x, x, far, ones, ones))(huge),
        balance(huge, far, ones, ones),
        tempering(huge, ones, 0.9),
        log_mixture(jnp.stack([huge, far]), jnp.array([0.0, -jnp.inf])),
    ]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(values_and_slopes))


def test_rows_without_weight_do_not_count():
    (expert, expert_weight), (ours, our_weight) = weighted(12), weighted(13)
    for loss in (classification_loss, matching_loss, balance):
        seen = [
            loss(jnp.asarray(expert), jnp.asarray(ours).at[2].set(x), expert_weight, our_weight) for x in (0.0, 9.0)
        ]
        assert_equal(seen[0], seen[1])
    for x in (0.0, 9.0):
        share = effective_share(jnp.asarray(ours).at[2].set(x), jnp.asarray(our_weight))
        assert_equal(share, effective_share(jnp.asarray(ours), jnp.asarray(our_weight)))
        slope = jax.grad(lambda r, x=x: importance_loss(r, r, jnp.zeros(7).at[2].set(-x), expert_weight, our_weight))
        assert slope(jnp.asarray(expert))[2] == 0


def test_rows_are_drawn_by_their_weights():
    weight = np.array([0.0, 1.0, 0.0, 2.0, 1.0, 0.0])
    rows = Steps(jnp.arange(6.0)[:, None], jnp.arange(6), jnp.arange(6.0)[:, None], jnp.asarray(weight), jnp.ones(6))
    drawn = draw(rows, 4000, key=jr.key(0))
    share = np.bincount(drawn.action, minlength=6) / 4000
    assert (share[weight == 0] == 0).all() and (drawn.weight == 1).all()
    # Five standard deviations of a share of a half among 4,000.
    np.testing.assert_allclose(share, weight / 4, atol=5 * 0.5 / np.sqrt(4000))


# The discriminator's gradient (Primer, 4.4).


def gradients(nature, discount, *, discounted):
    """−2 ∇ of AIRL's loss per episode at the soft-optimal policy, and the features of expert − model."""
    problem = random_problem(3, nature, discount=discount)
    mdp, expert = as_mdp(problem), random_policy(problem, 5)
    features = np.random.default_rng(4).normal(size=(S, A, 2))
    theta = np.array([0.7, -0.4])
    rows, chance = exact.all_paths(problem)
    q, value = oracle_plan("soft", problem, features @ theta)
    ours = np.exp(q - value[..., None])
    laws = [chance * np.exp(exact.log_chance_of_choices(rows, np.log(policy))) for policy in (expert, ours)]
    steps = (np.broadcast_to(np.arange(T), (len(rows), T)), rows[:, :-1:2], rows[:, 1::2])
    powers = discount ** np.arange(T) if discounted else np.ones(T)

    def loss(theta):
        # f_θ is the soft advantage of r_θ at every time; V_T = 0.
        f = ix.soft_plan(mdp, jnp.asarray(features) @ theta).log_policy[steps]
        logits = f - jax.lax.stop_gradient(f)
        return classification_loss(logits, logits, laws[0][:, None] * powers, laws[1][:, None] * powers)

    gap = feature_expectations(problem, expert, features) - feature_expectations(problem, ours, features)
    return -2 * powers.sum() * jax.grad(loss)(jnp.asarray(theta)), gap


@pytest.mark.parametrize(("nature", "discount"), [("deterministic", 1.0), ("stochastic", 0.9)])
def test_the_discriminators_gradient_is_that_of_the_likelihood(nature, discount):
    """−2∇L_D = ∇L where f is the soft advantage and π soft-optimal; discounted steps carry it over to γ < 1.

    With f the advantage itself, and not r + γV(s') − V(s) of what happened, dynamics may be stochastic too.
    """
    assert_equal(*gradients(nature, discount, discounted=True))


def test_undiscounted_steps_follow_another_gradient():
    """The Primer's conclusion: the discriminator of published AIRL is aligned with MCE IRL at γ = 1 only."""
    slope, gap = gradients("deterministic", 0.5, discounted=False)
    assert np.abs(slope - gap).max() > 0.1
    slope, gap = gradients("deterministic", 0.5, discounted=True)
    assert_equal(slope, gap)


# Fixed points, with exact expectations and exact planning.


@functools.cache
def stationary():
    """An MDP without a horizon, and the soft-optimal policy of a random reward as the expert."""
    problem = random_problem(0, horizon=None)
    mdp = as_mdp(problem)
    return mdp, ix.soft_plan(mdp, random_reward(0))


def test_airl_ends_at_the_experts_advantage():
    mdp, expert = stationary()
    expert_visits = jnp.asarray(ix.visits(mdp, expert))
    start = jnp.zeros((S, A))
    f, slope = exact.alternated(exact.table_loss, lambda f: f, mdp, expert_visits, start, rate=1.0, num=4000)
    assert exact.largest(slope) < 1e-10
    np.testing.assert_allclose(f, expert.log_policy, atol=1e-7)
    np.testing.assert_allclose(ix.soft_plan(mdp, np.asarray(f)).policy, expert.policy, atol=1e-7)


def test_mce_from_samples_ends_where_mce_irl_does():
    """State-only rewards, and an expert whom none of them explains: the closest is the same one for both."""
    problem = random_problem(1, discount=0.5, horizon=None)
    mdp, expert = as_mdp(problem), random_policy(problem, 2, stationary=True)
    fit = ix.MCEIRL().fit(mdp, ix.LinearReward(np.eye(S)), expert)
    expert_visits = jnp.asarray(ix.visits(mdp, expert))
    arguments = (exact.moment_loss, lambda reward: reward, mdp, expert_visits)
    _, slope = exact.alternated(*arguments, jnp.asarray(fit.reward.weights), rate=1.0, num=0)
    # Means over steps, where the gap sums over them.
    np.testing.assert_allclose(slope, -fit.feature_gap * (1 - 0.5), atol=1e-10)
    assert exact.largest(slope) < 1e-6
    reward, slope = exact.alternated(*arguments, jnp.zeros(S), rate=10.0, num=2000)
    assert exact.largest(slope) < 1e-10
    policy = ix.soft_plan(mdp, np.asarray(reward)).policy
    np.testing.assert_allclose(policy, fit.policy, atol=1e-5)
    assert exact.variation(policy, expert).max() > 0.05


# Whole paths.


def path_problem(nature, initial, discount=1.0):
    problem = random_problem(2, nature, discount=discount)._replace(initial=np.asarray(initial))
    return problem, *exact.all_paths(problem)


def gcl_slope(problem, paths, expert_chance, reward, proposal):
    """The gradient of GCL's own loss over rewards [S, A], all paths being drawn in proportion to π = `proposal`."""
    rows, chance = paths
    log_proposal = exact.log_chance_of_choices(rows, np.log(proposal))
    drawn = exact.episodes_of(problem, rows, chance * np.exp(log_proposal))
    expert = exact.episodes_of(problem, rows, expert_chance)
    pool = jax.tree.map(lambda ours, theirs: jnp.concatenate([ours, theirs]), drawn, expert)
    # The expert's paths stand at the end of the pool, but only the others are samples here.
    weight = jnp.concatenate([drawn.weight[:, 0], jnp.zeros(len(rows))])
    samples = Samples(pool, jnp.tile(jnp.asarray(log_proposal), 2), weight)
    return slope_of(GCL(penalty=0.0, least_share=0.0), exact.Table(jnp.asarray(reward)), (samples, expert))[1].table


@eqx.filter_jit
def slope_of(estimator, reward, seen):
    """The value of an estimator's own loss, and its gradient."""
    return eqx.filter_value_and_grad(lambda reward: estimator.loss(reward, seen, rate=1.0, key=jr.key(0))[0])(reward)


@pytest.mark.parametrize("seed", range(3))
def test_gcl_follows_the_law_of_paths_whatever_it_samples_from(seed):
    problem, *paths = path_problem("deterministic", [1.0, 0.0, 0.0])
    reward, mdp = random_reward(seed), as_mdp(problem)
    expert = paths[1] * np.exp(exact.log_chance_of_choices(paths[0], np.log(random_policy(problem, seed))))
    slopes = [gcl_slope(problem, paths, expert, reward, random_policy(problem, other)) for other in (5, 6)]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=1e-12)
    law = path_law(problem, reward, tilt_start=False)
    model = exact.visits_of(problem, paths[0], np.array([law[tuple(path)] for path in paths[0].tolist()]))
    np.testing.assert_allclose(-slopes[0], exact.visits_of(problem, paths[0], expert) - model, atol=1e-12)
    for plan in (ix.soft_plan(mdp, reward), ix.path_plan(mdp, reward)):
        np.testing.assert_allclose(ix.visits(mdp, plan), model, atol=1e-12)


def test_gcl_believes_that_starts_are_chosen_too():
    """Lemma "ME IRL" asks for one start: with several, paths of high return bring them along."""
    problem, *paths = path_problem("deterministic", [0.5, 0.3, 0.2])
    reward = random_reward(0)
    expert = paths[1] * np.exp(exact.log_chance_of_choices(paths[0], np.log(random_policy(problem, 0))))
    slope = gcl_slope(problem, paths, expert, reward, random_policy(problem, 5))
    laws = [path_law(problem, reward, tilt_start=tilt) for tilt in (True, False)]
    chances = [np.array([law[tuple(path)] for path in paths[0].tolist()]) for law in laws]
    models = [exact.visits_of(problem, paths[0], chance) for chance in chances]
    np.testing.assert_allclose(-slope, exact.visits_of(problem, paths[0], expert) - models[0], atol=1e-12)
    assert np.abs(models[0] - models[1]).max() > 0.04


def gan_slope(problem, paths, chances, log_policy, reward):
    """GAN-GCL's own loss and its gradient at a reward [S] or [S, A], for the `chances` of expert and policy."""
    rows = paths[0]
    log_density = jnp.asarray(exact.log_chance_of_choices(rows, log_policy))
    seen = tuple((exact.episodes_of(problem, rows, chance), log_density) for chance in chances)
    loss, slope = slope_of(GANGCL(penalty=0.0, spread=1e6), exact.Table(jnp.asarray(reward)), seen)
    return loss, slope.table


def test_gan_gcl_rests_where_gcl_does():
    """D = 1/2 on every path, so that the loss is log 4, and nothing pulls: at the expert's reward and policy."""
    problem, *paths = path_problem("deterministic", [1.0, 0.0, 0.0])
    reward = random_reward(1)
    policy = ix.soft_plan(as_mdp(problem), reward).policy
    chance = paths[1] * np.exp(exact.log_chance_of_choices(paths[0], np.log(policy)))
    loss, slope = gan_slope(problem, paths, (chance, chance), np.log(policy), reward)
    np.testing.assert_allclose(loss, np.log(4), rtol=1e-9)
    np.testing.assert_allclose(slope, 0, atol=1e-9)
    np.testing.assert_allclose(gcl_slope(problem, paths, chance, reward, policy), 0, atol=1e-12)
    elsewhere = gan_slope(problem, paths, (chance, chance), np.log(policy), reward + np.eye(S, A))
    assert elsewhere[0] > np.log(4) + 1e-3 and np.abs(elsewhere[1]).max() > 1e-3


# Stochastic dynamics: the law of paths takes luck for skill.


def risky_path():
    return ix.envs.complete(ix.envs.RiskyPath().mdp, np.array([0.0, 0.0, 1.0, -1.0]))


def slippery_grid():
    grid = ix.envs.Gridworld(["S..", ".X.", "..G"], slip=0.3, goal_reward=2.0, hazard_reward=-2.0)
    return grid.mdp, grid.reward


@pytest.mark.parametrize("make", [risky_path, slippery_grid])
def test_whole_paths_misjudge_how_strongly_an_expert_prefers(make):
    """The reward is known but for its scale, which is 1: MCE finds it, GCL and GAN-GCL take the expert for weaker."""
    problem = exact.plain(make()[0])._replace(discount=1.0, horizon=3)
    mdp, truth, paths = as_mdp(problem), make()[1], exact.all_paths(problem)

    def law(scale):
        log_policy = np.log(ix.soft_plan(mdp, scale * truth).policy)
        return log_policy, paths[1] * np.exp(exact.log_chance_of_choices(paths[0], log_policy))

    expert = law(1.0)[1]
    even = np.full((3, *problem.available.shape), 1 / problem.num_actions)

    def gcl(scale):
        return gcl_slope(problem, paths, expert, scale * truth, even) @ truth

    def gan(scale):
        log_policy, ours = law(scale)
        return gan_slope(problem, paths, (expert, ours), log_policy, scale * truth)[1] @ truth

    def mce(scale):
        visits = [exact.visits_of(problem, paths[0], chance).sum(axis=1) for chance in (expert, law(scale)[1])]
        return matching_loss(*[jnp.asarray(truth)] * 2, *map(jnp.asarray, visits))

    found = [scipy.optimize.brentq(slope, 0.05, 2.0, xtol=1e-12) for slope in (mce, gcl, gan)]
    np.testing.assert_allclose(found[0], 1.0, atol=1e-5)
    assert max(found[1:]) < 0.5
    if make is risky_path:
        # The expert is safe with odds of e, and earns 1 then, else 2 or −2, as luck has it.
        x = np.exp(found[1])
        assert_equal((x + x**2 - x**-2) / (x + x**2 / 2 + x**-2 / 2), 1 / (1 + np.exp(-1)))


def test_state_only_airl_is_biased_on_a_slippery_grid_and_mce_from_samples_is_not():
    mdp, truth = slippery_grid()
    expert = ix.soft_plan(mdp, truth)
    visits = jnp.asarray(ix.visits(mdp, expert))
    start = jnp.zeros(9)
    airl, airl_slope = exact.alternated(
        exact.shaped_loss, lambda parts: parts[0], mdp, visits, (start, start), rate=5.0, num=2000
    )
    mce, mce_slope = exact.alternated(exact.moment_loss, lambda reward: reward, mdp, visits, start, rate=2.0, num=4000)
    assert exact.largest((airl_slope, mce_slope)) < 1e-8
    apart = [exact.variation(ix.soft_plan(mdp, np.asarray(reward)).policy, expert.policy) for reward in (mce, airl[0])]
    assert apart[0].max() < 1e-5
    assert apart[1].max() > 0.15
