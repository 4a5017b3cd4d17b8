"""RiskyPath: the path model takes the risk, the causal model does not."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from irlax.envs import RiskyPath
from irlax.planning import believed_occupancy, hard_plan, occupancy, path_plan, soft_plan
from irlax.reproduce.result import Line, Result

DISCOUNTS = (0.1, 0.3, 0.5, 0.69, 0.7, 0.9, 0.99)


def causal_risk(discount: float) -> float:
    r"""The causal model's probability of the gamble, $\sigma(Q(s_0, risky) - Q(s_0, safe))$, by hand.

    $$Q(s_0, safe) = \frac{\gamma^2}{1-\gamma}, \quad
      Q(s_0, risky) = \frac{\gamma}{1-\gamma}\cdot\frac{1 - 100}{2}$$
    """
    return float(expit((discount * -49.5 - discount**2) / (1 - discount)))


def path_risk(discount: float) -> float:
    r"""The path model's probability of the gamble, $\sigma(\gamma - \log 2)$, up to a term $e^{-101\gamma/(1-\gamma)}$.

    The model believes that the gamble can be made to succeed at a cost of log 2; that saves one step's delay, a reward
    of γ.
    """
    return float(expit(discount - np.log(2) + np.log1p(np.exp(-101 * discount / (1 - discount)))))


def _risk(discount: float, plan=path_plan) -> float:
    env = RiskyPath(discount=discount)
    return float(plan(env.mdp, env.reward).policy[0, env.RISKY])


def _lines(_: Path | None) -> Iterator[Line]:
    env = RiskyPath(discount=0.9)
    path = path_plan(env.mdp, env.reward)
    price = float(0.9 * path.value[2] - path.q[0, env.RISKY])
    yield Line.closed_form("price of the wished-for outcome, path model: log 2", float(np.log(2)), price, 1e-9)
    turning = float(np.asarray(brentq(lambda discount: _risk(discount) - 0.5, 0.4, 0.9, xtol=1e-12)))
    yield Line.closed_form("discount at which the path model turns risky: log 2", float(np.log(2)), turning, 1e-8)
    for discount in (0.5, 0.9):
        yield Line.closed_form(f"P(risky), path model, γ = {discount:g}", path_risk(discount), _risk(discount), 1e-9)
    for discount in (0.05, 0.1):
        yield Line.closed_form(
            f"P(risky), causal model, γ = {discount:g}", causal_risk(discount), _risk(discount, soft_plan), 1e-9
        )
    safe = min(1 - _risk(discount, hard_plan) for discount in DISCOUNTS)
    yield Line("the best action, at every discount", "safe", "safe" if safe == 1 else "risky", "exact", safe == 1)
    likeliest = max(_risk(discount, soft_plan) for discount in DISCOUNTS)
    yield Line.below("P(risky), causal model, largest of all discounts", "never risky", likeliest, 0.5)
    short = RiskyPath(discount=1.0, horizon=6)
    gamble = path_plan(short.mdp, short.reward)
    believed, real = (
        mass(short.mdp, gamble)[1].sum(axis=-1)[2] / gamble.policy[0, 0, short.RISKY]
        for mass in (believed_occupancy, occupancy)
    )
    yield Line.closed_form("P(goal after the gamble), as the path model believes", 1.0, float(believed), 1e-9)
    yield Line.closed_form("P(goal after the gamble), in truth", 0.5, float(real), 1e-9)


RESULT = Result(
    name="risky-path",
    title="Maximum Entropy takes a risk that Maximum Causal Entropy does not",
    source="A. Gleave and S. Toyer (2022), A Primer on Maximum Causal Entropy Inverse Reinforcement Learning, "
    "arXiv:2203.11409, section 3.3 and Figure 1.",
    takes="10 s",
    lines=_lines,
    notes=(
        "The Primer prints the example, the price and the claims; probabilities are worked out from them by hand.",
        "It says that the path model turns risky for small discounts. It is for large ones, above log 2.",
    ),
)
