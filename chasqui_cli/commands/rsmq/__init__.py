"""RSMQ queues: what rsmqctl does (`queue`, `message`), and looking, purging, moving, repairing without receiving."""

VERBS = (
    "queue",
    "message",
    "peek",
    "show",
    "counts",
    "purge",
    "move",
    "sweep",
    "expire",
    "release",
    "hold",
    "export",
    "doctor",
    "import",
)
