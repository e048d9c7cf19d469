"""What is wrong with RSMQ's data, and how it is put right: findings first, repairs only of those one asks for.

Every repair looks again before it writes, so a finding that has resolved itself, or a message that came meanwhile,
is left alone, and repairing twice is repairing once. `docs/foreign.md` describes how the damage comes about.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from chasqui.foreign import diagnosis
from chasqui.foreign.decoding import to_number, to_text
from chasqui.foreign.diagnosis import Coverage, DoctorFinding, DoctorResult, key_findings
from chasqui.foreign.rsmq import limits, message_queries
from chasqui.foreign.rsmq import rsmq_calls as calls
from chasqui.foreign.rsmq.keys import KEY_TYPES, NAMESPACE
from chasqui.health.findings import chasqui_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.foreign.rsmq.keys import RsmqKeys
    from chasqui.foreign.rsmq.message_queries import MessagePage
    from chasqui.foreign.rsmq.message_values import Message
    from chasqui.server.flow import Call, Flow

FIELDS_PER_SCAN = 1000
MIN_MICROSECONDS = 10**14
"""Scores beyond cannot be ms: that would be the year 5138."""


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
class RsmqDoctor:
    """Examines and repairs one queue; see `Doctor`."""

    keys: RsmqKeys
    repairable: ClassVar[frozenset[RsmqProblem]] = REPAIRABLE

    def examine(self, *, most: int | None = None) -> Flow[DoctorResult]:
        """The hash is searched on the server."""
        keys = self.keys
        [snapshot] = yield [calls.read_snapshot(keys)]
        if odd := key_findings(RsmqProblem, keys.queue, snapshot, keys.all_keys, KEY_TYPES):
            return DoctorResult(odd)
        _, _, depths, fields, listed, parked = snapshot
        found = _queue_findings(keys, bool(depths[0]), fields, listed=bool(listed))
        if parked:
            advice = "finish the migration, or give them back"
            found.append(DoctorFinding(RsmqProblem.PARKED, keys.in_migration, str(parked), advice))
        fields_found, fields_looked = yield from _field_findings(keys, most)
        messages_found, messages_looked = yield from _message_findings(keys, most)
        return DoctorResult(
            found + fields_found + messages_found,
            (Coverage("messages", messages_looked, max(messages_looked, depths[0])), fields_looked),
        )

    def repair_calls(self, finding: DoctorFinding, now_ms: int) -> list[Call]:
        """A ghost is repaired whatever was missing: its field count, the last reply, is never 0."""
        keys, subject, seen = self.keys, finding.subject, finding.seen
        match finding.problem:
            case RsmqProblem.GHOST:
                defaults = {"vt_s": limits.VT_S, "delay_s": limits.DELAY_S, "maxsize": limits.MAXSIZE}
                created = calls.create_queue(keys, **defaults, now_s=now_ms // 1000)
                return [created, calls.add_to_queue_list(keys), calls.field_count(keys)]
            case RsmqProblem.UNLISTED:
                return [calls.add_to_queue_list(keys)]
            case RsmqProblem.PHANTOM:
                return [calls.remove_from_queue_list(keys)]
            case RsmqProblem.STRAY_FIELD:
                return [calls.delete_stray_fields(keys, [subject])]
            case RsmqProblem.NO_BODY:
                return [calls.delete_empty_messages(keys, [subject])]
            case RsmqProblem.NO_FIRST_RECEIVE:
                return [calls.set_field(keys, f"{subject}:fr", seen="", value=now_ms)]
            case RsmqProblem.BAD_COUNT:
                return [calls.set_field(keys, f"{subject}:rc", seen=seen, value=1)]
            case RsmqProblem.MICROSECONDS:
                return [calls.reschedule(keys, [subject, seen, int(float(seen)) // 1000])]
            case _:
                return [calls.set_field(keys, subject, seen=seen, value=_corrected_value(finding))]

    def fix_command(self, finding: DoctorFinding) -> str:
        """A queue whose keys are in several slots is exported and imported under a hash tag."""
        queue, namespace = self.keys.queue, self.keys.namespace
        space = [] if namespace == NAMESPACE else ["--ns", namespace]
        match finding.problem:
            case RsmqProblem.PARKED:
                return chasqui_command("migrate", f"rsmq://{namespace}/{queue}", "chasqui://QUEUE")
            case RsmqProblem.SPLIT:
                tagged = ("--ns", f"{{{namespace}}}")
                create = chasqui_command("rsmq", "queue", "create", "-n", queue, *tagged)
                export = chasqui_command("rsmq", "export", queue, *space, "--show-secrets")
                return f"{create} && {export} | {chasqui_command('rsmq', 'import', queue, '-', *tagged, '--yes')}"
            case problem:
                return chasqui_command("rsmq", "doctor", queue, *space, "--repair", "--only", problem)


def examine(keys: RsmqKeys) -> Flow[list[DoctorFinding]]:
    """Everything that is wrong with a queue."""
    return (yield from RsmqDoctor(keys).examine()).findings


def repair(
    keys: RsmqKeys, findings: Iterable[DoctorFinding], *, only: frozenset[RsmqProblem] = REPAIRABLE
) -> Flow[int]:
    """Repair what was found, as far as asked; returns how many findings were repaired."""
    return (yield from diagnosis.repair(RsmqDoctor(keys), findings, only))


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


def _corrected_value(finding: DoctorFinding) -> int:
    """What an attribute should be: whole seconds, as npm rsmq reads a fraction, or its default."""
    value = to_number(finding.seen)
    if value is None:
        return {"vt": limits.VT_S, "delay": limits.DELAY_S, "maxsize": limits.MAXSIZE}.get(finding.subject, 0)
    return int(value) // (1000 if finding.problem is RsmqProblem.MILLISECONDS_VT else 1)
