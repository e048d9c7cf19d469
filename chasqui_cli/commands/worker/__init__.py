"""Run a worker: your handler, for every job of a queue."""

VERBS = ("run",)
