"""Shape annotations are enforced in every test: the hook must be in place before irlax is first imported."""

import gc
from pathlib import Path

import jax
import jaxtyping
import pytest

# PEP 484 lets an int pass for a float, as every type checker does.
jaxtyping.install_import_hook("irlax", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

# Looking for garbage after every few hundred objects, as Python does, would be a tenth of the suite's time.
gc.set_threshold(50_000, 10, 10)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """One file, one worker: tests of a file share what XLA compiled, which is most of their time."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


#: Every compiled program holds memory mappings. Linux allows a process 65,530 of them; beyond that XLA crashes.
MANY_MAPPINGS = 30_000


@pytest.fixture(scope="module", autouse=True)
def _room_for_what_is_compiled_next():
    """After a file, forget what was compiled, if that is very much."""
    yield
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > MANY_MAPPINGS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def as_a_user():
    """Without the hook, which would refuse a wrong type before the door's own message can be read."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
