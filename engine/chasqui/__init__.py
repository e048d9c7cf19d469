"""Job queues in Redis. Names are imported on first use, so `import chasqui` costs nothing.

The first block of names is for programs that use queues; `docs/engine.md` lists them. The second is for tools, which also
use the packages `cron`, `foreign`, `health`, `inspect`, `operate`, `produce`, `schedule`, `spark`, `undo`, and the modules
`defaults`, `errors` and `queue_events`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from chasqui.clock import SystemClock as SystemClock
    from chasqui.errors import ArgumentError as ArgumentError
    from chasqui.errors import ChasquiError as ChasquiError
    from chasqui.errors import ConfigError as ConfigError
    from chasqui.errors import NotSupportedError as NotSupportedError
    from chasqui.errors import QueueFull as QueueFull
    from chasqui.errors import ServerError as ServerError
    from chasqui.errors import Unconfirmed as Unconfirmed
    from chasqui.errors import Unreachable as Unreachable
    from chasqui.errors import UnrecoverableError as UnrecoverableError
    from chasqui.models import BackoffSpec as BackoffSpec
    from chasqui.models import Job as Job
    from chasqui.models import MissedFiresPolicy as MissedFiresPolicy
    from chasqui.models import RepeatableMeta as RepeatableMeta
    from chasqui.models import RepeatPattern as RepeatPattern
    from chasqui.models import SyncJob as SyncJob
    from chasqui.queue import Queue as Queue
    from chasqui.queue_events import QueueEvent as QueueEvent
    from chasqui.queue_events import QueueEvents as QueueEvents
    from chasqui.server.embedded.embedded_server import EmbeddedServer as EmbeddedServer
    from chasqui.server.link import AsyncLink as AsyncLink
    from chasqui.server.link import Link as Link
    from chasqui.sync_queue import SyncQueue as SyncQueue
    from chasqui.wire.msgpack_codec import ExtType as ExtType
    from chasqui.wire.msgpack_codec import MsgpackMap as MsgpackMap
    from chasqui.wire.msgpack_codec import Timestamp as Timestamp
    from chasqui.wire.msgpack_codec import Undecodable as Undecodable
    from chasqui.worker import Worker as Worker
    from chasqui.worker import serve as serve
    from chasqui.worker_fleet import run_fleet as run_fleet

if TYPE_CHECKING:  # for tools
    from chasqui.consume.consumer import is_async_handler as is_async_handler
    from chasqui.defaults import ProducerOptions as ProducerOptions
    from chasqui.server.address import Address as Address
    from chasqui.server.address import Tls as Tls
    from chasqui.server.address import parse_address as parse_address
    from chasqui.server.commands import Commands as Commands
    from chasqui.server.embedded.embedded_server import embedded_directory as embedded_directory
    from chasqui.server.features import Features as Features
    from chasqui.server.features import no_features as no_features
    from chasqui.server.flow import Flow as Flow
    from chasqui.server.flow import as_flow as as_flow
    from chasqui.server.flow import run_together as run_together
    from chasqui.server.scripts import lua_reference as lua_reference
    from chasqui.server.secret import Secret as Secret
    from chasqui.server.secret import read_password_file as read_password_file
    from chasqui.server.secret import redact as redact
    from chasqui.server.server_info import ServerInfo as ServerInfo
    from chasqui.server.server_info import server_info as server_info
    from chasqui.supervision.leader_lock import force_unlock as force_unlock
    from chasqui.supervision.leader_lock import read_lock as read_lock
    from chasqui.wire.delayed_member import DelayedMember as DelayedMember
    from chasqui.wire.delayed_member import decode as decode_delayed_member
    from chasqui.wire.entry_id import sort_key as entry_order
    from chasqui.wire.entry_id import time_ms as entry_time_ms
    from chasqui.wire.envelope import Envelope as Envelope
    from chasqui.wire.envelope import decode as decode_envelope
    from chasqui.wire.keys import Keys as Keys
    from chasqui.wire.payload import Payload as Payload
    from chasqui.wire.repeat_spec import RepeatSpec as RepeatSpec
    from chasqui.wire.repeat_spec import decode as decode_repeat_spec
    from chasqui.wire.result_value import decode as decode_result
    from chasqui.wire.retry_override import Backoff as Backoff
    from chasqui.wire.retry_override import RetryOverride as RetryOverride

if not TYPE_CHECKING:  # so that type checkers report a name that is not there
    __getattr__, __dir__ = lazy_exports(__name__)
