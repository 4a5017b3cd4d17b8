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
    """RiskyPath at one discount: the probability of the risky action under each model, and the true return per step."""

    discount: float
    causal_risk: float
    path_risk: float
    causal_return: float
    path_return: float
    best_return: float


def risk(discount: float) -> RiskRow:
    """RiskyPath planned under both models, with the true returns of their policies."""
    env = RiskyPath(discount=discount)
    causal, path, best = (plan(env.mdp, env.reward) for plan in (soft_plan, path_plan, hard_plan))

    def return_per_step(plan: Any) -> float:
        # (1 − γ)·return is a mean reward per step, which can be compared between discounts.
        return (1 - discount) * float(expected_return(env.mdp, plan, env.reward))

    return RiskRow(
        discount,
        float(causal.policy[0, env.RISKY]),
        float(path.policy[0, env.RISKY]),
        return_per_step(causal),
        return_per_step(path),
        return_per_step(best),
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
                *(f"{value:.4f}".replace("-", "−") for value in (row.causal_return, row.path_return, row.best_return)),
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
    returns = {
        "causal (MCE)": [row.causal_return for row in rows],
        "path (MaxEnt)": [row.path_return for row in rows],
    }
    lines(axes[0, 1], discounts, returns, xlabel="discount γ", ylabel="true expected return, a step")
    return figure


def section() -> Section:
    """Two models of one demonstrator, planned exactly, in the smallest problem in which they differ."""
    rows = [risk(discount) for discount in DISCOUNTS]
    return Section(
        title="How the agent is modelled",
        summary=Summary([risk_table(rows)]),
        record={"rows": [dataclasses.asdict(row) for row in rows]},
        draw=lambda page: _draw(page, rows),
    )


def _draw(page: Page, rows: Sequence[RiskRow]) -> Page:
    return (
        page.text(
            "To infer rewards from actions one needs a model of how rewards determine actions. No agent is perfectly "
            "consistent, so the model is soft: the better an action, the likelier it is. Two such models are in use, "
            "and this is the smallest problem in which they differ. From the start an agent can take a sure detour to "
            "a goal with a reward of 1 per step for ever, or gamble: with probability ½ each it is at the goal one "
            "step sooner, or in a hazard with a reward of −100 per step for ever. A rational agent does not gamble."
        )
        .text(
            "The causal model (maximum causal entropy) weighs each action by its expected value. The path model "
            "(maximum entropy) weighs each path by its probability times the exponential of its return, as if the "
            "agent could choose the outcome of the gamble at a cost of log 2. It prefers the gamble if one step's "
            "delay costs more than that, which is for γ above log 2, about 0.693. Therefore irlax infers rewards with "
            "the causal model by default; under deterministic dynamics the two agree."
        )
        .figure(
            risk_figure(rows),
            "Left: the probability of the risky action under each model. Right: the true return of its policy.",
        )
        .table(risk_table(rows))
        .note(
            "Gleave and Toyer, A Primer on Maximum Causal Entropy Inverse Reinforcement Learning, section 3.3 and "
            "Figure 1. The Primer says that the path model turns risky for small discounts; it is for large ones."
        )
    )
