"""What is wrong with RSMQ's data, and how it is put right: findings first, repairs only of those one asks for.

Every repair looks again before it writes, so a finding that has resolved itself, or a message that came meanwhile,
is left alone, and repairing twice is repairing once. How the damage comes about is told in `docs/foreign.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from chasqui.foreign.examined import Examined, Looked
from chasqui.foreign.rsmq import rules, survey
from chasqui.foreign.slots import SPLIT, is_split
from chasqui.foreign.stored import number, text
from chasqui.server.commands import rsmq_calls as calls
from chasqui.server.commands import time_ms
from chasqui.server.commands.foreign_calls import clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chasqui.foreign.rsmq.survey import Page
    from chasqui.foreign.rsmq.values import Message
    from chasqui.server.call import Call, Flow
    from chasqui.wire.rsmq_keys import RsmqKeys

FIELDS = 1000
MICROSECONDS_FROM = 10**14
"""Scores beyond are no ms: the year 5138."""
_EXPECTED = ("zset", "hash", "set", "zset")


class Ailment(StrEnum):
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


REPAIRABLE = frozenset(Ailment) - {Ailment.WRONG_TYPE, Ailment.PARKED, Ailment.SPLIT}
"""A key of another type and messages on their way elsewhere are for a human to decide about."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: with the queue, a field of its hash, or a message. `seen` is what stood there."""

    ailment: Ailment
    subject: str
    seen: str = ""
    advice: str = ""


def examine(keys: RsmqKeys) -> Flow[list[Finding]]:
    """Everything that is wrong with a queue. Bodies are not read; the hash is looked through on the server."""
    return (yield from look_over(keys)).findings


def look_over(keys: RsmqKeys, *, most: int | None = None) -> Flow[Examined[Finding]]:
    """The same of up to `most` messages and as many fields, and how far that was."""
    [told] = yield [calls.look(keys)]
    if is_split(told):
        return Examined([Finding(Ailment.SPLIT, keys.queue, advice=SPLIT)])
    if isinstance(told, Exception):
        raise told
    _, types, depths, fields, listed, parked = told
    wrong = [
        Finding(Ailment.WRONG_TYPE, key, found.decode(), f"rename or delete the key; it should be a {wanted}")
        for key, found, wanted in zip(_keys(keys), types, _EXPECTED, strict=True)
        if found.decode() not in {wanted, "none"}
    ]
    if wrong:
        return Examined(wrong)
    found = _about_queue(keys, bool(depths[0]), fields, listed=bool(listed))
    if parked:
        found.append(
            Finding(Ailment.PARKED, keys.parked, str(parked), "finish the migration, or give them back")
        )
    fields_found, fields_looked = yield from _about_fields(keys, most)
    messages_found, messages_looked = yield from _about_messages(keys, most)
    return Examined(
        found + fields_found + messages_found,
        (Looked("messages", messages_looked, max(messages_looked, depths[0])), fields_looked),
    )


def repair(
    keys: RsmqKeys, findings: Iterable[Finding], *, only: frozenset[Ailment] = REPAIRABLE
) -> Flow[int]:
    """Put right what was found, as far as asked; answers how many things were."""
    return sum((yield from repair_each(keys, [one for one in findings if one.ailment in only & REPAIRABLE])))


def repair_each(keys: RsmqKeys, findings: Sequence[Finding]) -> Flow[list[bool]]:
    """The same, all that can be; answers for each whether it was put right: not, if it was not so any more."""
    if not findings:
        return []
    [now] = yield [clock()]
    told = yield [_cure(keys, finding, time_ms(now)) for finding in findings]
    if any(finding.ailment is Ailment.GHOST for finding in findings):
        yield [calls.enlist(keys)]
    return [
        bool(answer[0] if isinstance(answer, list) else answer) or finding.ailment is Ailment.GHOST
        for finding, answer in zip(findings, told, strict=True)
    ]


def _keys(keys: RsmqKeys) -> tuple[str, ...]:
    return keys.messages, keys.hash, keys.queues, keys.parked


def _about_queue(
    keys: RsmqKeys, has_messages: bool, fields: Sequence[bytes | None], *, listed: bool
) -> list[Finding]:
    stored = dict(zip(calls.ATTRIBUTES, fields, strict=False))
    needed = [stored.get(name) for name in ("vt", "delay", "maxsize")]
    if None in needed:
        if not fields and not has_messages:
            gone = Finding(Ailment.PHANTOM, keys.queue, advice="it is listed, but there is no such queue")
            return [gone] if listed else []
        advice = "no client sees its messages; give it the attributes it lacks, and list it"
        return [Finding(Ailment.GHOST, keys.queue, advice=advice)]
    found = [] if listed else [Finding(Ailment.UNLISTED, keys.queue, advice="no client lists it")]
    for name, raw in stored.items():
        if raw is not None and (odd := _odd(name, text(raw), stored)):
            found.append(odd)
    return found


def _odd(name: str, raw: str, stored: dict[str, bytes | None]) -> Finding | None:
    value = number(raw)
    if value is None:
        return Finding(Ailment.NOT_A_NUMBER, name, raw, "clients fail on it")
    if value != int(value):
        return Finding(Ailment.FRACTION, name, raw, "npm rsmq cuts it off, Java and Rust clients fail on it")
    totals = stored.get("totalsent") == stored.get("totalrecv") == b"0"
    if name in {"vt", "delay"} and value >= 1000 and value % 1000 == 0 and totals:
        advice = "the Rust client wrote it in milliseconds; all others take it for seconds"
        return Finding(Ailment.MILLISECONDS_VT, name, raw, advice)
    return None


def _about_fields(keys: RsmqKeys, most: int | None) -> Flow[tuple[list[Finding], Looked]]:
    found: list[Finding] = []
    cursor, looked = b"0", 0
    [total] = yield [calls.field_count(keys)]
    while True:
        [(cursor, names)] = yield [calls.strays(keys, cursor, count=FIELDS)]
        found += [Finding(Ailment.STRAY_FIELD, text(name), advice="its message is gone") for name in names]
        looked += FIELDS
        if cursor == b"0":
            return found, Looked("fields", total, total)
        if most is not None and looked >= most:
            return found, Looked("fields", min(looked, total), total)


def _about_messages(keys: RsmqKeys, most: int | None) -> Flow[tuple[list[Finding], int]]:
    found: list[Finding] = []
    after: Message | None = None
    looked = 0
    while most is None or looked < most:
        count = survey.PAGE if most is None else min(survey.PAGE, most - looked)
        page: Page = yield from survey.page(keys, after=after, count=count, preview=0)
        for message in page.messages:
            found += _about_message(message)
        looked, after = looked + len(page.messages), page.after
        if after is None:
            break
    return found, looked


def _about_message(message: Message) -> list[Finding]:
    found: list[Finding] = []
    if message.size is None:
        found.append(
            Finding(Ailment.NO_BODY, message.id, message.score, "it is delivered with nothing in it")
        )
    if message.receives_seen and message.receives is None:
        found.append(
            Finding(Ailment.BAD_COUNT, message.id, message.receives_seen, "no client can receive it")
        )
    elif message.receives and message.first_received_ms is None:
        found.append(Finding(Ailment.NO_FIRST_RECEIVE, message.id, advice="PyRSMQ fails on it"))
    if float(message.score) >= MICROSECONDS_FROM:
        advice = "a Rust client wrote microseconds; no other will ever see it"
        found.append(Finding(Ailment.MICROSECONDS, message.id, message.score, advice))
    return found


def _cure(keys: RsmqKeys, finding: Finding, now_ms: int) -> Call:
    match finding.ailment:
        case Ailment.GHOST:
            return calls.create(
                keys, vt_s=rules.VT_S, delay_s=rules.DELAY_S, maxsize=rules.MAXSIZE, now_s=now_ms // 1000
            )
        case Ailment.UNLISTED:
            return calls.enlist(keys)
        case Ailment.PHANTOM:
            return calls.unlist(keys)
        case Ailment.STRAY_FIELD:
            return calls.drop_strays(keys, [finding.subject])
        case Ailment.NO_BODY:
            return calls.drop_empty(keys, [finding.subject])
        case Ailment.NO_FIRST_RECEIVE:
            return calls.set_field(keys, f"{finding.subject}:fr", seen="", value=now_ms)
        case Ailment.BAD_COUNT:
            return calls.set_field(keys, f"{finding.subject}:rc", seen=finding.seen, value=1)
        case Ailment.MICROSECONDS:
            score = int(float(finding.seen)) // 1000
            return calls.reschedule(keys, [finding.subject, finding.seen, score])
        case _:
            return calls.set_field(keys, finding.subject, seen=finding.seen, value=_right(finding))


def _right(finding: Finding) -> int:
    """What an attribute should be: whole seconds, as npm rsmq reads a fraction, or its default."""
    value = number(finding.seen)
    if value is None:
        return {"vt": rules.VT_S, "delay": rules.DELAY_S, "maxsize": rules.MAXSIZE}.get(finding.subject, 0)
    return int(value) // (1000 if finding.ailment is Ailment.MILLISECONDS_VT else 1)
