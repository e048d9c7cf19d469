"""Jobs that wait for a time: list them, count them by due time, run, cancel or move them.

`--since` and `--until` mean when a job is due, and durations are counted from now on: `--until 1h` is the next hour.
"""

VERBS = ("list", "histogram", "now", "cancel", "move")
