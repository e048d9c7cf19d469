"""A mover in a process of its own, to be killed: `python -m tests.support.processes.migration_process KIND SOURCE SPACE TARGET FROM_URL TO_URL`.

It goes on until it is ended. It prints one line when it has begun, and one for every pass.
"""

from __future__ import annotations

import sys

from chasqui import foreign
from chasqui.foreign import JobListKeys, MigrationReport, RsmqKeys
from chasqui.server.link import Link
from chasqui.wire.keys import Keys


def main(kind: str, source: str, space: str, target: str, from_url: str, to_url: str) -> None:
    keys = RsmqKeys(source, space) if kind == "rsmq" else JobListKeys(source)

    def keep_on(report: MigrationReport) -> bool:
        print(f"moved {report.moved}", flush=True)
        return True

    with Link.open(from_url) as link, Link.open(to_url) as far:
        print("begun", flush=True)
        way = foreign.Migration(link, keys, Keys(target), target_link=None if to_url == from_url else far)
        way.run(should_continue=keep_on, poll_s=0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
