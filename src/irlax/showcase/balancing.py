"""A pole to balance, from twenty demonstrations: adversarial IRL on a control problem."""

import jax.random as jr

from irlax.envs import collect, expert_demos, make
from irlax.estimators.sampled import AIRL, SampledFit
from irlax.estimators.sampled.curves import learning_figure
from irlax.estimators.tabular.drawings import add_figure
from irlax.report import Page
from irlax.report.strips import strip
from irlax.showcase.section import Section
from irlax.tables import Summary, Table

#: Enough of them to balance the pole most of the time; a fit by itself takes up to 300.
ROUNDS = 60
SEED = 0


def section() -> Section:
    """Learn to balance a pole from those who can."""
    fit = learned()
    returns, shown = fit.history["return"], float(fit.demos.returns.mean())
    earned = float(fit.returns.mean())
    table = Table(
        ("", "steps that the pole stands, of 500"),
        [
            ("demonstrations", f"{shown:.0f}"),
            ("at first", f"{returns[0]:.0f}"),
            (f"after {ROUNDS} rounds", f"{earned:.0f}"),
        ],
        title="CartPole by AIRL, from 20 demonstrations",
        notes=(f"AIRL acted for {int(fit.history['steps'][-1]):,} steps; nobody told it how long the pole stood.",),
    )
    record = {
        "status": fit.status.name.lower(),
        "return_mean": earned,
        "first_return_mean": float(returns[0]),
        "demonstrated_return_mean": shown,
    }
    return Section("A pole to balance", Summary([table]), record, lambda page: _drawn(page, table, fit))


def learned() -> SampledFit:
    """AIRL as it comes, but for the number of rounds."""
    estimator = AIRL(rounds=ROUNDS, tol=0.0)
    return estimator.fit(make("cartpole"), expert_demos("cartpole"), key=jr.key(SEED), shown=False)


def _drawn(page: Page, table: Table, fit: SampledFit) -> Page:
    env = make("cartpole")
    page = page.text(
        "Cells of a grid can be counted; angles and speeds cannot. The reward is now a network of what is observed, "
        "and so is the policy. Adversarial IRL (AIRL) pays the policy for steps that a discriminator takes for the "
        "demonstrator's. Since the discriminator has the policy's own probabilities inside it, what it learns is a "
        "reward, and not only a difference."
    ).text(
        "An episode always has 500 steps; after a fall the world stands still. Were it to end with the fall, its "
        "length alone would give the demonstrator away, and any positive reward would do."
    )
    page = add_figure(
        page.table(table),
        learning_figure(fit.history, float(fit.demos.returns.mean())),
        "How it learned: how long the pole stands, up to what was demonstrated (dotted), and the gap in pay.",
    )
    acted = collect(env, fit.policy, 1, jr.key(SEED + 1))
    return add_figure(page, strip(env, acted), "An episode of the learned policy, from left to right.")
