"""The estimated chain of motives: how episodes start, and how motives switch."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.mixed.chain import Chain, ChainParameters, Tables, tables_of
from irlax.precision import scope
from irlax.registry import stored
from irlax.typing import Bool, Float


@stored("motive-chain")
class MotiveChain(eqx.Module):
    """Log-odds of first motives and of switches, and which of them are held at a probability of 0."""

    initial_odds: Float[np.ndarray, " odds"]
    #: b: a row for each motive, a column for each other motive.
    base: Float[np.ndarray, "K odds"]
    #: w: for each feature of states (or each state), as b; None if switching does not depend on the state.
    slopes: Float[np.ndarray, "F K odds"] | None
    free_initial: Bool[np.ndarray, " odds"]
    free_base: Bool[np.ndarray, "K odds"]
    #: The first motive against which `initial_odds` are.
    reference: int
    #: φ(s), if switching depends on features of states.
    features: Float[np.ndarray, "S F"] | None
    #: The weight of the penalty ½‖w‖².
    l2: float

    @classmethod
    def of(cls, chain: Chain, parameters: ChainParameters) -> "MotiveChain":
        """The chain at its estimate."""
        return cls(
            np.asarray(parameters.initial),
            np.asarray(parameters.base),
            None if parameters.slopes is None else np.asarray(parameters.slopes),
            np.asarray(chain.free.initial),
            np.asarray(chain.free.base),
            chain.reference,
            None if chain.features is None else np.asarray(chain.features),
            float(chain.l2),
        )

    @property
    def parameters(self) -> ChainParameters:
        """The log-odds as a tree."""
        return ChainParameters(self.initial_odds, self.base, self.slopes)

    @property
    def free(self) -> ChainParameters:
        """Which of the log-odds are free."""
        slopes = None if self.slopes is None else np.broadcast_to(self.free_base, self.slopes.shape)
        return ChainParameters(self.free_initial, self.free_base, slopes)

    @property
    def num_motives(self) -> int:
        """K."""
        return len(self.base)

    @property
    def layout(self) -> Float[np.ndarray, "K odds"]:
        """A column for each log-odds of first motives."""
        return np.delete(np.eye(self.num_motives), self.reference, axis=1)

    def tables(self) -> Tables:
        """Probabilities of first motives [K], and of switches [1, K, K] or [S, K, K]; exactly 0 where held."""
        with scope():
            return jax.tree.map(_probability, self._log_tables(self.parameters))

    def _log_tables(self, parameters: ChainParameters) -> Tables:
        return _tables_of(parameters, self.free, self.layout, self.features)

    def jacobian(self) -> Float[np.ndarray, "Q odds"]:
        """Derivatives of all probabilities, first motives and then switches, in the log-odds as one vector."""
        with scope():
            parts = jax.tree.leaves(_slopes(self.parameters, self.free, self.layout, self.features))
            return np.concatenate([np.asarray(part).reshape(len(part), -1) for part in parts], axis=1)

    def given_to(self, chain: Chain) -> Chain:
        """A chain over other episodes with the same reference, and the same probabilities held at 0."""
        new = (jax.tree.map(jnp.asarray, self.free), jnp.asarray(self.layout))
        return eqx.tree_at(lambda chain: (chain.free, chain.layout), chain, new)


_tables_of = eqx.filter_jit(tables_of)


@eqx.filter_jit
def _slopes(parameters: ChainParameters, free: ChainParameters, layout: Any, features: Any) -> ChainParameters:
    """Derivatives of all probabilities, as one vector, in each of the log-odds."""

    def probabilities(parameters: ChainParameters) -> Any:
        tables = tables_of(parameters, free, layout, features)
        return jnp.concatenate([jnp.exp(tables.initial), jnp.exp(tables.switching).ravel()])

    return jax.jacfwd(probabilities)(parameters)


def _probability(log: Any) -> np.ndarray:
    probability = np.exp(np.asarray(log))
    return np.where(probability < 1e-15, 0.0, probability)
