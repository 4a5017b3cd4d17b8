"""Shape annotations are enforced in every test: the hook must be in place before irlax is first imported."""

import jaxtyping
import pytest

# PEP 484 lets an int pass for a float, as every type checker does.
jaxtyping.install_import_hook("irlax", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """One file, one worker: tests of a file share what XLA compiled, which is most of their time."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


@pytest.fixture
def as_a_user():
    """Without the hook, which would refuse a wrong type before the door's own message can be read."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
