"""List job queues: look, enqueue, reclaim, retry, cancel, move, purge, repair, work."""

VERBS = (
    "overview",
    "show",
    "enqueue",
    "reclaim",
    "retry",
    "cancel",
    "move",
    "purge",
    "doctor",
    "events",
    "work",
    "list",
)
