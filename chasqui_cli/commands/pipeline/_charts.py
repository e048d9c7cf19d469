"""Charts as SVG text: plain shapes in the page's colours, each with a title for the pointer."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from chasqui_cli.output.escape_text import safe
from chasqui_cli.output.times import format_duration, format_iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chasqui_cli.output.columns import Record

WIDTH, HEIGHT = 720, 200
LEFT, BOTTOM = 48, 24
MAX_POINTS = 180
MAX_DOTS = 24
"""Up to this many points each is also drawn as a dot: one point alone makes no line."""
MAX_BARS = 12
BAR_HEIGHT = 44
"""Room for a bar and its label, in the larger type of a phone."""
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def throughput_chart(records: Sequence[Record]) -> str:
    """Completed and failed over time, all queues together; neighbouring steps are joined until they fit."""
    first, last = min(one["at_ms"] for one in records), max(one["at_ms"] for one in records)
    own = _step_ms(records)
    step = own * -(-(last - first + own) // (MAX_POINTS * own))
    sums: dict[int, list[int]] = {}
    for one in records:
        bucket = sums.setdefault((one["at_ms"] - first) // step, [0, 0])
        bucket[0] += one["completed"]
        bucket[1] += one["failed"]
    count = max(sums) + 1
    series = [[sums.get(n, [0, 0])[which] for n in range(count)] for which in (0, 1)]
    top = max(map(max, series)) or 1
    wide = (WIDTH - LEFT - 8) / max(1, count - 1)

    def path(values: list[int], colour: str) -> str:
        points = [
            f"{LEFT + n * wide:.1f},{HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - 10):.1f}"
            for n, value in enumerate(values)
        ]
        ground = f"{LEFT},{HEIGHT - BOTTOM} {' '.join(points)} {LEFT + (count - 1) * wide:.1f},{HEIGHT - BOTTOM}"
        return (
            f'<polygon points="{ground}" fill="var({colour})" fill-opacity=".15"/>'
            f'<polyline points="{" ".join(points)}" fill="none" stroke="var({colour})" stroke-width="1.8"/>'
            + "".join(_dot(point, colour) for point in points if count <= MAX_DOTS)
        )

    moments = (
        (LEFT, first, "start"),
        ((LEFT + WIDTH - 8) / 2, (first + last) // 2, "middle"),
        (WIDTH - 8, last, "end"),
    )
    digits = 16 if step >= 60_000 else 19 if step >= 1000 else 23
    dates = "".join(
        f'<text x="{x:.0f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{format_iso(ms)[:digits].replace("T", " ")}</text>'
        for x, ms, anchor in (moments if last > first else moments[:1])
    )
    lines = _axis(top) + path(series[0], "--good") + path(series[1], "--bad") + dates
    key = _legend(("--good", "completed"), ("--bad", "failed"), note=f"jobs in each {format_duration(step)}, UTC")
    return key + _svg(lines, HEIGHT, "completed and failed over time")


def latency_chart(records: Sequence[Record]) -> str:
    """Run time of each job name: a bar from the median to the 99th percentile, on a logarithmic scale."""
    shown = sorted((one for one in records if one["run_us_p50"]), key=lambda one: -one["completed"])[:MAX_BARS]
    if not shown:
        return ""
    low = min(log10(max(1, one["run_us_p50"])) for one in shown) - 0.2
    high = max(log10(max(1, one["run_us_p99"])) for one in shown) + 0.1

    def at(value: float) -> float:
        return 218 + (log10(max(1, value)) - low) / (high - low) * (WIDTH - 318)

    ground = 10 + 24 * len(shown)
    parts = [
        f'<line x1="{at(10**n):.1f}" x2="{at(10**n):.1f}" y1="4" y2="{ground}" stroke="var(--line)"/>'
        f'<text x="{at(10**n):.1f}" y="{ground + 16}" text-anchor="middle">{_duration_text(10**n)}</text>'
        for n in range(ceil(low), floor(high) + 1)
    ]
    for n, one in enumerate(shown):
        y, label = 8 + n * 24, _label(f"{_job_name(one)} ({one['queue']})", 20)
        middle, late, last = (one[f"run_us_p{p}"] for p in (50, 95, 99))
        parts.append(
            f"<g><title>{label}: p50 {_duration_text(middle)}, p95 {_duration_text(late)}, p99 {_duration_text(last)}</title>"
            f'<text x="206" y="{y + 12}" text-anchor="end">{label}</text>'
            f'<rect x="{at(middle):.1f}" y="{y + 5}" width="{max(1, at(last) - at(middle)):.1f}" height="6" rx="3" fill="var(--cool)" fill-opacity=".35"/>'
            f'<circle cx="{at(middle):.1f}" cy="{y + 8}" r="5" fill="var(--good)"/>'
            f'<circle cx="{at(late):.1f}" cy="{y + 8}" r="5" fill="var(--warm)"/>'
            f'<circle cx="{at(last):.1f}" cy="{y + 8}" r="5" fill="var(--bad)"/>'
            f'<text x="{at(last) + 10:.1f}" y="{y + 12}">{_duration_text(last)}</text></g>'
        )
    key = _legend(("--good", "half are faster"), ("--warm", "95 %"), ("--bad", "99 %"), note="length of a run")
    return key + _svg("".join(parts), ground + 22, "run time by job name")


def retries_chart(records: Sequence[Record]) -> str:
    """How many jobs came to their n-th run, and how many of those runs failed."""
    sums: dict[int, list[int]] = {}
    for one in records:
        found = sums.setdefault(one["attempt"], [0, 0])
        found[0] += one["started"]
        found[1] += one["failed"]
    tries = sorted(sums)[:MAX_BARS]
    top = max(sums[n][0] for n in tries) or 1
    wide = (WIDTH - LEFT) / len(tries)
    parts = [_axis(top)]
    for place, n in enumerate(tries):
        x, full = LEFT + place * wide + wide * 0.15, HEIGHT - BOTTOM - 10
        for which, colour in ((0, "--cool"), (1, "--bad")):
            tall = sums[n][which] / top * full
            parts.append(
                f'<rect x="{x:.1f}" y="{HEIGHT - BOTTOM - tall:.1f}" width="{wide * 0.7:.1f}" height="{tall:.1f}" rx="3" '
                f'fill="var({colour})"><title>run {n}: {sums[n][0]:,} started, {sums[n][1]:,} failed</title></rect>'
            )
        parts.append(f'<text x="{x + wide * 0.35:.1f}" y="{HEIGHT - 6}" text-anchor="middle">run {n}</text>')
    return _legend(("--cool", "started"), ("--bad", "failed")) + _svg("".join(parts), HEIGHT, "retry funnel")


def failures_chart(records: Sequence[Record]) -> str:
    """The errors that happen most."""
    bars = [(f"{_job_name(one)}: {one['error']}", one["failures"], f"{one['failures']:,}") for one in records]
    return _bar_chart(bars, "--bad", "runs that failed")


def sla_chart(records: Sequence[Record]) -> str:
    """Which jobs are late, and how often."""
    found = [one for one in records if one["breaches"]]
    bars = [
        (f"{_job_name(one)} ({one['queue']})", one["share"], f"{one['share']:.1%} of {one['completed']:,}")
        for one in found
    ]
    return _bar_chart(bars, "--warm", "share of completed jobs that took too long")


def heatmap_chart(records: Sequence[Record]) -> str:
    """Runs by hour and weekday: the darker, the more."""
    sums: dict[tuple[int, int], int] = {}
    for one in records:
        place = (one["weekday"], one["hour"])
        sums[place] = sums.get(place, 0) + one["completed"] + one["failed"]
    top, cell = max(sums.values()), 27
    parts = [f'<text x="{40 + hour * cell}" y="12">{hour:02d}</text>' for hour in range(0, 24, 3)]
    for day, name in enumerate(DAYS):
        parts.append(f'<text x="0" y="{38 + day * cell}">{name}</text>')
        for hour in range(24):
            count = sums.get((day, hour), 0)
            strength = 0.06 + 0.94 * count / top if count else 0.03
            parts.append(
                f'<rect x="{38 + hour * cell}" y="{20 + day * cell}" width="{cell - 3}" height="{cell - 3}" rx="4" '
                f'fill="var(--cool)" fill-opacity="{strength:.2f}"><title>{name} {hour:02d}:00 UTC: {count:,} runs</title></rect>'
            )
    key = _legend(("--cool", f"{top:,} runs"), note="hours in UTC")
    return key + _svg("".join(parts), 20 + 7 * cell, "runs by hour and weekday")


def _bar_chart(bars: Sequence[tuple[str, float, str]], colour: str, unit: str) -> str:
    shown = bars[:MAX_BARS]
    if not shown:
        return ""
    top = max(value for _, value, _ in shown) or 1
    parts = []
    for n, (label, value, value_text) in enumerate(shown):
        y = 4 + n * BAR_HEIGHT
        wide = max(2.0, value / top * (WIDTH - 130))
        parts.append(
            f'<g><title>{_label(label, 200)}: {_label(value_text)}</title><text x="0" y="{y + 11}">{_label(label, 100)}</text>'
            f'<rect x="0" y="{y + 19}" width="{wide:.1f}" height="10" rx="3" fill="var({colour})"/>'
            f'<text x="{wide + 8:.1f}" y="{y + 29}">{_label(value_text)}</text></g>'
        )
    return _legend((colour, unit)) + _svg("".join(parts), 8 + BAR_HEIGHT * len(shown), "the largest first")


def _axis(top: float) -> str:
    """Lines at zero, half and full height, with their numbers."""
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - 10)
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short_number(top * share)}</text>'
        )
    return "".join(lines)


def _dot(point: str, colour: str) -> str:
    x, y = point.split(",")
    return f'<circle cx="{x}" cy="{y}" r="3" fill="var({colour})"/>'


def _svg(inside: str, height: int, label: str) -> str:
    drawn = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{inside}</svg>'
    return f'<div class="wide">{drawn}</div>'


def _legend(*items: tuple[str, str], note: str = "") -> str:
    marks = "".join(f'<i style="background:var({colour})"></i>{label}' for colour, label in items)
    return f'<p class="legend">{marks}{f"<span>{note}</span>" if note else ""}</p>'


def _step_ms(records: Sequence[Record]) -> int:
    """How far apart the steps of a throughput are at least; a minute, if there is only one."""
    moments = sorted({one["at_ms"] for one in records})
    return min((later - sooner for sooner, later in pairwise(moments)), default=60_000)


def _job_name(record: Record) -> str:
    return record["name"] or "(no name)"


def _label(label: str, most: int = 28) -> str:
    shown = safe(label)
    return escape(shown if len(shown) <= most else shown[: most - 1] + "…", quote=True)


def _short_number(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _duration_text(us: float) -> str:
    return f"{us / 1e6:.3g} s" if us >= 1e6 else f"{us / 1e3:.3g} ms" if us >= 1e3 else f"{us:.0f} µs"
