"""Look at the server behind a URL; start and stop the embedded one."""

VERBS = ("status", "start", "stop")
