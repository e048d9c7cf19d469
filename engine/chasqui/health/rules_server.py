"""Rules over a server's own report: what it deletes, what it forgets, what it can do, its clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.health.findings import Finding, Level, duration_text, fill_percent, run_rules
from chasqui.health.thresholds import SampleLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui.server.features import Features
    from chasqui.server.server_info import ServerInfo

DEFAULTS = SampleLimits()
FULL_PERCENT = 90


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server's report, what it can do, and how far its clock is ahead of ours (None: not compared)."""

    report: ServerInfo
    features: Features
    skew_ms: int | None = None


def clock_skew_ms(server_ms: int, before_ms: int, after_ms: int) -> int:
    """How far the server's clock is ahead of ours, which was read before and after; 0 if it may be the same."""
    if before_ms <= server_ms <= after_ms:
        return 0
    return min(server_ms - before_ms, server_ms - after_ms, key=abs)


def check_server(facts: ServerFacts, options: SampleLimits = DEFAULTS) -> list[Finding]:
    """Every risk of this server for jobs, the worst first."""
    return run_rules(RULES, facts, options)


def _data_loss_risks(facts: ServerFacts, _: SampleLimits) -> Iterator[Finding]:
    info = facts.report
    if info.eviction not in (None, "noeviction"):
        bounded = bool(info.max_memory_bytes)
        yield Finding(
            Level.CRITICAL if bounded else Level.WARNING,
            "evicts",
            f"when memory is full this server deletes keys ({info.eviction}), jobs among them",
            evidence={"maxmemory_policy": info.eviction, "maxmemory": info.max_memory_bytes},
            fix="redis-cli CONFIG SET maxmemory-policy noeviction",
        )
    if info.memory_bytes and info.max_memory_bytes:
        full = fill_percent(info.max_memory_bytes, info.memory_bytes)
        if full >= FULL_PERCENT:
            yield Finding(
                Level.CRITICAL if full >= 100 else Level.WARNING,
                "memory-full",
                f"{full} % of the server's memory is used; beyond it no job can be added",
                evidence={"used": info.memory_bytes, "maxmemory": info.max_memory_bytes, "percent": full},
                fix="redis-cli CONFIG SET maxmemory BYTES",
            )
    if info.persistence == "none":
        yield Finding(
            Level.WARNING,
            "not-persistent",
            "this server keeps nothing on disk: a restart loses every job",
            evidence={"persistence": "none"},
            fix="redis-cli CONFIG SET appendonly yes",
        )
    elif info.persistence == "rdb":
        yield Finding(
            Level.NOTE,
            "snapshots-only",
            "this server saves now and then: a crash loses the jobs since the last save",
            evidence={"persistence": "rdb"},
            fix="redis-cli CONFIG SET appendonly yes",
        )


def _is_replica(facts: ServerFacts, _: SampleLimits) -> Iterator[Finding]:
    info = facts.report
    if info.role not in (None, "master"):
        text = f"this is a {info.role}: what it shows may be old, and nothing can be changed here"
        yield Finding(Level.WARNING, "replica", text, evidence={"role": info.role}, fix="chasqui context list")


def _clock_skew(facts: ServerFacts, options: SampleLimits) -> Iterator[Finding]:
    skew_ms = facts.skew_ms
    if skew_ms is not None and abs(skew_ms) >= options.skew_ms:
        ahead = "ahead of" if skew_ms > 0 else "behind"
        yield Finding(
            Level.WARNING,
            "clock-skew",
            f"the server's clock is {duration_text(abs(skew_ms))} {ahead} this machine's; what is added here with a time is due at another",
            evidence={"skew_ms": skew_ms},
            fix="timedatectl set-ntp true",
        )


def _missing_commands(facts: ServerFacts, _: SampleLimits) -> Iterator[Finding]:
    features = facts.features
    if features.missing:
        yield Finding(
            Level.NOTE,
            "stand-ins",
            f"{features.kind} {features.version} lacks {', '.join(features.missing)}; our scripts stand in,"
            " but the released engine cannot run on it",
            evidence={"kind": features.kind, "version": features.version, "missing": features.missing},
            fix="chasqui server status",
        )


RULES = (_data_loss_risks, _is_replica, _clock_skew, _missing_commands)
