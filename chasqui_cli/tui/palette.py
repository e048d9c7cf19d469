"""What `ctrl+p` finds in addition to the tabs: queues, by name. Imported when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.command import Hit, Hits, Provider
from textual.content import Content

from chasqui_cli.output.escape_text import safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui_cli.tui.dashboard import DashboardApp


class QueueProvider(Provider):
    """Queues by name."""

    async def search(self, query: str) -> Hits:
        app = cast("DashboardApp", self.app)
        matcher = self.matcher(query)
        for name in app.known_queues:
            shown = safe(name)
            if (score := matcher.match(shown)) > 0:
                yield Hit(score, Content(shown), _opener(app, name), help="open this queue")


def _opener(app: DashboardApp, name: str) -> Callable[[], None]:
    return lambda: app.open_queue(name)
