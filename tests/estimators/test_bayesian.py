"""Bayesian IRL: its draws are the posterior, against quadrature, and it knows how sure it is."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom, kstest, norm, rankdata

import irlax as ix
from irlax.estimators.tabular import BayesianIRL, Laplace, Normal, chains
from irlax.estimators.tabular.chains import Diagnosis, mixing
from irlax.estimators.tabular.pairing import pair_up
from irlax.status import Status, UnfinishedWarning
from tests.problems import A, S, as_mdp, random_problem

#: One set of sizes for most tests: what XLA compiled once serves them all.
SHORT = BayesianIRL(num_chains=2, num_warmup=200, num_samples=1000)
ENDLESS = random_problem(0, horizon=None)
ONE_FEATURE = np.random.default_rng(0).normal(size=(S, A, 1)) / 2
TRUTH = 1.2


def log_policies(problem, rewards):
    """log π of each of many rewards [G, S, A], by backward induction; by 300 sweeps when there is no horizon."""
    value, over_time = np.zeros((len(rewards), S)), []
    for _ in range(problem.horizon or 300):
        q = rewards + problem.discount * np.einsum("sat,gt->gsa", problem.transitions, value)
        value = logsumexp(q, axis=-1)
        over_time.append(q - value[..., None])
    return over_time[-1] if problem.horizon is None else np.stack(over_time[::-1], axis=1)


def log_posterior(problem, features, demos, grid, log_prior, *, discounted=False):
    """Up to a constant, at parameters [G, K]: a loop over episodes of prior plus Σ log π."""
    policies = log_policies(problem, np.einsum("sak,gk->gsa", features, grid))
    total = log_prior(grid)
    weights = np.repeat(demos.weights, demos.lengths)
    for weight, t, s, a in zip(weights, demos.times, demos.states, demos.actions, strict=True):
        now = policies[:, s, a] if problem.horizon is None else policies[:, t, s, a]
        total = total + weight * (problem.discount**t if discounted else 1.0) * now
    return total


def normal(scale):
    return lambda grid: -0.5 * (grid**2).sum(axis=1) / scale**2


def laplace(scale):
    return lambda grid: -np.abs(grid).sum(axis=1) / scale


def moments(log_density, grid):
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ grid
    return mean, np.sqrt(weight @ (grid - mean) ** 2)


def some_demos(problem, features, theta, seed, num=25):
    mdp = as_mdp(problem)
    length = 8 if problem.horizon is None else None
    return ix.rollout(mdp, ix.soft_plan(mdp, features @ theta), num=num, key=jax.random.key(seed), length=length)


@pytest.fixture(scope="module")
def demos():
    return some_demos(ENDLESS, ONE_FEATURE, np.array([TRUTH]), seed=1)


@pytest.fixture(scope="module")
def fit(demos):
    held_out = some_demos(ENDLESS, ONE_FEATURE, np.array([TRUTH]), seed=2)
    return SHORT.fit(as_mdp(ENDLESS), ix.LinearReward(ONE_FEATURE), demos, key=jax.random.key(0), held_out=held_out)


def test_draws_have_the_mean_and_spread_of_quadrature(fit, demos):
    grid = np.linspace(-5, 7, 2001)[:, None]
    mean, sd = moments(log_posterior(ENDLESS, ONE_FEATURE, demos, grid, normal(1.0)), grid)
    _, ess = mixing(fit.samples.reshape(2, 1000, 1))
    assert fit.samples.shape == (2000, 1)
    assert np.abs(fit.samples.mean(axis=0) - mean) < 4 * sd / np.sqrt(ess)
    assert np.abs(fit.samples.std(axis=0) / sd - 1) < 4 / np.sqrt(2 * ess)
    # The reward is the mean of the draws, and prior and data both matter to it.
    np.testing.assert_allclose(fit.reward.weights, fit.samples.mean(axis=0))
    assert 0.05 < sd < 0.5


def test_fit_describes_itself(fit, demos):
    assert fit.status is Status.SAMPLED
    plan = ix.soft_plan(as_mdp(ENDLESS), ONE_FEATURE @ fit.reward.weights)
    np.testing.assert_allclose(fit.policy, plan.policy, rtol=1e-9)
    assert fit.log_likelihood == pytest.approx(np.log(fit.policy[demos.states, demos.actions]).sum())
    assert np.isfinite(fit.held_out_log_likelihood)
    text = str(fit.summary())
    for part in ("worst r-hat", "least effective sample size", "divergent", "Normal(scale=1)", "97.5%"):
        assert part in text


def test_the_key_decides_the_draws(fit, demos):
    mdp, reward, seen = as_mdp(ENDLESS), ix.LinearReward(ONE_FEATURE), []
    again = SHORT.fit(mdp, reward, demos, key=jax.random.key(0), callback=seen.append)
    np.testing.assert_array_equal(again.samples, fit.samples)
    assert [iterate.step for iterate in seen] == list(range(100, 1001, 100))
    np.testing.assert_allclose(seen[-1].parameters, fit.reward.weights)
    other = SHORT.fit(mdp, reward, demos, key=jax.random.key(1))
    assert not np.array_equal(other.samples, fit.samples)


def test_chains_that_do_not_mix_are_reported(demos, monkeypatch):
    monkeypatch.setattr(chains, "LARGEST_R_HAT", 0.9)
    with pytest.warns(UnfinishedWarning, match="r-hat is 1.0") as said:
        fit = SHORT.fit(as_mdp(ENDLESS), ix.LinearReward(ONE_FEATURE), demos, key=jax.random.key(0))
    assert fit.status is Status.STALLED
    assert not fit.converged
    assert said[0].filename == __file__


def test_predictive_policy_is_the_mean_over_draws(fit):
    policies = np.exp(log_policies(ENDLESS, np.einsum("sak,gk->gsa", ONE_FEATURE, fit.samples)))
    np.testing.assert_allclose(fit.predictive_policy(max_draws=2000), policies.mean(axis=0), rtol=1e-8)
    few = fit.predictive_policy(max_draws=2)
    np.testing.assert_allclose(few, policies[[0, -1]].mean(axis=0), rtol=1e-8)


# Chains this short have an r-hat above 1.01 now and then by chance.
@pytest.mark.filterwarnings("ignore::irlax.status.UnfinishedWarning")
def test_posterior_covers_the_truth_at_its_nominal_rate():
    """Simulation-based calibration (Talts et al. 2018): truths from the prior have uniform ranks among the draws."""
    num = 20
    truths = np.random.default_rng(3).normal(size=num)
    ranks = np.empty(num)
    for i, truth in enumerate(truths):
        data = some_demos(ENDLESS, ONE_FEATURE, np.array([truth]), seed=100 + i)
        fit = SHORT.fit(as_mdp(ENDLESS), ix.LinearReward(ONE_FEATURE), data, key=jax.random.key(i))
        ranks[i] = (fit.samples[:, 0] < truth).mean()
    low, high = binom.ppf([0.0005, 0.9995], num, 0.8)
    assert low <= ((ranks > 0.1) & (ranks < 0.9)).sum() <= high
    assert kstest(ranks, "uniform").pvalue > 1e-3


def test_two_parameters_with_a_laplace_prior_have_the_moments_of_quadrature():
    problem = random_problem(1, horizon=4)
    features = np.random.default_rng(5).normal(size=(S, A, 2))
    demos = some_demos(problem, features, np.array([1.0, 0.0]), seed=4, num=6)
    estimator = BayesianIRL(prior=Laplace(0.3))
    fit = estimator.fit(as_mdp(problem), ix.LinearReward(features), demos, key=jax.random.key(2))
    assert fit.status is Status.SAMPLED
    axis = np.linspace(-2.5, 3.5, 241)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    mean, sd = moments(log_posterior(problem, features, demos, grid, laplace(0.3)), grid)
    _, ess = mixing(fit.samples.reshape(4, 1000, 2))
    assert np.all(np.abs(fit.samples.mean(axis=0) - mean) < 4 * sd / np.sqrt(ess))
    assert np.all(np.abs(fit.samples.std(axis=0) / sd - 1) < 5 / np.sqrt(2 * ess))
    # The prior is seen: a normal one of the same variance gives another mean.
    other, _ = moments(log_posterior(problem, features, demos, grid, normal(0.3 * 2**0.5)), grid)
    assert np.abs(other - mean).max() > 0.02


def test_log_density_is_prior_plus_weighted_likelihood_of_all_problems():
    problems = [random_problem(2, horizon=3), random_problem(3, horizon=3)]
    features = np.random.default_rng(6).normal(size=(S, A, 2))
    data = [some_demos(problem, features, np.array([0.5, -0.5]), seed=7, num=5) for problem in problems]
    doubled = ix.Demonstrations.from_arrays(
        data[1].states.reshape(5, 3), data[1].actions.reshape(5, 3), weights=[2.0, 1, 1, 1, 0.5]
    )
    grid = np.random.default_rng(8).normal(size=(4, 2))
    with jax.enable_x64(True):
        bound = pair_up([as_mdp(p) for p in problems], ix.LinearReward(features), [data[0], doubled], None, "auto")
        posterior = BayesianIRL(prior=Normal(0.7), objective="discounted-likelihood")._posterior(*bound)
        found = np.array([posterior.log_density(jnp.asarray(theta)) for theta in grid])
    priors = (normal(0.7), lambda grid: 0.0)
    expected = sum(
        log_posterior(problem, features, seen, grid, prior, discounted=True)
        for problem, seen, prior in zip(problems, [data[0], doubled], priors, strict=True)
    )
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-9)


def normal_scores(draws):
    """Of the ranks among all draws (Blom 1958)."""
    return norm.ppf((rankdata(draws).reshape(draws.shape) - 3 / 8) / (draws.size + 1 / 4))


def r_hat_by_hand(draws):
    """Vehtari et al. (2021), equations 1 to 4, of half chains [C, D], in place and in width."""
    found = []
    for scores in (normal_scores(draws), normal_scores(np.abs(draws - np.median(draws)))):
        num = scores.shape[1]
        between, within = num * scores.mean(axis=1).var(ddof=1), scores.var(axis=1, ddof=1).mean()
        found.append((((num - 1) / num * within + between / num) / within) ** 0.5)
    return max(found)


def ess_by_hand(draws):
    """Vehtari et al. (2021), equations 10 to 13, of half chains, with autocovariances by definition."""
    scores = normal_scores(draws)
    (chains, num), centred = scores.shape, scores - scores.mean(axis=1, keepdims=True)
    covariance = [(centred[:, : num - lag] * centred[:, lag:]).sum() / (chains * num) for lag in range(num)]
    within = covariance[0] * num / (num - 1)
    overall = covariance[0] + scores.mean(axis=1).var(ddof=1)
    rho = [1.0, *(1 - (within - covariance[lag]) / overall for lag in range(1, num))]
    pairs, k = [], 0
    while 2 * k + 1 < num and rho[2 * k] + rho[2 * k + 1] > 0:
        pairs.append(min([rho[2 * k] + rho[2 * k + 1], *pairs[-1:]]))
        k += 1
    # The first even lag after the last pair counts once if it is positive, as in Stan.
    tau = -1 + 2 * sum(pairs) + max(rho[2 * k], 0)
    return chains * num / max(tau, 1 / np.log10(chains * num))


def test_diagnostics_are_those_of_their_definitions():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4, 400, 4))
    draws = noise.copy()
    for t in range(1, 400):
        draws[:, t, 1] = 0.9 * draws[:, t - 1, 1] + noise[:, t, 1] * (1 - 0.81) ** 0.5
        draws[:, t, 2] = -0.5 * draws[:, t - 1, 2] + noise[:, t, 2] * 0.75**0.5
    draws[0, :, 3] += 2.0
    r_hat, ess = mixing(draws)
    halves = np.concatenate([draws[:, :200], draws[:, 200:]])
    np.testing.assert_allclose(r_hat, [r_hat_by_hand(halves[..., k]) for k in range(4)], rtol=1e-10)
    by_hand = [ess_by_hand(halves[..., k]) for k in range(3)]
    np.testing.assert_allclose(ess[:2], by_hand[:2], rtol=1e-10)
    # Where the lag after the last pair is higher than the pair itself, blackjax lowers it.
    np.testing.assert_allclose(ess[2], by_hand[2], rtol=0.05)
    # (1 − ρ)/(1 + ρ) of the draws are independent.
    np.testing.assert_allclose(ess[:3] / 1600, [1, 0.1 / 1.9, 1.5 / 0.5], rtol=0.35)
    assert np.all(r_hat[[0, 2]] < 1.01)
    assert r_hat[3] > 1.3 and ess[3] < 20


@pytest.mark.filterwarnings("error")
def test_draws_that_are_all_equal_count_nothing():
    draws = np.random.default_rng(0).normal(size=(4, 400, 4))
    draws[..., 1], draws[..., 2], draws[0, :, 3] = 3.0, np.nan, 3.0
    r_hat, ess = mixing(draws)
    assert np.array_equal(np.isinf(r_hat), [False, True, True, False])
    assert np.array_equal(ess == 0, [False, True, True, False])
    assert Diagnosis.of(draws, np.zeros((4, 400), bool)).status is Status.STALLED


def test_a_sample_counts_only_if_it_mixes_and_does_not_diverge():
    good = Diagnosis(1.003, 1500.0, 3, 4, 2000)
    assert good.status is Status.SAMPLED
    for change in ({"r_hat": 1.02}, {"r_hat": float("nan")}, {"ess": 350.0}, {"divergent": 21}):
        assert good._replace(**change).status is Status.STALLED
    assert "num_warmup" in good.advice


def test_bad_arguments_are_refused(as_a_user, demos):
    mdp, reward, key = as_mdp(ENDLESS), ix.LinearReward(ONE_FEATURE), jax.random.key(0)
    with pytest.raises(ValueError, match="A posterior needs observed choices"):
        BayesianIRL().fit(mdp, reward, np.full((S, A), 1 / A), key=key)
    with pytest.raises(ValueError, match="A posterior needs observed choices"):
        BayesianIRL().fit(mdp, reward, occupancy=np.full((S, A), 10 / (S * A)), key=key)
    with pytest.raises(ValueError, match="linear in its parameters"):
        BayesianIRL().fit(mdp, ix.NeuralReward(np.eye(S), key=key), demos, key=key)
    with pytest.raises(TypeError, match="random key"):
        BayesianIRL().fit(mdp, reward, demos, key=0)
    with pytest.raises(TypeError, match="held_out"):
        BayesianIRL().fit(mdp, reward, demos, key=key, held_out=np.full((S, A), 1 / A))
    with pytest.raises(TypeError, match="prior"):
        BayesianIRL(prior=1.0)
    for wrong in ({"objective": "feature-matching"}, {"num_chains": 0}, {"num_warmup": 3}, {"num_samples": 1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            BayesianIRL(**wrong)
    for prior in (Normal, Laplace):
        with pytest.raises(ValueError, match="scale"):
            prior(0.0)


def test_without_blackjax_the_extra_is_named(demos, monkeypatch):
    monkeypatch.setitem(sys.modules, "blackjax", None)
    with pytest.raises(ImportError, match=r"irlax\[bayes\]"):
        BayesianIRL().fit(as_mdp(ENDLESS), ix.LinearReward(ONE_FEATURE), demos, key=jax.random.key(0))


def test_only_draws_have_a_predictive_policy(fit):
    without = ix.MCEIRL(objective="likelihood", l2=0.1).fit(fit.mdp, fit.reward, fit.experts[0].demos)
    with pytest.raises(ValueError, match="no posterior draws"):
        without.predictive_policy()
