"""The doctors' findings of other systems' queues in our own findings' words: one for each ailment of a queue, with
how many have it, some of them by name, and the command line that mends it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chasqui.foreign import joblist, rsmq
from chasqui.health.finding import Finding, Level, amount, line
from chasqui.wire.rsmq_keys import RsmqKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui.foreign.examined import Looked
    from chasqui.server.call import Flow
    from chasqui.wire.joblist_keys import JobListKeys

NAMED = 5
"""So many of those that have an ailment are named."""
_LEVELS = {
    "wrong-type": Level.CRITICAL,
    "expired": Level.NOTE,
    "phantom": Level.NOTE,
    "counters": Level.NOTE,
    "parked": Level.NOTE,
}


@dataclass(frozen=True, slots=True)
class Checked:
    """What is wrong with a queue, and how far its places were looked at."""

    findings: list[Finding]
    places: Sequence[Looked]


def check_up(keys: RsmqKeys | JobListKeys, queue: str, *, most: int) -> Flow[Checked]:
    """Examine up to `most` of everything; `queue` is what it is called in the findings."""
    examined: Any
    if isinstance(keys, RsmqKeys):
        examined = yield from rsmq.look_over(keys, most=most)
    else:
        examined = yield from joblist.look_over(keys, most=most)
    by: dict[str, list[Any]] = {}
    for one in examined.findings:
        by.setdefault(str(one.ailment), []).append(one)
    return Checked([_grouped(keys, queue, found) for found in by.values()], examined.places)


def _grouped(keys: RsmqKeys | JobListKeys, queue: str, found: Sequence[Any]) -> Finding:
    first = found[0]
    code = str(first.ailment)
    subjects = [one.subject for one in found[:NAMED]]
    about = subjects[0] if len(found) == 1 else f"{amount(len(found), 'case')}, as {subjects[0]}"
    evidence = {"count": len(found), "subjects": subjects, "seen": [one.seen for one in found[:NAMED]]}
    level = _LEVELS.get(code, Level.WARNING)
    return Finding(level, code, f"{about}: {first.advice}", queue, evidence, _mend(keys, first))


def _mend(keys: RsmqKeys | JobListKeys, one: Any) -> str | None:
    code = str(one.ailment)
    if isinstance(keys, RsmqKeys):
        space = [] if keys.namespace == rsmq.RsmqKeys("").namespace else ["--ns", keys.namespace]
        repair = line("rsmq", "doctor", keys.queue, *space, "--repair", "--only", code)
        source = f"rsmq://{keys.namespace}/{keys.queue}"
        key = one.subject
    else:
        repair = line("joblist", "doctor", keys.queue, "--repair", "--only", code)
        source = f"joblist://{keys.queue}"
        key = keys.job(one.subject) if one.where else one.subject
    match code:
        case "wrong-type":
            return shlex.join(["redis-cli", "RENAME", key, f"{key}.aside"])
        case "parked":
            return line("migrate", source, "chasqui://QUEUE")
        case "split" if isinstance(keys, RsmqKeys):
            tagged = ("--ns", f"{{{keys.namespace}}}")
            create = line("rsmq", "queue", "create", "-n", keys.queue, *tagged)
            export = line("rsmq", "export", keys.queue, *space, "--show-secrets")
            return f"{create} && {export} | {line('rsmq', 'import', keys.queue, '-', *tagged, '--yes')}"
        case "split":
            return line("joblist", "list", keys.queue)
        case "unsigned":
            return line("joblist", "reclaim", keys.queue, "--dry-run")
        case "counters":
            return shlex.join(["redis-cli", "HGETALL", key])
        case _:
            return repair
