"""The reader for the doctor's tab: the server, and one queue examined closely. A heavier look, so a rarer one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui import health, run_together, server_info
from chasqui.errors import ServerError
from chasqui.health.samples import sample_queue
from chasqui.inspect import snapshot
from chasqui_cli.output.times import format_duration
from chasqui_cli.queues.queue_names import is_native
from chasqui_cli.tui.feed.queue_rows import finding_row
from chasqui_cli.tui.feed.tab_reader import QueueTabReader, queue_keys
from chasqui_cli.tui.feed_messages import FindingRow
from chasqui_cli.tui.views import HealthView

if TYPE_CHECKING:
    from chasqui import Features, ServerInfo
    from chasqui_cli.tui.feed_messages import ReadTarget


class HealthReader(QueueTabReader):
    """What the doctor finds."""

    least_s = 10.0

    async def read(self, target: ReadTarget) -> tuple[HealthView, int]:
        """Server and queue side by side, in as many round trips as a close look takes."""
        commands, link = self.place.commands, self.place.link
        before_ms = self.place.clock_ms()
        ours = bool(target.queue) and is_native(target.queue or "")
        look = sample_queue(commands, queue_keys(target.queue or "")) if ours else snapshot.server_time_ms(commands)
        report, seen = await link.run(run_together(server_info(), look))
        if isinstance(report, ServerError):
            raise report
        features = await link.features()
        skew_ms = health.clock_skew_ms(report.server_time_ms, before_ms, self.place.clock_ms())
        found = [finding_row(one) for one in health.check_server(health.ServerFacts(report, features, skew_ms))]
        if isinstance(seen, ServerError):
            found.append(FindingRow(3, "refused", f"this queue cannot be looked at: {seen}", None))
        elif target.queue and not ours:
            from chasqui_cli.tui.feed.foreign_queue import read_foreign_view

            found += (await read_foreign_view(self.place, target.queue))[0].row.findings
        elif target.queue:
            self.place.memory.queue_row(target.queue, seen.snapshot)
            found += [finding_row(one) for one in health.check_queue(seen.snapshot)]
            found += [finding_row(one) for one in health.check_samples(seen)]
        found.sort(key=lambda one: -one.level)
        return HealthView(target.queue, report.server_time_ms, tuple(found), _facts(report, features)), (
            report.server_time_ms
        )


def _facts(report: ServerInfo, features: Features) -> tuple[tuple[str, str], ...]:
    def text(value: object) -> str:
        return "–" if value is None else str(value)

    memory = "–" if report.memory_bytes is None else f"{report.memory_bytes / 1e6:.1f} MB"
    return (
        ("server", f"{features.kind} {features.version}"),
        ("role", text(report.role)),
        ("up", "–" if report.uptime_s is None else format_duration(report.uptime_s * 1000)),
        ("memory", memory),
        ("eviction", text(report.eviction)),
        ("persistence", text(report.persistence)),
        ("clients", text(report.clients)),
        ("keys", text(report.keys)),
        ("stand-ins", ", ".join(features.missing) or "none"),
    )
