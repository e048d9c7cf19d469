"""The reader for the doctor's tab: the server, and one queue examined closely. A heavier look, so a rarer one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import health, server_report, snapshot
from chasqui.checkup import examine
from chasqui.errors import ServerError
from chasqui.together import together
from chasqui_cli.places import is_ours
from chasqui_cli.times import span
from chasqui_cli.tui.feed.asking import QueueAsker, keys_of
from chasqui_cli.tui.feed.rows import finding_row
from chasqui_cli.tui.messages import FindingRow
from chasqui_cli.tui.views import HealthView

if TYPE_CHECKING:
    from chasqui import Features, ServerReport
    from chasqui_cli.tui.messages import Target


class HealthReader(QueueAsker):
    """What the doctor finds."""

    least_s = 10.0

    async def read(self, target: Target) -> tuple[HealthView, int]:
        """Server and queue side by side, in as many round trips as a close look takes."""
        commands, link = self.place.commands, self.place.link
        before_ms = self.place.clock_ms()
        ours = bool(target.queue) and is_ours(target.queue or "")
        look = examine(commands, keys_of(target.queue or "")) if ours else snapshot.now(commands)
        report, seen = await link.run(together(server_report(), look))
        if isinstance(report, ServerError):
            raise report
        features = await link.features()
        skew_ms = _skew(report.server_time_ms, before_ms, self.place.clock_ms())
        found = [finding_row(one) for one in health.of_server(health.ServerFacts(report, features, skew_ms))]
        if isinstance(seen, ServerError):
            found.append(FindingRow(3, "refused", f"this queue cannot be looked at: {seen}", None))
        elif target.queue and not ours:
            from chasqui_cli.tui.feed.others import read_other

            found += (await read_other(self.place, target.queue))[0].row.findings
        elif target.queue:
            self.place.memory.row(target.queue, seen.queue)
            found += [finding_row(one) for one in health.of_queue(seen.queue)]
            found += [finding_row(one) for one in health.of_examination(seen)]
        found.sort(key=lambda one: -one.level)
        return HealthView(target.queue, report.server_time_ms, tuple(found), _facts(report, features)), (
            report.server_time_ms
        )


def _skew(server_ms: int, before_ms: int, after_ms: int) -> int:
    """How far the server's clock is ahead; within the time it took to ask nobody can tell."""
    if before_ms <= server_ms <= after_ms:
        return 0
    return min((server_ms - at for at in (before_ms, after_ms)), key=abs)


def _facts(report: ServerReport, features: Features) -> tuple[tuple[str, str], ...]:
    def told(value: object) -> str:
        return "–" if value is None else str(value)

    memory = "–" if report.memory_bytes is None else f"{report.memory_bytes / 1e6:.1f} MB"
    return (
        ("server", f"{features.kind} {features.version}"),
        ("role", told(report.role)),
        ("up", "–" if report.uptime_s is None else span(report.uptime_s * 1000)),
        ("memory", memory),
        ("eviction", told(report.eviction)),
        ("persistence", told(report.persistence)),
        ("clients", told(report.clients)),
        ("keys", told(report.keys)),
        ("stand-ins", ", ".join(features.missing) or "none"),
    )
