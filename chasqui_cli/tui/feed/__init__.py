"""The one room of the dashboard that asks the engine: a loop, and for each tab a reader that makes its view."""

from chasqui_cli.tui.feed.feed_loop import Feed

__all__ = ["Feed"]
