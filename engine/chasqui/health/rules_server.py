"""What a server tells of itself that matters to jobs: what it deletes, what it forgets, what it can do, its clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui.health.findings import Finding, Level, duration_text, fill_percent
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


def check_server(facts: ServerFacts, options: SampleLimits = DEFAULTS) -> list[Finding]:
    """What makes this server a risky place for jobs, the worst first."""
    found = [
        *_data_loss_risks(facts.report),
        *_is_replica(facts.report),
        *_clock_skew(facts, options),
        *_missing_commands(facts.features),
    ]
    return sorted(found, key=lambda finding: -finding.level)


def _data_loss_risks(told: ServerInfo) -> Iterator[Finding]:
    if told.eviction not in (None, "noeviction"):
        bounded = bool(told.max_memory_bytes)
        yield Finding(
            Level.CRITICAL if bounded else Level.WARNING,
            "evicts",
            f"when memory is full this server deletes keys ({told.eviction}), jobs among them",
            evidence={"maxmemory_policy": told.eviction, "maxmemory": told.max_memory_bytes},
            fix="redis-cli CONFIG SET maxmemory-policy noeviction",
        )
    if told.memory_bytes and told.max_memory_bytes:
        full = fill_percent(told.max_memory_bytes, told.memory_bytes)
        if full >= FULL_PERCENT:
            yield Finding(
                Level.CRITICAL if full >= 100 else Level.WARNING,
                "memory-full",
                f"{full} % of the server's memory is used; beyond it no job can be added",
                evidence={"used": told.memory_bytes, "maxmemory": told.max_memory_bytes, "percent": full},
                fix="redis-cli CONFIG SET maxmemory BYTES",
            )
    if told.persistence == "none":
        yield Finding(
            Level.WARNING,
            "not-persistent",
            "this server keeps nothing on disk: a restart loses every job",
            evidence={"persistence": "none"},
            fix="redis-cli CONFIG SET appendonly yes",
        )
    elif told.persistence == "rdb":
        yield Finding(
            Level.NOTE,
            "snapshots-only",
            "this server saves now and then: a crash loses the jobs since the last save",
            evidence={"persistence": "rdb"},
            fix="redis-cli CONFIG SET appendonly yes",
        )


def _is_replica(told: ServerInfo) -> Iterator[Finding]:
    if told.role not in (None, "master"):
        text = f"this is a {told.role}: what it shows may be old, and nothing can be changed here"
        yield Finding(Level.WARNING, "replica", text, evidence={"role": told.role}, fix="chasqui context list")


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


def _missing_commands(features: Features) -> Iterator[Finding]:
    if features.missing:
        yield Finding(
            Level.NOTE,
            "stand-ins",
            f"{features.kind} {features.version} lacks {', '.join(features.missing)}; our scripts stand in,"
            " but the released engine cannot run on it",
            evidence={"kind": features.kind, "version": features.version, "missing": features.missing},
            fix="chasqui server status",
        )
