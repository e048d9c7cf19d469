"""Cron text and a timezone → the times it names. Pure: `chasqui/schedule/fire_times.py` decides what to do with them.

    schedule = cron.parse_cron("0 9 * * MON-FRI", "Europe/Madrid")
    schedule.next(from_ms)

The dialect is the reference engine's, to the millisecond and to the wording of its refusals, because workers of
both kinds serve the same specs. croniter reads and searches another one (`docs/cron.md` lists where they part,
and a test holds the two together where they agree), so here it is asked only to explain a refusal.
"""

from chasqui.cron.cron_schedule import CronSchedule, NoSuchTimeError, parse_cron

__all__ = ["CronSchedule", "NoSuchTimeError", "parse_cron"]
