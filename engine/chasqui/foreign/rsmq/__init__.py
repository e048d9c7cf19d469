"""RSMQ, as npm `rsmq` 0.12.4 has it. Names are resolved on first use.

Every function is a flow: `link.run(rsmq.send(rsmq.RsmqKeys("orders"), "hello"))`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from chasqui.foreign.rsmq.deeds import message_item as message_item
    from chasqui.foreign.rsmq.deeds import move_unchanged as move_unchanged
    from chasqui.foreign.rsmq.deeds import moved_item as moved_item
    from chasqui.foreign.rsmq.deeds import purge_unchanged as purge_unchanged
    from chasqui.foreign.rsmq.deeds import queue_item as queue_item
    from chasqui.foreign.rsmq.deeds import read_attributes as read_attributes
    from chasqui.foreign.rsmq.deeds import reschedule_unchanged as reschedule_unchanged
    from chasqui.foreign.rsmq.deeds import revert as revert
    from chasqui.foreign.rsmq.deeds import stray_items as stray_items
    from chasqui.foreign.rsmq.doctor import REPAIRABLE as REPAIRABLE
    from chasqui.foreign.rsmq.doctor import DoctorFinding as DoctorFinding
    from chasqui.foreign.rsmq.doctor import RsmqProblem as RsmqProblem
    from chasqui.foreign.rsmq.doctor import examine as examine
    from chasqui.foreign.rsmq.doctor import examine_with_coverage as examine_with_coverage
    from chasqui.foreign.rsmq.doctor import repair as repair
    from chasqui.foreign.rsmq.doctor import repair_each as repair_each
    from chasqui.foreign.rsmq.messages import Draft as Draft
    from chasqui.foreign.rsmq.messages import change_visibility as change_visibility
    from chasqui.foreign.rsmq.messages import delete as delete
    from chasqui.foreign.rsmq.messages import delete_many as delete_many
    from chasqui.foreign.rsmq.messages import pop as pop
    from chasqui.foreign.rsmq.messages import receive as receive
    from chasqui.foreign.rsmq.messages import receive_many as receive_many
    from chasqui.foreign.rsmq.messages import send as send
    from chasqui.foreign.rsmq.messages import send_many as send_many
    from chasqui.foreign.rsmq.queues import create_queue as create_queue
    from chasqui.foreign.rsmq.queues import drop_queue as drop_queue
    from chasqui.foreign.rsmq.queues import list_queues as list_queues
    from chasqui.foreign.rsmq.queues import queue_stats as queue_stats
    from chasqui.foreign.rsmq.queues import set_attributes as set_attributes
    from chasqui.foreign.rsmq.rows import parse_row as parse_row
    from chasqui.foreign.rsmq.rows import to_row as to_row
    from chasqui.foreign.rsmq.rules import QueueExists as QueueExists
    from chasqui.foreign.rsmq.rules import QueueNotFound as QueueNotFound
    from chasqui.foreign.rsmq.rules import RsmqError as RsmqError
    from chasqui.foreign.rsmq.rules import check_id as check_id
    from chasqui.foreign.rsmq.rules import check_name as check_name
    from chasqui.foreign.rsmq.survey import MessageFilter as MessageFilter
    from chasqui.foreign.rsmq.survey import MessagePage as MessagePage
    from chasqui.foreign.rsmq.survey import count_by_state as count_by_state
    from chasqui.foreign.rsmq.survey import messages_by_id as messages_by_id
    from chasqui.foreign.rsmq.survey import peek as peek
    from chasqui.foreign.rsmq.survey import read_message as read_message
    from chasqui.foreign.rsmq.survey import read_page as read_page
    from chasqui.foreign.rsmq.tending import MessageChanges as MessageChanges
    from chasqui.foreign.rsmq.tending import expire as expire
    from chasqui.foreign.rsmq.tending import hold as hold
    from chasqui.foreign.rsmq.tending import import_messages as import_messages
    from chasqui.foreign.rsmq.tending import move as move
    from chasqui.foreign.rsmq.tending import purge as purge
    from chasqui.foreign.rsmq.tending import release as release
    from chasqui.foreign.rsmq.tending import sweep as sweep
    from chasqui.foreign.rsmq.values import Message as Message
    from chasqui.foreign.rsmq.values import MessageCounts as MessageCounts
    from chasqui.foreign.rsmq.values import QueueAttributes as QueueAttributes
    from chasqui.foreign.rsmq.values import QueueStats as QueueStats
    from chasqui.wire.rsmq_keys import RsmqKeys as RsmqKeys

__getattr__, __dir__ = lazy_exports(__name__)
