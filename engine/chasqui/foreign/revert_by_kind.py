"""How changes to other systems' queues are taken back, by the kind of their journal items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.foreign.joblist import joblist_undo
from chasqui.foreign.rsmq import rsmq_undo

if TYPE_CHECKING:
    from chasqui.undo.undo_items import Revert

REVERT_BY_KIND: dict[str, Revert] = {"joblist": joblist_undo.revert, "rsmq": rsmq_undo.revert}
