"""Who works on a queue: list consumers, remove the dead, free what they hold."""

VERBS = ("list", "prune", "claim")
