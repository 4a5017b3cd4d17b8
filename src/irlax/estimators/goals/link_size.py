r"""The link size attribute, which corrects for ways that share links.

For trips from o to g the link size of a link is the expected number of its uses by one trip,
$LS_{og}(a) = \bigl[(I - P_g^\top)^{-1} e_o\bigr]_a$, under a given reward (Fosgerau, Frejinger and Karlström 2013,
section 2.4). A positive weight of it makes links which many ways use more attractive, and a negative one less.
"""

from typing import Any

import numpy as np

from irlax.estimators.goals.choice_model import ChoiceModel
from irlax.estimators.goals.components import PairFeatures
from irlax.estimators.goals.demand import Demand
from irlax.planning.goals.options import Options
from irlax.planning.goals.shared import SharedBlock
from irlax.rewards import AbstractReward
from irlax.routes import Network
from irlax.typing import Float

#: Pairs that are solved for at once.
PAIRS = 256


def link_size(net: Network, reward: AbstractReward, starts: Any, goals: Any, name: str = "link size") -> PairFeatures:
    """The link size of each arc for each distinct pair of a start and a goal, for `RecursiveLogit.fit`.

    `reward` holds the fixed weights, such as those of a first fit: `fit.reward`, or `net.linear(["minutes"], [-2.0])`.
    In a network of links (`links_as_states`) an arc has the link size of the link that it enters, and 0 at an end; in
    one of nodes an arc is a link itself.
    """
    mdp = net.mdp
    pairs = Demand.of(mdp, starts, goals).added_up()
    options = Options.of(mdp)
    rewards = np.asarray(reward.bind(mdp).table(mdp))[options.row, options.column]
    model = ChoiceModel.of(options, rewards, None)
    sizes = np.zeros((len(pairs.starts), len(options.state)))
    for solved in pairs.solutions(model):
        assert isinstance(solved.block, SharedBlock)
        for k in range(0, len(solved.rows), PAIRS):
            rows = solved.rows[k : k + PAIRS]
            block = solved.block.only_columns(solved.columns[k : k + PAIRS])
            sizes[rows] = _uses(net, options, block, pairs.starts[rows]).T
    tables = np.zeros((len(sizes), *mdp.table_shape))
    tables[:, options.row, options.column] = sizes
    return PairFeatures.of(mdp, pairs.starts, pairs.goals, tables, name)


def _uses(net: Network, options: Options, block: SharedBlock, starts: np.ndarray) -> Float[np.ndarray, "J P"]:
    """The link size of each option for trips from each start to the goal of its column."""
    mass = np.zeros((options.num_states, len(starts)))
    mass[starts, np.arange(len(starts))] = 1.0
    visits = block.mass(mass)
    if net.base is None:
        return visits[options.state] * block.policy()
    assert options.head is not None
    return np.where(net.is_end[options.head][:, None], 0.0, visits[options.head])
