"""scipy.sparse without types: its type stubs cover too little of what is used here."""

from typing import Any

import scipy.sparse.linalg

Sparse = Any
sp: Any = scipy.sparse
