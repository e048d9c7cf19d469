"""Jobs that come again: list, store, remove, run out of turn, preview in words and local time."""

VERBS = ("list", "upsert", "remove", "run", "preview")
