"""The doctor of other systems' queues: what each system's rules find, its repair, and the same as findings of ours."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from chasqui.foreign.cluster_slots import SPLIT_MESSAGE, is_cross_slot_error, raise_if_refused
from chasqui.foreign.common_calls import read_time_ms
from chasqui.health.findings import Finding, Level, count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from enum import StrEnum

    from chasqui.server.flow import Call, Flow, Reply

MAX_NAMED = 5
"""How many of the subjects of one problem a finding names."""
_LEVELS = {
    "wrong-type": Level.CRITICAL,
    "expired": Level.NOTE,
    "phantom": Level.NOTE,
    "counters": Level.NOTE,
    "parked": Level.NOTE,
}


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that is wrong: with a queue, a key, a field, a message or a job.

    list_name: the list in which a job was found. seen: the value that was found. key: the key that is meant, where
    `fix_command` names one.
    """

    problem: StrEnum
    subject: str
    seen: str = ""
    advice: str = ""
    list_name: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a part of a queue was examined."""

    part: str
    scanned: int
    total: int


@dataclass(frozen=True, slots=True)
class DoctorResult:
    """What is wrong with a queue, as far as the doctor has examined it."""

    findings: list[DoctorFinding]
    places: tuple[Coverage, ...] = ()


class Doctor(Protocol):
    """What one system knows of the damage to one of its queues, and of its repair."""

    @property
    def repairable(self) -> frozenset[StrEnum]:
        """Problems that a repair can solve; the others are for a person to decide about."""
        ...

    def examine(self, *, most: int | None = None) -> Flow[DoctorResult]:
        """Everything that is wrong, among at most `most` of each part. Bodies are not read."""
        ...

    def repair_calls(self, finding: DoctorFinding, now_ms: int) -> list[Call]:
        """Calls that repair what was found, if it is still so; one of them returns something other than 0 if it was."""
        ...

    def fix_command(self, finding: DoctorFinding) -> str:
        """The command line that solves the problem, or shows more of it."""
        ...


@dataclass(frozen=True, slots=True)
class QueueDiagnosis:
    """What is wrong with a queue, one finding per problem, and how far it was examined."""

    findings: list[Finding]
    places: Sequence[Coverage]


def key_findings(
    problems: type[StrEnum], queue: str, snapshot: Reply, keys: Sequence[str], types: Sequence[str]
) -> list[DoctorFinding]:
    """What keeps a queue from being examined: keys in several slots of a cluster, or keys of another type."""
    if is_cross_slot_error(snapshot):
        return [DoctorFinding(problems("split"), queue, advice=SPLIT_MESSAGE)]
    return [
        DoctorFinding(
            problems("wrong-type"), key, found.decode(), f"rename or delete the key; it should be a {wanted}", key=key
        )
        for key, found, wanted in zip(keys, raise_if_refused(snapshot)[1], types, strict=True)
        if found.decode() not in {wanted, "none"}
    ]


def repair(doctor: Doctor, findings: Iterable[DoctorFinding], only: frozenset[StrEnum]) -> Flow[int]:
    """Repair what was found, as far as asked and possible; returns how many findings were."""
    return sum((yield from repair_each(doctor, [one for one in findings if one.problem in only & doctor.repairable])))


def repair_each(doctor: Doctor, findings: Sequence[DoctorFinding]) -> Flow[list[bool]]:
    """Repair these; returns for each whether it was repaired: not, if it was no longer so."""
    if not findings:
        return []
    now_ms = yield from read_time_ms()
    calls = [doctor.repair_calls(finding, now_ms) for finding in findings]
    replies = iter((yield [call for some in calls for call in some]))
    results = [[_is_done(next(replies)) for _ in some] for some in calls]
    return [any(some) for some in results]


def diagnose(doctor: Doctor, queue: str, *, most: int) -> Flow[QueueDiagnosis]:
    """Examine at most `most` of each part; `queue` is the name that the findings use."""
    examined = yield from doctor.examine(most=most)
    by_problem: dict[StrEnum, list[DoctorFinding]] = {}
    for one in examined.findings:
        by_problem.setdefault(one.problem, []).append(one)
    return QueueDiagnosis([_to_finding(doctor, queue, found) for found in by_problem.values()], examined.places)


def _is_done(reply: Reply) -> bool:
    return bool(reply[0] if isinstance(reply, list) else reply)


def _to_finding(doctor: Doctor, queue: str, found: Sequence[DoctorFinding]) -> Finding:
    first = found[0]
    code = str(first.problem)
    subjects = [one.subject for one in found[:MAX_NAMED]]
    about = subjects[0] if len(found) == 1 else f"{count_text(len(found), 'case')}, as {subjects[0]}"
    evidence = {"count": len(found), "subjects": subjects, "seen": [one.seen for one in found[:MAX_NAMED]]}
    level = _LEVELS.get(code, Level.WARNING)
    fix = (
        shlex.join(["redis-cli", "RENAME", first.key, f"{first.key}.aside"])
        if code == "wrong-type"
        else doctor.fix_command(first)
    )
    return Finding(level, code, f"{about}: {first.advice}", queue, evidence, fix)
