"""`chasqui check`: a queue judged for a monitor, in Nagios' exit codes. The judgement is the engine's."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.context.completion import complete_any_queue
from chasqui_cli.context.shared_options import JoblistVisibilityOption
from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.records import FINDING_SCHEMA, finding_record
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.times import format_duration, parse_duration_ms, parse_optional_duration_ms
from chasqui_cli.output.writer import Format, print_line

if TYPE_CHECKING:
    from chasqui.foreign import ForeignSnapshot
    from chasqui.health import Finding
    from chasqui.health.thresholds import HealthThresholds, Threshold
    from chasqui.inspect.snapshot import Snapshot


STATUS_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
OK, UNKNOWN = 0, 3
CHECK_SCHEMA: dict[str, Any] = {
    "queue": "str",
    "status": "str",
    "code": "int",
    "server_time_ms": "int?",
    "error": "str?",
    "findings": [FINDING_SCHEMA],
    "performance": "any",
}


class CheckFormat(StrEnum):
    """What `--format` takes."""

    NAGIOS = "nagios"
    JSON = "json"
    PROMETHEUS = "prometheus"


def _count_option(help_text: str) -> Any:
    return typer.Option(min=0, metavar="N", help=f"{help_text} 0 for never.")


def _time_option(help_text: str) -> Any:
    return typer.Option(metavar="TIME", help=f"{help_text} 0 for never.")


@command("check", schema=CHECK_SCHEMA, many=False)
def check(
    ctx: CommandContext,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.", autocompletion=complete_any_queue)],
    waiting_warn: Annotated[int, _count_option("Warn from so many waiting jobs on.")] = 10_000,
    waiting_crit: Annotated[int, _count_option("Critical from so many waiting jobs on.")] = 100_000,
    age_warn: Annotated[str, _time_option("Warn when the oldest waiting job is this old.")] = "5m",
    age_crit: Annotated[str, _time_option("Critical when it is this old.")] = "30m",
    dlq_warn: Annotated[int, _count_option("Warn from so many dead letters on.")] = 1,
    dlq_crit: Annotated[int, _count_option("Critical from so many dead letters on.")] = 1000,
    delayed_lag_warn: Annotated[str, _time_option("Warn when a delayed job is this late.")] = "30s",
    delayed_lag_crit: Annotated[str, _time_option("Critical when one is this late.")] = "5m",
    cron_lag_warn: Annotated[str, _time_option("Warn when a repeatable job is this late.")] = "1m",
    cron_lag_crit: Annotated[str, _time_option("Critical when one is this late.")] = "10m",
    idle_warn: Annotated[str, _time_option("Warn when a job in flight showed no sign of life this long.")] = "90s",
    idle_crit: Annotated[str, _time_option("Critical when it is this long.")] = "10m",
    full_warn: Annotated[int, _count_option("Warn when a stream is so many percent full.")] = 80,
    full_crit: Annotated[int, _count_option("Critical when it is so many percent full.")] = 95,
    no_workers: Annotated[
        bool, typer.Option("--no-workers/--ignore-no-workers", help="Critical when jobs wait and nobody works.")
    ] = True,
    leaders: Annotated[
        bool, typer.Option("--leaders/--ignore-leaders", help="Critical when something is late and nobody leads.")
    ] = True,
    visibility: JoblistVisibilityOption = None,
    how: Annotated[
        CheckFormat, typer.Option("--format", help="What to print.", case_sensitive=False)
    ] = CheckFormat.NAGIOS,
) -> None:
    """Judge a queue for a monitor. Exit codes are those of Nagios: 0 fine, 1 warning, 2 critical, 3 unknown.

    Unknown is also a server that cannot be reached, a queue that is not there and a command line that makes no sense.
    rsmq:NAME and list:NAME name other systems' queues: what they have no idea of is not judged, and not told.
    """
    from chasqui.errors import ChasquiError
    from chasqui.health.thresholds import HealthThresholds, Threshold

    def limit(warn: int, crit: int) -> Threshold:
        return Threshold(warn or None, crit or None)

    def times(warn: str, crit: str) -> Threshold:
        return limit(*(0 if text.strip() == "0" else parse_duration_ms(text) for text in (warn, crit)))

    how = CheckFormat.JSON if ctx.output is Format.JSON else how
    try:
        limits = HealthThresholds(
            waiting=limit(waiting_warn, waiting_crit),
            age_ms=times(age_warn, age_crit),
            dlq=limit(dlq_warn, dlq_crit),
            delayed_lag_ms=times(delayed_lag_warn, delayed_lag_crit),
            repeat_lag_ms=times(cron_lag_warn, cron_lag_crit),
            idle_ms=times(idle_warn, idle_crit),
            full_percent=limit(full_warn, full_crit),
            needs_workers=no_workers,
            needs_leaders=leaders,
        )
        seen = _read_snapshot(ctx, queue, parse_optional_duration_ms(visibility))
    except ChasquiError as error:
        code = _print_unknown(queue, error, how)
    else:
        code = _print_result(seen, limits, how)
    raise typer.Exit(code)


def _read_snapshot(ctx: CommandContext, queue: str, visibility_ms: int | None) -> Snapshot | ForeignSnapshot:
    from chasqui.errors import NotFound
    from chasqui_cli.queues.queue_names import parse_queue_ref, with_ref_name

    place = parse_queue_ref(queue)
    with ctx.session() as session:
        [snapshot] = session.snapshots([place], visibility_ms)
    seen = with_ref_name(snapshot, place).or_raise()
    if not seen.exists:
        raise NotFound(f"there is nothing of a queue named {queue!r} on this server")
    return seen


def _print_result(seen: Snapshot | ForeignSnapshot, limits: HealthThresholds, how: CheckFormat) -> int:
    from chasqui import health
    from chasqui_cli.queues.queue_health import queue_findings

    findings = queue_findings(seen, limits)
    code = max(OK, health.worst_level(findings) - health.Level.NOTE)
    numbers = _performance_data(seen, limits)
    if how is CheckFormat.JSON:
        record = {
            "queue": seen.queue,
            "status": STATUS_WORDS[code],
            "code": code,
            "server_time_ms": seen.server_time_ms,
            "error": None,
            "findings": [finding_record(one) for one in findings],
            "performance": {name: value for name, (value, _, _) in numbers.items()},
        }
        print_line(json_text(record, indent=2))
    elif how is CheckFormat.PROMETHEUS:
        print_line(_prometheus_text(seen, code).rstrip("\n"))
    else:
        print_line(_nagios_line(seen, code, findings, numbers))
    return code


def _print_unknown(queue: str, error: Exception, how: CheckFormat) -> int:
    if how is CheckFormat.JSON:
        record = {
            "queue": queue,
            "status": STATUS_WORDS[UNKNOWN],
            "code": UNKNOWN,
            "server_time_ms": None,
            "error": str(error),
            "findings": [],
            "performance": {},
        }
        print_line(json_text(record, indent=2))
    elif how is CheckFormat.PROMETHEUS:
        print_line(f'chasqui_check_status{{queue="{_label_value(queue)}"}} {UNKNOWN}')
    else:
        print_line(f"CHASQUI UNKNOWN - {_nagios_text(queue)}: {_nagios_text(str(error))}")
    return UNKNOWN


def _performance_data(
    seen: Snapshot | ForeignSnapshot, limits: HealthThresholds
) -> dict[str, tuple[int, str, Threshold | None]]:
    """Each number with its unit and limits, in the order monitors have always seen them; those that there are."""
    from chasqui import health
    from chasqui.inspect.snapshot import Snapshot

    first = seen.next_repeat_ms
    repeat_lag_ms = max(0, seen.server_time_ms - first) if first is not None else 0
    ours = isinstance(seen, Snapshot)
    numbers: dict[str, tuple[int | None, str, Threshold | None]] = {
        "waiting": (seen.waiting, "", limits.waiting),
        "age": (seen.oldest_waiting_ms, "ms", limits.age_ms),
        "in_flight": (seen.pending, "", None),
        "idle": (seen.longest_idle_ms, "ms", limits.idle_ms),
        "dlq": (seen.dlq_depth, "", limits.dlq),
        "delayed": (seen.delayed_depth, "", None),
        "delayed_due": (seen.delayed_due, "", None),
        "delayed_lag": (seen.oldest_delayed_lag_ms, "ms", limits.delayed_lag_ms),
        "cron_overdue": (seen.repeatable_overdue, "", None),
        "cron_lag": (repeat_lag_ms if ours else None, "ms", limits.repeat_lag_ms),
        "workers": (seen.consumers, "", None),
    }
    if isinstance(seen, Snapshot):
        full = health.fill_percent(seen.caps.stream, seen.stream_depth)
        numbers["stream_full"] = (full, "%", limits.full_percent)
        numbers["dlq_full"] = (health.fill_percent(seen.caps.dlq, seen.dlq_depth), "%", limits.full_percent)
    else:
        numbers["stale"] = (seen.stale, "", None)
    values = numbers.items()
    return {name: (value, unit, limit) for name, (value, unit, limit) in values if value is not None}


def _nagios_line(
    seen: Snapshot | ForeignSnapshot,
    code: int,
    findings: list[Finding],
    numbers: dict[str, tuple[int, str, Threshold | None]],
) -> str:
    """One line: status, sentence, and after the bar the performance data. A bar inside the sentence would end it."""
    well = f"{seen.waiting:,} waiting, oldest {format_duration(seen.oldest_waiting_ms)}, {_count_text(seen.pending)} in flight"
    text = "; ".join(one.text for one in findings) or well
    data = " ".join(_performance_datum(name, *number) for name, number in numbers.items())
    return f"CHASQUI {STATUS_WORDS[code]} - {_nagios_text(seen.queue)}: {_nagios_text(text)} | {data}"


def _count_text(number: int | None) -> str:
    return "an unknown number" if number is None else f"{number:,}"


def _performance_datum(name: str, value: int, unit: str, limit: Threshold | None) -> str:
    warn, crit = ("" if bound is None else str(bound) for bound in ((limit.warn, limit.crit) if limit else ("", "")))
    return f"{name}={value}{unit};{warn};{crit};0"


def _nagios_text(text: str) -> str:
    return safe(text).replace("|", "¦")


def _label_value(text: str) -> str:
    return safe(text).replace("\\", "\\\\").replace('"', '\\"')


def _prometheus_text(seen: Snapshot | ForeignSnapshot, code: int) -> str:
    from chasqui_cli.output import prometheus

    prometheus.require_client_library()
    from prometheus_client.core import GaugeMetricFamily

    status = GaugeMetricFamily("chasqui_check_status", "0 fine, 1 warning, 2 critical, 3 unknown.", labels=["queue"])
    status.add_metric([safe(seen.queue)], code)
    return prometheus.render_metrics(status, *prometheus.metric_families([seen]))
