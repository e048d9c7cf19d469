"""The doctors' findings of other systems' queues in our own findings' words: one for each ailment of a queue, with
how many have it, some of them by name, and the command line that mends it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chasqui.foreign import joblist, rsmq
from chasqui.foreign.rsmq.keys import RsmqKeys
from chasqui.health.findings import Finding, Level, chasqui_command, count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign.examined import Coverage
    from chasqui.foreign.joblist.keys import JobListKeys
    from chasqui.server.flow import Flow

MAX_NAMED = 5
"""So many of those that have an ailment are named."""
_LEVELS = {
    "wrong-type": Level.CRITICAL,
    "expired": Level.NOTE,
    "phantom": Level.NOTE,
    "counters": Level.NOTE,
    "parked": Level.NOTE,
}


@dataclass(frozen=True, slots=True)
class QueueDiagnosis:
    """What is wrong with a queue, and how far its places were looked at."""

    findings: list[Finding]
    places: Sequence[Coverage]


def diagnose(keys: RsmqKeys | JobListKeys, queue: str, *, most: int) -> Flow[QueueDiagnosis]:
    """Examine up to `most` of everything; `queue` is what it is called in the findings."""
    examined: Any
    if isinstance(keys, RsmqKeys):
        examined = yield from rsmq.examine_with_coverage(keys, most=most)
    else:
        examined = yield from joblist.examine_with_coverage(keys, most=most)
    by: dict[str, list[Any]] = {}
    for one in examined.findings:
        by.setdefault(str(one.problem), []).append(one)
    return QueueDiagnosis([_to_finding(keys, queue, found) for found in by.values()], examined.places)


def _to_finding(keys: RsmqKeys | JobListKeys, queue: str, found: Sequence[Any]) -> Finding:
    first = found[0]
    code = str(first.problem)
    subjects = [one.subject for one in found[:MAX_NAMED]]
    about = subjects[0] if len(found) == 1 else f"{count_text(len(found), 'case')}, as {subjects[0]}"
    evidence = {"count": len(found), "subjects": subjects, "seen": [one.seen for one in found[:MAX_NAMED]]}
    level = _LEVELS.get(code, Level.WARNING)
    return Finding(level, code, f"{about}: {first.advice}", queue, evidence, _fix_command(keys, first))


def _fix_command(keys: RsmqKeys | JobListKeys, one: Any) -> str | None:
    code = str(one.problem)
    if isinstance(keys, RsmqKeys):
        space = [] if keys.namespace == rsmq.RsmqKeys("").namespace else ["--ns", keys.namespace]
        repair = chasqui_command("rsmq", "doctor", keys.queue, *space, "--repair", "--only", code)
        source = f"rsmq://{keys.namespace}/{keys.queue}"
        key = one.subject
    else:
        repair = chasqui_command("joblist", "doctor", keys.queue, "--repair", "--only", code)
        source = f"joblist://{keys.queue}"
        key = keys.job(one.subject) if one.list_name else one.subject
    match code:
        case "wrong-type":
            return shlex.join(["redis-cli", "RENAME", key, f"{key}.aside"])
        case "parked":
            return chasqui_command("migrate", source, "chasqui://QUEUE")
        case "split" if isinstance(keys, RsmqKeys):
            tagged = ("--ns", f"{{{keys.namespace}}}")
            create = chasqui_command("rsmq", "queue", "create", "-n", keys.queue, *tagged)
            export = chasqui_command("rsmq", "export", keys.queue, *space, "--show-secrets")
            return f"{create} && {export} | {chasqui_command('rsmq', 'import', keys.queue, '-', *tagged, '--yes')}"
        case "split":
            return chasqui_command("joblist", "list", keys.queue)
        case "unsigned":
            return chasqui_command("joblist", "reclaim", keys.queue, "--dry-run")
        case "counters":
            return shlex.join(["redis-cli", "HGETALL", key])
        case _:
            return repair
