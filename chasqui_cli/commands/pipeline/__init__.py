"""Keep what happened, report on it, and move jobs by the million, on Spark."""

VERBS = ("archive", "compact", "rollup", "report", "produce", "replay", "up", "down", "status", "doctor", "demo")
