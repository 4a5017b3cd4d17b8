"""RiskyPath under the causal and the path model: why maximum causal entropy."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from irlax.envs import RiskyPath
from irlax.planning import expected_return, hard_plan, path_plan, soft_plan
from irlax.report import Page
from irlax.report.plots import blank, lines
from irlax.showcase.section import Section
from irlax.tables import Summary, Table

DISCOUNTS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.69, 0.6932, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 0.999)


class RiskRow(eqx.Module):
    """RiskyPath at one discount: how often each model gambles, and what that really earns per step."""

    discount: float
    causal_risk: float
    path_risk: float
    causal_return: float
    path_return: float
    best_return: float


def risk(discount: float) -> RiskRow:
    """Plan RiskyPath under both models and let their policies act in the real dynamics."""
    env = RiskyPath(discount=discount)
    causal, path, best = (plan(env.mdp, env.reward) for plan in (soft_plan, path_plan, hard_plan))

    def earned(plan: Any) -> float:
        # (1 − γ)·return is a mean reward a step, which can be compared over discounts.
        return (1 - discount) * float(expected_return(env.mdp, plan, env.reward))

    return RiskRow(
        discount,
        float(causal.policy[0, env.RISKY]),
        float(path.policy[0, env.RISKY]),
        earned(causal),
        earned(path),
        earned(best),
    )


def risk_table(rows: Sequence[RiskRow]) -> Table:
    """The rows as a table."""
    return Table(
        ("discount γ", "P(risky) causal", "P(risky) path", "return causal", "return path", "best return"),
        [
            (
                f"{row.discount:g}",
                f"{row.causal_risk:.4f}",
                f"{row.path_risk:.4f}",
                *(
                    f"{earned:.4f}".replace("-", "−")
                    for earned in (row.causal_return, row.path_return, row.best_return)
                ),
            )
            for row in rows
        ],
        title="RiskyPath: a sure detour, or a gamble at even odds on +1 or −100 a step",
        notes=(
            "Returns are true expected returns in the real dynamics, times 1 − γ: a mean reward a step.",
            "The path model turns to the risk at γ = log 2 ≈ 0.6931; the causal model never does.",
        ),
    )


def risk_figure(rows: Sequence[RiskRow]) -> Any:
    """The probability of the risky action, and the true expected return, over the discount."""
    figure, axes = blank(2)
    discounts = np.array([row.discount for row in rows])
    risky = {"causal (MCE)": [row.causal_risk for row in rows], "path (MaxEnt)": [row.path_risk for row in rows]}
    lines(axes[0, 0], discounts, risky, xlabel="discount γ", ylabel="probability of the risky action")
    axes[0, 0].axvline(np.log(2), color="#888888", linestyle=":", linewidth=1)
    axes[0, 0].axhline(0.5, color="#888888", linestyle=":", linewidth=1)
    axes[0, 0].annotate("γ = log 2", (np.log(2), 0.02), xytext=(4, 0), textcoords="offset points", fontsize=9)
    axes[0, 0].set_ylim(-0.02, 0.7)
    earned = {
        "causal (MCE)": [row.causal_return for row in rows],
        "path (MaxEnt)": [row.path_return for row in rows],
    }
    lines(axes[0, 1], discounts, earned, xlabel="discount γ", ylabel="true expected return, a step")
    return figure


def section() -> Section:
    """Two models of one demonstrator, planned exactly, in the smallest problem that tells them apart."""
    rows = [risk(discount) for discount in DISCOUNTS]
    return Section(
        title="How the one who acts is modelled",
        summary=Summary([risk_table(rows)]),
        record={"rows": [dataclasses.asdict(row) for row in rows]},
        draw=lambda page: _drawn(page, rows),
    )


def _drawn(page: Page, rows: Sequence[RiskRow]) -> Page:
    return (
        page.text(
            "To read wishes from actions one needs a model of how wishes become actions. Nobody is perfectly "
            "consistent, so the model is a soft one: the better an action, the likelier it is. Two such models are in "
            "use, and the smallest problem that tells them apart is this. From the start an agent can walk a sure "
            "detour to a goal that pays 1 a step for ever, or gamble: with even odds it is at the goal one step "
            "sooner, or in a hazard that pays −100 a step for ever. No sensible agent gambles."
        )
        .text(
            "The causal model (maximum causal entropy) weighs each action by its expected value. The path model "
            "(maximum entropy) weighs each path by its probability times the exponential of its return, as if the "
            "agent could choose how the gamble falls at a price of log 2. It prefers the gamble as soon as a step's "
            "delay costs more than that, which is for γ above log 2, about 0.693. This is why irlax infers rewards "
            "with the causal model first; where nothing is left to chance the two agree."
        )
        .figure(
            risk_figure(rows),
            "Left: how often each model takes the risk. Right: what its policy then really earns.",
        )
        .table(risk_table(rows))
        .note(
            "Gleave and Toyer, A Primer on Maximum Causal Entropy Inverse Reinforcement Learning, section 3.3 and "
            "Figure 1. The Primer says that the path model turns risky for small discounts; it is for large ones."
        )
    )
