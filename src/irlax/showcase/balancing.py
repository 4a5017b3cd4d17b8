"""CartPole from twenty demonstrations: adversarial IRL on a control problem."""

import jax.random as jr

from irlax.envs import collect, expert_demos, make
from irlax.envs.strips import strip
from irlax.estimators.sampled import AIRL, Rounds, SampledFit
from irlax.estimators.sampled.curves import learning_figure
from irlax.estimators.tabular.drawings import add_figure
from irlax.report import Page
from irlax.showcase.section import Section
from irlax.tables import Summary, Table

#: Enough rounds to balance the pole most of the time; the default is up to 300.
ROUNDS = 60
SEED = 0


def section() -> Section:
    """Learn to balance a pole from demonstrations."""
    fit = learned()
    returns, demonstrated = fit.history["return"], float(fit.demos.returns.mean())
    final = float(fit.returns.mean())
    table = Table(
        ("", "steps that the pole stands, of 500"),
        [
            ("demonstrations", f"{demonstrated:.0f}"),
            ("at first", f"{returns[0]:.0f}"),
            (f"after {ROUNDS} rounds", f"{final:.0f}"),
        ],
        title="CartPole by AIRL, from 20 demonstrations",
        notes=(f"AIRL acted for {int(fit.history['steps'][-1]):,} steps, without the true reward.",),
    )
    record = {
        "status": fit.status.name.lower(),
        "return_mean": final,
        "first_return_mean": float(returns[0]),
        "demonstrated_return_mean": demonstrated,
    }
    return Section("A pole to balance", Summary([table]), record, lambda page: _draw(page, table, fit))


def learned() -> SampledFit:
    """A fit of AIRL with its default settings, but for the number of rounds."""
    estimator = AIRL(rounds=Rounds(num=ROUNDS, tol=0.0), progress=False)
    fit = estimator.fit(make("cartpole"), expert_demos("cartpole"), key=jr.key(SEED))
    assert isinstance(fit, SampledFit)
    return fit


def _draw(page: Page, table: Table, fit: SampledFit) -> Page:
    env = make("cartpole")
    page = page.text(
        "Angles and speeds are continuous, so that values cannot be kept in a table. The reward is now a network of "
        "observations, and so is the policy. Adversarial IRL (AIRL) rewards the policy for steps that a discriminator "
        "takes for the demonstrator's. Since the discriminator contains the policy's own probabilities, it learns a "
        "reward, and not only a difference between the two."
    ).text(
        "An episode always has 500 steps; after a fall the state no longer changes. If episodes ended with the fall, "
        "their length alone would reveal the demonstrator, and any positive reward would explain it."
    )
    page = add_figure(
        page.table(table),
        learning_figure(fit.history, float(fit.demos.returns.mean())),
        "Learning curves: how long the pole stands (dotted: the demonstrations), and the gap in reward.",
    )
    acted = collect(env, fit.policy, 1, key=jr.key(SEED + 1))
    return add_figure(page, strip(env, acted), "An episode of the learned policy, from left to right.")
