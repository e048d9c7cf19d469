"""What is wrong with RSMQ's data, and how it is put right: findings first, repairs only of those one asks for.

Every repair looks again before it writes, so a finding that has resolved itself, or a message that came meanwhile,
is left alone, and repairing twice is repairing once. How the damage comes about is told in `docs/foreign.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from chasqui.foreign.cluster_slots import SPLIT_MESSAGE, is_cross_slot_error
from chasqui.foreign.common_calls import clock
from chasqui.foreign.decoding import to_number, to_text
from chasqui.foreign.examined import Coverage, DoctorResult
from chasqui.foreign.rsmq import limits, message_queries
from chasqui.foreign.rsmq import rsmq_calls as calls
from chasqui.server.commands import parse_server_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.foreign.rsmq.keys import RsmqKeys
    from chasqui.foreign.rsmq.message_queries import MessagePage
    from chasqui.foreign.rsmq.message_values import Message
    from chasqui.server.flow import Call, Flow

FIELDS_PER_SCAN = 1000
MIN_MICROSECONDS = 10**14
"""Scores beyond are no ms: the year 5138."""
_EXPECTED = ("zset", "hash", "set", "zset")


class RsmqProblem(StrEnum):
    """What can be wrong."""

    WRONG_TYPE = "wrong-type"
    GHOST = "ghost"
    UNLISTED = "unlisted"
    PHANTOM = "phantom"
    STRAY_FIELD = "stray-field"
    NO_BODY = "no-body"
    NO_FIRST_RECEIVE = "no-first-receive"
    BAD_COUNT = "bad-count"
    MICROSECONDS = "microseconds"
    MILLISECONDS_VT = "milliseconds-vt"
    FRACTION = "fraction"
    NOT_A_NUMBER = "not-a-number"
    PARKED = "parked"
    SPLIT = "split"


REPAIRABLE = frozenset(RsmqProblem) - {RsmqProblem.WRONG_TYPE, RsmqProblem.PARKED, RsmqProblem.SPLIT}
"""A key of another type and messages on their way elsewhere are for a human to decide about."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that is wrong: with the queue, a field of its hash, or a message. `seen` is what stood there."""

    problem: RsmqProblem
    subject: str
    seen: str = ""
    advice: str = ""


def examine(keys: RsmqKeys) -> Flow[list[DoctorFinding]]:
    """Everything that is wrong with a queue. Bodies are not read; the hash is looked through on the server."""
    return (yield from examine_with_coverage(keys)).findings


def examine_with_coverage(keys: RsmqKeys, *, most: int | None = None) -> Flow[DoctorResult[DoctorFinding]]:
    """The same of up to `most` messages and as many fields, and how far that was."""
    [told] = yield [calls.read_snapshot(keys)]
    if is_cross_slot_error(told):
        return DoctorResult([DoctorFinding(RsmqProblem.SPLIT, keys.queue, advice=SPLIT_MESSAGE)])
    if isinstance(told, Exception):
        raise told
    _, types, depths, fields, listed, parked = told
    wrong = [
        DoctorFinding(RsmqProblem.WRONG_TYPE, key, found.decode(), f"rename or delete the key; it should be a {wanted}")
        for key, found, wanted in zip(_queue_keys(keys), types, _EXPECTED, strict=True)
        if found.decode() not in {wanted, "none"}
    ]
    if wrong:
        return DoctorResult(wrong)
    found = _queue_findings(keys, bool(depths[0]), fields, listed=bool(listed))
    if parked:
        found.append(
            DoctorFinding(RsmqProblem.PARKED, keys.in_migration, str(parked), "finish the migration, or give them back")
        )
    fields_found, fields_looked = yield from _field_findings(keys, most)
    messages_found, messages_looked = yield from _message_findings(keys, most)
    return DoctorResult(
        found + fields_found + messages_found,
        (Coverage("messages", messages_looked, max(messages_looked, depths[0])), fields_looked),
    )


def repair(
    keys: RsmqKeys, findings: Iterable[DoctorFinding], *, only: frozenset[RsmqProblem] = REPAIRABLE
) -> Flow[int]:
    """Put right what was found, as far as asked; answers how many things were."""
    return sum((yield from repair_each(keys, [one for one in findings if one.problem in only & REPAIRABLE])))


def repair_each(keys: RsmqKeys, findings: Sequence[DoctorFinding]) -> Flow[list[bool]]:
    """The same, all that can be; answers for each whether it was put right: not, if it was not so any more."""
    if not findings:
        return []
    [now] = yield [clock()]
    told = yield [_repair_call(keys, finding, parse_server_time(now)) for finding in findings]
    if any(finding.problem is RsmqProblem.GHOST for finding in findings):
        yield [calls.add_to_queue_list(keys)]
    return [
        bool(answer[0] if isinstance(answer, list) else answer) or finding.problem is RsmqProblem.GHOST
        for finding, answer in zip(findings, told, strict=True)
    ]


def _queue_keys(keys: RsmqKeys) -> tuple[str, ...]:
    return keys.messages, keys.hash, keys.queues, keys.in_migration


def _queue_findings(
    keys: RsmqKeys, has_messages: bool, fields: Sequence[bytes | None], *, listed: bool
) -> list[DoctorFinding]:
    stored = dict(zip(calls.ATTRIBUTES, fields, strict=False))
    needed = [stored.get(name) for name in ("vt", "delay", "maxsize")]
    if None in needed:
        if not fields and not has_messages:
            gone = DoctorFinding(RsmqProblem.PHANTOM, keys.queue, advice="it is listed, but there is no such queue")
            return [gone] if listed else []
        advice = "no client sees its messages; give it the attributes it lacks, and list it"
        return [DoctorFinding(RsmqProblem.GHOST, keys.queue, advice=advice)]
    found = [] if listed else [DoctorFinding(RsmqProblem.UNLISTED, keys.queue, advice="no client lists it")]
    for name, raw in stored.items():
        if raw is not None and (odd := _attribute_finding(name, to_text(raw), stored)):
            found.append(odd)
    return found


def _attribute_finding(name: str, raw: str, stored: dict[str, bytes | None]) -> DoctorFinding | None:
    value = to_number(raw)
    if value is None:
        return DoctorFinding(RsmqProblem.NOT_A_NUMBER, name, raw, "clients fail on it")
    if value != int(value):
        return DoctorFinding(RsmqProblem.FRACTION, name, raw, "npm rsmq cuts it off, Java and Rust clients fail on it")
    totals = stored.get("totalsent") == stored.get("totalrecv") == b"0"
    if name in {"vt", "delay"} and value >= 1000 and value % 1000 == 0 and totals:
        advice = "the Rust client wrote it in milliseconds; all others take it for seconds"
        return DoctorFinding(RsmqProblem.MILLISECONDS_VT, name, raw, advice)
    return None


def _field_findings(keys: RsmqKeys, most: int | None) -> Flow[tuple[list[DoctorFinding], Coverage]]:
    found: list[DoctorFinding] = []
    cursor, looked = b"0", 0
    [total] = yield [calls.field_count(keys)]
    while True:
        [(cursor, names)] = yield [calls.find_stray_fields(keys, cursor, count=FIELDS_PER_SCAN)]
        found += [DoctorFinding(RsmqProblem.STRAY_FIELD, to_text(name), advice="its message is gone") for name in names]
        looked += FIELDS_PER_SCAN
        if cursor == b"0":
            return found, Coverage("fields", total, total)
        if most is not None and looked >= most:
            return found, Coverage("fields", min(looked, total), total)


def _message_findings(keys: RsmqKeys, most: int | None) -> Flow[tuple[list[DoctorFinding], int]]:
    found: list[DoctorFinding] = []
    after: Message | None = None
    looked = 0
    while most is None or looked < most:
        count = message_queries.PAGE if most is None else min(message_queries.PAGE, most - looked)
        page: MessagePage = yield from message_queries.read_page(keys, after=after, count=count, preview=0)
        for message in page.messages:
            found += _findings_of_message(message)
        looked, after = looked + len(page.messages), page.after
        if after is None:
            break
    return found, looked


def _findings_of_message(message: Message) -> list[DoctorFinding]:
    found: list[DoctorFinding] = []
    if message.size is None:
        found.append(
            DoctorFinding(RsmqProblem.NO_BODY, message.id, message.score, "it is delivered with nothing in it")
        )
    if message.receives_seen and message.receives is None:
        found.append(
            DoctorFinding(RsmqProblem.BAD_COUNT, message.id, message.receives_seen, "no client can receive it")
        )
    elif message.receives and message.first_received_ms is None:
        found.append(DoctorFinding(RsmqProblem.NO_FIRST_RECEIVE, message.id, advice="PyRSMQ fails on it"))
    if float(message.score) >= MIN_MICROSECONDS:
        advice = "a Rust client wrote microseconds; no other will ever see it"
        found.append(DoctorFinding(RsmqProblem.MICROSECONDS, message.id, message.score, advice))
    return found


def _repair_call(keys: RsmqKeys, finding: DoctorFinding, now_ms: int) -> Call:
    match finding.problem:
        case RsmqProblem.GHOST:
            return calls.create_queue(
                keys, vt_s=limits.VT_S, delay_s=limits.DELAY_S, maxsize=limits.MAXSIZE, now_s=now_ms // 1000
            )
        case RsmqProblem.UNLISTED:
            return calls.add_to_queue_list(keys)
        case RsmqProblem.PHANTOM:
            return calls.remove_from_queue_list(keys)
        case RsmqProblem.STRAY_FIELD:
            return calls.delete_stray_fields(keys, [finding.subject])
        case RsmqProblem.NO_BODY:
            return calls.delete_empty_messages(keys, [finding.subject])
        case RsmqProblem.NO_FIRST_RECEIVE:
            return calls.set_field(keys, f"{finding.subject}:fr", seen="", value=now_ms)
        case RsmqProblem.BAD_COUNT:
            return calls.set_field(keys, f"{finding.subject}:rc", seen=finding.seen, value=1)
        case RsmqProblem.MICROSECONDS:
            score = int(float(finding.seen)) // 1000
            return calls.reschedule(keys, [finding.subject, finding.seen, score])
        case _:
            return calls.set_field(keys, finding.subject, seen=finding.seen, value=_corrected_value(finding))


def _corrected_value(finding: DoctorFinding) -> int:
    """What an attribute should be: whole seconds, as npm rsmq reads a fraction, or its default."""
    value = to_number(finding.seen)
    if value is None:
        return {"vt": limits.VT_S, "delay": limits.DELAY_S, "maxsize": limits.MAXSIZE}.get(finding.subject, 0)
    return int(value) // (1000 if finding.problem is RsmqProblem.MILLISECONDS_VT else 1)
