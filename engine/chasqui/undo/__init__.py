"""Taking changes back: one module per kind of journal item, with what is saved before the change and what reverts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.undo import (
    added_jobs,
    changed_delayed_jobs,
    changed_schedules,
    deleted_dead_letters,
    imported_dead_letters,
    replayed_dead_letters,
)

if TYPE_CHECKING:
    from chasqui.undo.undo_items import Revert

REVERT_BY_KIND: dict[str, Revert] = {
    "added": added_jobs.revert,
    "dead": deleted_dead_letters.revert,
    "delayed": changed_delayed_jobs.revert,
    "imported": imported_dead_letters.revert,
    "replayed": replayed_dead_letters.revert,
    "spec": changed_schedules.revert,
}
"""The kinds of items in a journal; those of other systems' queues are in `chasqui.foreign`."""
