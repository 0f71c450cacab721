"""The loop as machine code: numba, the dispatch over the folders, and where the code is kept.

A function of the loop is compiled with every function it calls. What is kept on disk is filed
under a fingerprint of all sources, because numba alone looks only at the file of the outermost
function and would run yesterday's policy. Of processes that need the same code one compiles it,
the others wait for it. Where no folder can be written, each compiles the loop anew.
"""

from __future__ import annotations

import dis
import fcntl
import hashlib
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic

import simkernel
from simkernel import plugins
from simkernel.replay import dispatch
from simkernel.replay.contended import Stage, contend
from simkernel.replay.engine import advance as engine_advance
from simkernel.replay.engine import advance_together as engine_advance_together
from simkernel.replay.net import Net
from simkernel.replay.play import Score, play
from simkernel.replay.program import Program
from simkernel.replay.state import House
from simkernel.replay.two_pools import Pools
from simkernel.replay.two_pools import advance_pools as pools_advance
from simkernel.replay.walk import Paces, Walked, walk

ROOT = Path(simkernel.__path__[0])
ROOMS = ("replay", "batching", "routing", "admission")

DISPATCHED = {
    dispatch.form_batch: ("batching", "form"),
    dispatch.refusal: ("batching", "refusal"),
    dispatch.pick_replica: ("routing", "pick"),
    dispatch.lets_in: ("admission", "lets_in"),
}
"""What is looked up by code, and where."""

APART = (
    *(f"simkernel.replay.{name}" for name in ("blocks", "shelf", "tiers")),
    "simkernel.batching._queue",
)
"""Rooms whose functions are called: inlined wherever a policy takes a block, they took four times
as long to compile and were no quicker."""

WITHOUT_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

CACHE_VARIABLE = "CLUSTER_PLANNER_CACHE"


@cache
def advance() -> Callable[[int, float, House], int]:
    """The compiled `engine.advance`; compiled at its first call, or read from the cache."""
    return machine_code(advance_lent)


@cache
def advance_together() -> Callable[[int, float, House], int]:
    """The compiled `engine.advance_together`: a loop apart, so that neither waits for both."""
    return machine_code(together_lent)


@cache
def advance_pools() -> Callable[[int, Pools], int]:
    """The compiled `two_pools.advance_pools`."""
    return machine_code(pools_lent)


@cache
def machine_code(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop of this room as machine code, with every function it calls.

    Parameters
    ----------
    loop : a function of a module, called from Python; it takes `lent` of the arrays it works on
    """
    folder, settings = cache_folder(), cast(Any, numba.config)
    before = settings.CACHE_DIR
    try:
        settings.CACHE_DIR = str(folder or "")
        keep = numba.njit(cache=folder is not None, nogil=True, error_model="numpy")
        found: Any = keep(_with_compiled_world(loop, {}))
    finally:
        settings.CACHE_DIR = before
    if folder is not None:
        found.compile = _one_at_a_time(found.compile, folder / f"{loop.__name__}.lock")
    return cast(Callable[..., Any], found)


def _one_at_a_time(compile_: Callable[[Any], Any], lock: Path) -> Callable[[Any], Any]:
    """Compiling, or reading what another process has compiled meanwhile; numba reads first."""

    def compiled(signature: Any) -> Any:
        with _held(lock):
            return compile_(signature)

    return compiled


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Alone among all processes that hold this lock; beside them where it cannot be locked."""
    try:
        file = lock.open("a")
    except OSError:
        yield
        return
    with file:
        with suppress(OSError):  # a file system without locks: twice the work is better than none
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def advance_lent(events: int, until_s: float, house: House) -> int:
    """The loop over arrays without an owner."""
    return engine_advance(events, until_s, lent(house))


def together_lent(events: int, until_s: float, house: House) -> int:
    """The loop of groups over arrays without an owner."""
    return engine_advance_together(events, until_s, lent(house))


def pools_lent(events: int, pools: Pools) -> int:
    """The loop of two pools over arrays without an owner."""
    return pools_advance(events, lent(pools))


def play_lent(net: Net, score: Score) -> None:
    """Collectives on a network, over arrays without an owner."""
    play(lent(net), lent(score))


def walk_lent(program: Program, paces: Paces, walked: Walked) -> None:
    """A pipeline walked through, over arrays without an owner."""
    walk(lent(program), lent(paces), lent(walked))


def contend_lent(stage: Stage) -> None:
    """A pipeline on shared links, over arrays without an owner."""
    contend(lent(stage))


def _without_count(_context: Any, house: Any) -> Any:
    """The same arrays without an owner, so that no call counts references to them.

    The caller's arrays outlive the call; counting took more than half of the time of a step.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], values[0])

    return house(house), build


lent: Any = intrinsic(_without_count)


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    types: Any = numba.types
    if isinstance(kind, types.Array):
        null: Any = cgutils.get_null_value
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = null(array.meminfo.type)
        array.parent = null(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts = [
            _without_owner(context, builder, part, builder.extract_value(value, place))
            for place, part in enumerate(kind)
        ]
        return context.make_tuple(builder, kind, parts)
    return value


def cache_folder() -> Path | None:
    """Where this version's code is kept, or None when no place can be written.

    The variable CLUSTER_PLANNER_CACHE, then NUMBA_CACHE_DIR, then the user's cache folder.
    """
    given = os.environ.get(CACHE_VARIABLE) or os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(given or Path(home) / "cluster-planner") / f"replay-{fingerprint(ROOT)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


def fingerprint(root: Path) -> str:
    """Changes with any source under this root that the loop is made of, numba, NumPy, Python."""
    digest = hashlib.sha256()
    for version in (numba.__version__, np.__version__, platform.python_version()):
        digest.update(version.encode())
    for room in ROOMS:
        for path in sorted((root / room).glob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _compiled(function: Any, done: dict[Any, Any]) -> Any:
    """The function for numba, the functions it calls before it; `done` holds those so far."""
    if function not in done:
        if function in DISPATCHED:
            folder, name = DISPATCHED[function]
            found = [getattr(plugins.find(folder, file), name) for file in plugins.names(folder)]
            done[function] = _chain([_compiled(policy, done) for policy in found])
        else:
            found = _with_compiled_world(function, done)
            is_apart = function.__module__ in APART
            done[function] = _called(found) if is_apart else _inlined(found)
    return done[function]


def _with_compiled_world(function: Any, done: dict[Any, Any]) -> Any:
    world = dict(function.__globals__)
    for name in _globals_read(function):
        if isinstance(world.get(name), FunctionType):
            world[name] = _compiled(world[name], done)
    return FunctionType(function.__code__, world, function.__name__)


def _globals_read(function: Any) -> set[str]:
    """Names it takes from its module; names of fields, which may be the same, are not."""
    codes = dis.get_instructions(function)
    return {str(code.argval) for code in codes if code.opname == "LOAD_GLOBAL"}


def _chain(policies: list[Any]) -> Any:
    """One function that takes a code and calls the policy of that place."""
    first, *others = policies
    if not others:

        def last(code: int, *given: Any) -> Any:
            return first(*given)

        return _inlined(last)
    rest = _chain(others)

    def choose(code: int, *given: Any) -> Any:
        if code == 0:
            return first(*given)
        return rest(code - 1, *given)

    return _inlined(choose)


def _called(function: Any) -> Any:
    """Part of the loop as a function of its own; what is not said here its caller would decide."""
    compiler: Any = numba.njit(forceinline=False, error_model="numpy", **WITHOUT_WRAPPERS)
    return compiler(function)


def _inlined(function: Any) -> Any:
    """Part of the loop, never called from Python: faster to run, and faster to compile."""
    compiler: Any = numba.njit(forceinline=True, error_model="numpy", **WITHOUT_WRAPPERS)
    return compiler(function)
