"""The engine behind the cockpit. Names are resolved on first use, so `import chasqui` costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msgpack import ExtType as ExtType
    from msgpack import Timestamp as Timestamp

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
    from chasqui.fleet import run_fleet as run_fleet
    from chasqui.jobs import Sighting as Sighting
    from chasqui.jobs import delayed as delayed
    from chasqui.jobs import waiting as waiting
    from chasqui.options import Producer as ProducerOptions
    from chasqui.queue import Queue as Queue
    from chasqui.queue_events import QueueEvent as QueueEvent
    from chasqui.queue_events import QueueEvents as QueueEvents
    from chasqui.records import BackoffSpec as BackoffSpec
    from chasqui.records import Job as Job
    from chasqui.records import MissedFiresPolicy as MissedFiresPolicy
    from chasqui.records import RepeatableMeta as RepeatableMeta
    from chasqui.records import RepeatPattern as RepeatPattern
    from chasqui.records import SyncJob as SyncJob
    from chasqui.server.address import Address as Address
    from chasqui.server.address import Tls as Tls
    from chasqui.server.address import parse as parse_address
    from chasqui.server.call import Flow as Flow
    from chasqui.server.commands import Commands as Commands
    from chasqui.server.embedded import EmbeddedServer as EmbeddedServer
    from chasqui.server.embedded import EmbeddedStatus as EmbeddedStatus
    from chasqui.server.embedded import default_directory as embedded_directory
    from chasqui.server.features import Features as Features
    from chasqui.server.features import plain as plain_features
    from chasqui.server.link import AsyncLink as AsyncLink
    from chasqui.server.link import Link as Link
    from chasqui.server.report import ServerReport as ServerReport
    from chasqui.server.report import report as server_report
    from chasqui.server.scripts import reference as lua_reference
    from chasqui.server.secret import Secret as Secret
    from chasqui.server.secret import read_password_file as read_password_file
    from chasqui.server.secret import redact as redact
    from chasqui.sync_queue import SyncQueue as SyncQueue
    from chasqui.wire.delayed_member import DelayedMember as DelayedMember
    from chasqui.wire.delayed_member import decode as decode_delayed_member
    from chasqui.wire.envelope import Envelope as Envelope
    from chasqui.wire.envelope import decode as decode_envelope
    from chasqui.wire.keys import Keys as Keys
    from chasqui.wire.packed import Pairs as Pairs
    from chasqui.wire.packed import Undecodable as Undecodable
    from chasqui.wire.payload import Payload as Payload
    from chasqui.wire.repeat_spec import RepeatSpec as RepeatSpec
    from chasqui.wire.repeat_spec import decode as decode_repeat_spec
    from chasqui.wire.result_value import decode as decode_result
    from chasqui.wire.retry_override import Backoff as Backoff
    from chasqui.wire.retry_override import RetryOverride as RetryOverride
    from chasqui.worker import Worker as Worker
    from chasqui.worker import serve as serve

__all__ = [
    "Address",
    "ArgumentError",
    "AsyncLink",
    "Backoff",
    "BackoffSpec",
    "ChasquiError",
    "Commands",
    "ConfigError",
    "DelayedMember",
    "EmbeddedServer",
    "EmbeddedStatus",
    "Envelope",
    "ExtType",
    "Features",
    "Flow",
    "Job",
    "Keys",
    "Link",
    "MissedFiresPolicy",
    "NotSupportedError",
    "Pairs",
    "Payload",
    "ProducerOptions",
    "Queue",
    "QueueEvent",
    "QueueEvents",
    "QueueFull",
    "RepeatPattern",
    "RepeatSpec",
    "RepeatableMeta",
    "RetryOverride",
    "Secret",
    "ServerError",
    "ServerReport",
    "Sighting",
    "SyncJob",
    "SyncQueue",
    "SystemClock",
    "Timestamp",
    "Tls",
    "Unconfirmed",
    "Undecodable",
    "Unreachable",
    "UnrecoverableError",
    "Worker",
    "decode_delayed_member",
    "decode_envelope",
    "decode_repeat_spec",
    "decode_result",
    "delayed",
    "embedded_directory",
    "lua_reference",
    "parse_address",
    "plain_features",
    "read_password_file",
    "redact",
    "run_fleet",
    "serve",
    "server_report",
    "waiting",
]

_HOMES = {
    "Address": "server.address",
    "ArgumentError": "errors",
    "AsyncLink": "server.link",
    "Backoff": "wire.retry_override",
    "BackoffSpec": "records",
    "ChasquiError": "errors",
    "Commands": "server.commands",
    "ConfigError": "errors",
    "DelayedMember": "wire.delayed_member",
    "EmbeddedServer": "server.embedded",
    "EmbeddedStatus": "server.embedded",
    "Envelope": "wire.envelope",
    "ExtType": "wire.packed",
    "Features": "server.features",
    "Flow": "server.call",
    "Job": "records",
    "Keys": "wire.keys",
    "Link": "server.link",
    "MissedFiresPolicy": "records",
    "NotSupportedError": "errors",
    "Pairs": "wire.packed",
    "Payload": "wire.payload",
    "ProducerOptions": "options:Producer",
    "Queue": "queue",
    "QueueEvent": "queue_events",
    "QueueEvents": "queue_events",
    "QueueFull": "errors",
    "RepeatPattern": "records",
    "RepeatSpec": "wire.repeat_spec",
    "RepeatableMeta": "records",
    "RetryOverride": "wire.retry_override",
    "Secret": "server.secret",
    "ServerError": "errors",
    "ServerReport": "server.report",
    "Sighting": "jobs",
    "SyncJob": "records",
    "SyncQueue": "sync_queue",
    "SystemClock": "clock",
    "Timestamp": "wire.packed",
    "Tls": "server.address",
    "Unconfirmed": "errors",
    "Undecodable": "wire.packed",
    "Unreachable": "errors",
    "UnrecoverableError": "errors",
    "Worker": "worker",
    "decode_delayed_member": "wire.delayed_member:decode",
    "decode_envelope": "wire.envelope:decode",
    "decode_repeat_spec": "wire.repeat_spec:decode",
    "decode_result": "wire.result_value:decode",
    "delayed": "jobs",
    "embedded_directory": "server.embedded:default_directory",
    "lua_reference": "server.scripts:reference",
    "parse_address": "server.address:parse",
    "plain_features": "server.features:plain",
    "read_password_file": "server.secret",
    "redact": "server.secret",
    "run_fleet": "fleet",
    "serve": "worker",
    "server_report": "server.report:report",
    "waiting": "jobs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'chasqui' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    found = getattr(import_module(f"chasqui.{module}"), attribute or name)
    globals()[name] = found  # the next one who asks does not come here
    return found


def __dir__() -> list[str]:
    return sorted(_HOMES)
