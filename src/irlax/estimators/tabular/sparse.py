"""scipy.sparse without types, since its type stubs cover too little of what is used here; and linear programmes."""

from typing import Any

import scipy.sparse

Sparse = Any
sp: Any = scipy.sparse


def linprog(*args: Any, **options: Any) -> Any:
    """`scipy.optimize.linprog`, which takes a third of a second to import, and few fits need it."""
    from scipy.optimize import linprog

    return linprog(*args, **options)


def spsolve(*args: Any) -> Any:
    """`scipy.sparse.linalg.spsolve`, which takes a tenth of a second to import."""
    from scipy.sparse.linalg import spsolve

    return spsolve(*args)
