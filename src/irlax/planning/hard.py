"""Ordinary (return-maximising) planning."""

from typing import Any

from irlax.mdp import MDP
from irlax.planning.backup import HardBackup
from irlax.planning.fixed_point import Method
from irlax.planning.plan import Plan, folded, plan_with
from irlax.planning.soft import TOLERANCE
from irlax.precision import exact


@exact
def hard_plan(mdp: MDP, reward: Any, *, tol: float = TOLERANCE, method: Method = "auto") -> Plan:
    r"""The policy that maximises return: V_t(s) = max_a Q_t(s,a).

    Actions that are equally good share the policy equally. The arguments are those of `soft_plan`; on an
    infinite horizon "newton" is Howard's policy iteration.
    """
    return plan_with(HardBackup(mdp, folded(mdp, reward)), tol, method)
