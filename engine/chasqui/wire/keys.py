"""Every Redis key of one queue, and nothing else: no other file spells a key.

All keys of a queue share one hash tag, so they share a cluster slot and a script may touch any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "{chasqui:"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one queue. The name is used as it is: the reference escapes and refuses nothing."""

    queue: str

    def _key(self, suffix: str) -> str:
        return f"{PREFIX}{self.queue}}}:{suffix}"

    @property
    def stream(self) -> str:
        """Stream: the jobs that wait or run."""
        return self._key("stream")

    @property
    def dlq(self) -> str:
        """Stream: the dead letters. It has no group."""
        return self._key("dlq")

    @property
    def delayed(self) -> str:
        """Sorted set: members are name-prefixed envelopes, scores are due times in ms."""
        return self._key("delayed")

    @property
    def repeat(self) -> str:
        """Sorted set: spec keys, scored by their next fire in ms."""
        return self._key("repeat")

    @property
    def events(self) -> str:
        """Stream: what happened, in plain text."""
        return self._key("events")

    @property
    def promoter_lock(self) -> str:
        """String: the leader of the promoters, for five seconds at a time."""
        return self._key("promoter:lock")

    @property
    def scheduler_lock(self) -> str:
        """String: the leader of the schedulers, for five seconds at a time."""
        return self._key("scheduler:lock")

    def repeat_spec(self, key: str) -> str:
        """Hash: the spec's bytes in `spec`, its counter in `fired`."""
        return self._key(f"repeat:spec:{key}")

    def result(self, job_id: str) -> str:
        """String: what the handler returned, until it expires."""
        return self._key(f"result:{job_id}")

    def delayed_marker(self, job_id: str) -> str:
        """String: this id was scheduled once already."""
        return self._key(f"dlid:{job_id}")

    def delayed_index(self, job_id: str) -> str:
        """String: the exact delayed member of this id, so that it can be cancelled."""
        return self._key(f"didx:{job_id}")

    def added_marker(self, producer_id: str, job_id: str) -> str:
        """String: what this producer already wrote for this id, where the server has no IDMP of its own for it.

        A run of jobs has one marker together, under the id of its first job.
        """
        return self._key(f"idmp:{producer_id}:{job_id}")

    def migrated_marker(self, job_id: str) -> str:
        """String: this job has arrived from another server already."""
        return self._key(f"mig:{job_id}")

    def load_ledger(self, kind: str, run_id: str) -> str:
        """Set or hash: which jobs of a bulk load are written already, by id ("rows") or by chunk ("chunks")."""
        return self._key(f"load:{kind}:{run_id}")

    def load_pace(self, run_id: str) -> str:
        """String: when the next job of a bulk load may be written, in ms."""
        return self._key(f"load:pace:{run_id}")

    def load_start(self, run_id: str) -> str:
        """String: when a bulk load was started for the first time, in ms, and what its ledger knows jobs by."""
        return self._key(f"load:since:{run_id}")
