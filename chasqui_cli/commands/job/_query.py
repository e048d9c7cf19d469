from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.output.columns import Column, column

if TYPE_CHECKING:
    from chasqui.inspect.job_state import JobStateReport
    from chasqui_cli.context.session import Session

JobIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]


COLUMNS: list[Column] = [
    column("id"),
    column("queue"),
    column("state"),
    column("text"),
    column("name"),
    column("created", "created_at_ms", kind="moment"),
    column("attempt", align="left", kind="attempt"),
    column("retry"),
    column("data"),
    column("bytes", "payload_bytes", kind="bytes"),
    column("undecodable"),
    column("result"),
]


def job_state(session: Session, queue: str, job_id: str, scan: int) -> JobStateReport:
    from chasqui import Keys
    from chasqui.defaults import SearchLimits
    from chasqui.inspect.job_state_search import find_job_state

    options = SearchLimits(max_entries=scan, max_entries_nearby=min(scan, SearchLimits().max_entries_nearby))
    return session.query(find_job_state, Keys(queue), job_id, options=options)


def read_result(session: Session, queue: str, job_id: str) -> Any:
    from chasqui import Keys
    from chasqui.inspect import results

    [value] = session.query(results.read_results, Keys(queue), [job_id])
    return value


def no_such_job(queue: str, job_id: str) -> Exception:
    from chasqui.errors import NotFound

    return NotFound(
        f"there is no trace of a job {job_id!r} in {queue!r}", hint=f"`chasqui why {job_id}` looks in every queue"
    )
