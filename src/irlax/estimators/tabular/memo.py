"""Values that are computed once for a fit."""

from typing import Any


class Memo:
    """Keeps computed values by name, together with the objects that they were computed from."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[Any, Any]] = {}

    # All are equal: as a static field, a memo must not make two fits different to JAX.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memo)

    def __hash__(self) -> int:
        return 0

    def once(self, name: str, of: tuple[Any, ...], compute: Any) -> Any:
        """The value of `compute()`, which depends on the objects `of` only; computed again if these are others."""
        entry = self._values.get(name)
        if entry is None or any(one is not other for one, other in zip(entry[0], of, strict=True)):
            entry = self._values[name] = (of, compute())
        return entry[1]
