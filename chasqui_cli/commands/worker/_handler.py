"""A user's handler, found by `module:attribute`: where its file is, that no other user can write there, and what it is.

Nothing is imported before its place was looked at.
"""

from __future__ import annotations

import importlib
import inspect
import os
import stat
import sys
import traceback
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chasqui_cli.output.stdio import print_stderr

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class LoadedHandler(NamedTuple):
    """A handler, the file it comes from, and the queue it declares."""

    handler: Callable[[Any], Any]
    file: Path
    queue: str | None


def load_handler(target: str, app_dir: Path) -> LoadedHandler:
    """The handler behind `module:attribute`, looked for in a directory first; raises `ConfigError`."""
    from chasqui.errors import ArgumentError

    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or not attribute:
        raise ArgumentError(f"{target!r} names no handler", hint="write MODULE:HANDLER, as in mail.jobs:send")
    if not app_dir.is_dir():
        raise ArgumentError(f"there is no directory {app_dir}", hint="--app-dir is where your modules are")
    place = app_dir.resolve()
    _check_not_world_writable(place)
    if str(place) not in sys.path[:1]:
        sys.path.insert(0, str(place))
    file = _find_module_file(module_name, place)
    module = _import_module(module_name, file)
    return _check_handler(_get_attribute(module, module_name, attribute), target, file)


def _find_module_file(module_name: str, place: Path) -> Path:
    """The module's file, found part by part without running any of them."""
    from chasqui.errors import ArgumentError

    importlib.invalidate_caches()
    where: list[str] = []
    known, file = "", place
    for part in module_name.split("."):
        known = f"{known}.{part}" if known else part
        spec: ModuleSpec | None = PathFinder.find_spec(known, where if known != part else None)
        if spec is None or not (spec.origin or spec.submodule_search_locations):
            raise ArgumentError(
                f"there is no module {known!r}", hint=f"it was looked for in {place}; --app-dir names another"
            )
        where = list(spec.submodule_search_locations or [])
        for one in [*where, *([spec.origin] if spec.origin else [])]:
            _check_not_world_writable(Path(one).resolve())
        file = Path(spec.origin or where[0]).resolve()
    return file


def _check_not_world_writable(path: Path) -> None:
    """What everybody may write, anybody may make run. A sticky directory further up, such as /tmp, does no harm."""
    from chasqui.errors import ConfigError

    for one in (path, *path.parents):
        mode = one.stat().st_mode
        sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
        if mode & stat.S_IWOTH and not (sticky and one != path):
            raise ConfigError(f"everybody may write to {one}, so it is not imported from", hint=f"chmod o-w {one}")


def _import_module(module_name: str, file: Path) -> ModuleType:
    from chasqui.errors import ConfigError

    try:
        return importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a user's module raises is reported
        for line in _user_traceback(error):
            print_stderr(line)
        raise ConfigError(
            f"{module_name} cannot be imported: {type(error).__name__}: {error}",
            hint=f"the trace above is that of your own code, {file}",
        ) from None


def _user_traceback(error: BaseException) -> list[str]:
    """The trace without our frames and those of the import system."""
    ours = (os.path.dirname(__file__), "<frozen importlib", os.path.dirname(importlib.__file__))  # noqa: PTH120
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename.startswith(ours):
        trace = trace.tb_next
    parts = traceback.format_exception(type(error), error, trace)
    return [line for part in parts for line in part.rstrip("\n").splitlines()]


def _get_attribute(module: ModuleType, module_name: str, path: str) -> Any:
    from difflib import get_close_matches

    from chasqui.errors import ArgumentError

    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, dir(found), 1)
            hint = f"did you mean {near[0]!r}?" if near else "the handler is what stands after the colon"
            raise ArgumentError(f"{module_name} has no {path!r}", hint=hint)
        found = getattr(found, part)
    return found


def _check_handler(found: Any, target: str, file: Path) -> LoadedHandler:
    """A function, or what has one as its `handler`; and the `queue` it names, if it does."""
    from chasqui.errors import ArgumentError

    handler = getattr(found, "handler", found)
    if inspect.isclass(found) or not callable(handler):
        what = "a class" if inspect.isclass(found) else f"of type {type(handler).__name__}"
        raise ArgumentError(
            f"{target} is {what}, not a handler", hint="a handler is a function that takes a job, plain or async"
        )
    try:
        inspect.signature(handler).bind(object())
    except TypeError:
        raise ArgumentError(
            f"{target} does not take one argument", hint="a handler is called with the job and nothing else"
        ) from None
    except ValueError:
        pass  # some built-in functions have none
    queue = getattr(found, "queue", None)
    return LoadedHandler(handler, file, queue if isinstance(queue, str) else None)
