"""How the suite runs: checked shapes, quick compilation, and files in an order that keeps two workers busy.

Shape annotations are enforced in every test: the hook must be in place before irlax is first imported.
"""

import collections
import functools
import gc
import os
import signal
from pathlib import Path

import jax
import jaxtyping
import pytest
from jax._src import core
from jax._src.interpreters import mlir

from tests import annotations, quick_modules

ROOT = Path(__file__).parents[1]

annotations.check("irlax")

# Two workers have two cores: further threads of NumPy's and SciPy's linear algebra would only wait for each other. For
# the processes that are started from here on, which the workers are.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Most of the suite's time is compilation, of programs that run for milliseconds: it need not be thorough. XLA's older
# emitters take a third of the time of the newer ones. In the environment, so that processes started by tests inherit
# it; XLA reads it when the first array is made.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1",
)
# JAX makes an MLIR context for every program, which is 4 ms of the 15 that a small one takes; one serves for all.
if hasattr(mlir, "make_ir_context"):  # private to JAX
    mlir.make_ir_context = functools.cache(mlir.make_ir_context)
# `jnp.asarray` of a NumPy array compiles a program for every shape, one in twelve of all programs: the identity, which
# takes 10 ms. To put the array on the device is the same.
if hasattr(core, "stage_p"):  # private to JAX
    core.stage_p.def_impl(lambda value: value if isinstance(value, jax.Array) else jax.device_put(value))
# Equinox takes long to look up an attribute, and longer to make a method that is called.
quick_modules.install()
# Where in Python each operation comes from would be written into every program, a tenth of the suite's time. And what
# takes long to compile is kept for the other worker, for processes that tests start and for the next run, at 15 ms
# each: not more than is found again. `make clean` deletes it.
SETTINGS = {
    "jax_traceback_in_locations_limit": int(os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")),
    "jax_compilation_cache_dir": os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax_cache")),
    "jax_persistent_cache_min_compile_time_secs": float(
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.4")
    ),
}
for name, value in SETTINGS.items():
    jax.config.update(name, value)

# Looking for garbage after every few hundred objects, as Python does, would be a tenth of the suite's time.
gc.set_threshold(100_000, 20, 20)

#: The files and folders that take longest, as measured (`--durations=0`), longest first: they are started first, so
#: that no worker is left alone with a long one at the end. The order changes nothing else.
LONGEST = (
    "tests/test_docs.py",
    "tests/estimators",
    "tests/metamorphic",
    "tests/estimators/sampled",
    "tests/planning",
    "tests/test_cli.py",
    "tests/report/test_report.py",
    "tests/rl",
    "tests/mdp/test_rows.py",
    "tests/test_examples.py",
    "tests/test_documented_commands.py",
    "tests/analysis/test_identifiability.py",
    "tests/rewards/test_base.py",
    "tests/test_cli_resume.py",
    "tests/envs/test_workers.py",
    "tests/test_cli_sampled.py",
    "tests/mdp/test_dynamics.py",
    "tests/demos/test_likelihood.py",
    "tests/report/test_sampled_report.py",
    "tests/mdp/test_moves.py",
    "tests/test_precision.py",
    "tests/test_site.py",
    "tests/reproduce/test_reproduce.py",
    "tests/test_primer.py",
    "tests/analysis/test_diagnosis.py",
    "tests/test_sharding.py",
    "tests/test_shards.py",
    "tests/test_sweep.py",
    "tests/studio/test_page.py",
)


#: Folders whose files have problems of the same sizes, so that one worker runs all of them.
TOGETHER = ("tests/estimators", "tests/estimators/sampled", "tests/metamorphic", "tests/planning", "tests/rl")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """One file, one worker: tests of a file share what XLA compiled, which is most of their time.

    So do those of the folders `TOGETHER`.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            folder = file.rpartition("/")[0]
            return folder if folder in TOGETHER else file

    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`
    return Scheduling(config, log)


def pytest_collection_modifyitems(items):
    """The longest first; within a file, and among the others, as they were collected."""
    place = {ROOT / name: number for number, name in enumerate(LONGEST)}

    def started(item):
        return min(place.get(path, len(LONGEST)) for path in (item.path, item.path.parent))

    items.sort(key=started)


def pytest_collection_finish():
    """What was imported stays, and need not be looked through for garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    """Before the process ends, garbage is looked for once: pytest and JAX would do it six times."""
    gc.collect()
    gc.freeze()


#: Every compiled program holds memory mappings. Linux allows a process 65,530 of them; beyond that XLA crashes. A file
#: adds 5,000 at most, tests/test_docs.py 16,000. To forget takes seconds of processor time, and more to compile again.
MANY_MAPPINGS = 57_000
#: To count them takes long once there are many: it is not done again before so many more programs are compiled.
MANY_PROGRAMS = 200
#: The first file of all, whose programs no other needs: so early there is little else to forget.
ALONE = "test_docs.py"
_compiled = collections.Counter()


def _count_programs(event, seconds, **_):
    _compiled["since then"] += event.endswith("backend_compile_duration")


jax.monitoring.register_event_duration_secs_listener(_count_programs)


def _are_many():
    mappings = Path("/proc/self/maps")
    if _compiled["since then"] < MANY_PROGRAMS or not mappings.exists():
        return False
    _compiled.clear()
    return mappings.read_bytes().count(b"\n") > MANY_MAPPINGS


@pytest.fixture(scope="module", autouse=True)
def _room_for_what_is_compiled_next(request):
    """After a file, forget what was compiled, if that is very much."""
    yield
    if request.path.name == ALONE or _are_many():
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def as_a_user():
    """Without the hook, which would refuse a wrong type before irlax can say what is wrong with it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def default_signals():
    """Python's own handlers of Ctrl-C and SIGTERM: what a shell runs in the background ignores interrupts."""
    own = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in own.items()}
    yield own
    for number, handler in before.items():
        signal.signal(number, handler)
