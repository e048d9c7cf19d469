"""RSMQ, as npm `rsmq` 0.12.4 has it. Names are resolved on first use.

Every function is a flow: `link.run(rsmq.send(rsmq.RsmqKeys("orders"), "hello"))`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from chasqui.foreign.rsmq.json_rows import parse_row as parse_row
    from chasqui.foreign.rsmq.json_rows import to_row as to_row
    from chasqui.foreign.rsmq.keys import RsmqKeys as RsmqKeys
    from chasqui.foreign.rsmq.limits import QueueExists as QueueExists
    from chasqui.foreign.rsmq.limits import QueueNotFound as QueueNotFound
    from chasqui.foreign.rsmq.limits import RsmqError as RsmqError
    from chasqui.foreign.rsmq.limits import check_id as check_id
    from chasqui.foreign.rsmq.limits import check_name as check_name
    from chasqui.foreign.rsmq.message_changes import ChangeOutcome as ChangeOutcome
    from chasqui.foreign.rsmq.message_changes import import_messages as import_messages
    from chasqui.foreign.rsmq.message_changes import move as move
    from chasqui.foreign.rsmq.message_changes import purge as purge
    from chasqui.foreign.rsmq.message_changes import reschedule as reschedule
    from chasqui.foreign.rsmq.message_queries import MessageFilter as MessageFilter
    from chasqui.foreign.rsmq.message_queries import MessagePage as MessagePage
    from chasqui.foreign.rsmq.message_queries import count_by_state as count_by_state
    from chasqui.foreign.rsmq.message_queries import messages_by_id as messages_by_id
    from chasqui.foreign.rsmq.message_queries import peek as peek
    from chasqui.foreign.rsmq.message_queries import read_message as read_message
    from chasqui.foreign.rsmq.message_queries import read_page as read_page
    from chasqui.foreign.rsmq.message_values import Message as Message
    from chasqui.foreign.rsmq.message_values import MessageCounts as MessageCounts
    from chasqui.foreign.rsmq.message_values import QueueAttributes as QueueAttributes
    from chasqui.foreign.rsmq.message_values import QueueStats as QueueStats
    from chasqui.foreign.rsmq.rsmq_doctor import REPAIRABLE as REPAIRABLE
    from chasqui.foreign.rsmq.rsmq_doctor import RsmqDoctor as RsmqDoctor
    from chasqui.foreign.rsmq.rsmq_doctor import RsmqProblem as RsmqProblem
    from chasqui.foreign.rsmq.rsmq_doctor import examine as examine
    from chasqui.foreign.rsmq.rsmq_doctor import repair as repair
    from chasqui.foreign.rsmq.rsmq_messages import Draft as Draft
    from chasqui.foreign.rsmq.rsmq_messages import change_visibility as change_visibility
    from chasqui.foreign.rsmq.rsmq_messages import delete as delete
    from chasqui.foreign.rsmq.rsmq_messages import delete_many as delete_many
    from chasqui.foreign.rsmq.rsmq_messages import pop as pop
    from chasqui.foreign.rsmq.rsmq_messages import prepare_messages as prepare_messages
    from chasqui.foreign.rsmq.rsmq_messages import receive as receive
    from chasqui.foreign.rsmq.rsmq_messages import receive_many as receive_many
    from chasqui.foreign.rsmq.rsmq_messages import send as send
    from chasqui.foreign.rsmq.rsmq_messages import send_many as send_many
    from chasqui.foreign.rsmq.rsmq_queues import create_queue as create_queue
    from chasqui.foreign.rsmq.rsmq_queues import drop_queue as drop_queue
    from chasqui.foreign.rsmq.rsmq_queues import list_queues as list_queues
    from chasqui.foreign.rsmq.rsmq_queues import queue_stats as queue_stats
    from chasqui.foreign.rsmq.rsmq_queues import read_attributes as read_attributes
    from chasqui.foreign.rsmq.rsmq_queues import set_attributes as set_attributes
    from chasqui.foreign.rsmq.rsmq_undo import message_item as message_item
    from chasqui.foreign.rsmq.rsmq_undo import moved_item as moved_item
    from chasqui.foreign.rsmq.rsmq_undo import queue_item as queue_item
    from chasqui.foreign.rsmq.rsmq_undo import stray_items as stray_items

if not TYPE_CHECKING:  # so that type checkers report a name that is not there
    __getattr__, __dir__ = lazy_exports(__name__)
