"""The public classes look as in the reference package: what a caller of it writes is understood here, by both kinds of queue."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import chasqui
from chasqui import AsyncLink, Job, Link, Queue, SyncJob, SyncQueue
from chasqui.errors import ChasquiError, ServerError
from chasqui.models import BackoffSpec, MissedFiresPolicy, RepeatableMeta, RepeatPattern

LEFT = inspect.Parameter.POSITIONAL_OR_KEYWORD
NAMED = inspect.Parameter.KEYWORD_ONLY

# Names, defaults and the star of the released package, version 1.3.0; types are not compared.
REFERENCE: dict[str, dict[str, str]] = {
    "Queue": {
        "__init__": "name, *, redis_url='redis://127.0.0.1:6379', tls=False, max_stream_len=None,"
        " max_delay_secs=None, credential_provider=None",
        "add": "name, data, *, delay_ms=None, delay=None, attempts=None, backoff=None, job_id=None,"
        " repeat=None, missed_fires=None",
        "add_unique": "name, data, *, job_id, delay_ms=None, delay=None, attempts=None, backoff=None, repeat=None",
        "add_bulk": "jobs",
        "cancel_delayed": "job_id",
        "peek_dlq": "limit=20",
        "replay_dlq": "limit=100",
        "upsert_repeatable_job": "name, data, *, repeat, limit=None, start_after_ms=None, end_before_ms=None,"
        " attempts=None, backoff=None, job_id=None, missed_fires=None",
        "get_repeatable_jobs": "limit=100",
        "get_job_result": "job_id",
        "get_job_result_bulk": "job_ids",
        "remove_repeatable_by_key": "key",
        "close": "",
    },
    "Job": {"wait_for_result": "*, timeout=30.0, poll_interval=0.1"},
    "BackoffSpec": {
        "__init__": "kind, delay_ms, max_delay_ms=None, multiplier=None, jitter_ms=None",
        "fixed": "delay_ms, jitter_ms=None",
        "exponential": "initial_ms, *, multiplier=2.0, max_ms=None, jitter_ms=None",
        "to_dict": "",
    },
    "RepeatPattern": {
        "__init__": "kind, expression=None, tz=None, interval_ms=None",
        "cron": "expression, *, tz=None",
        "every": "interval_ms",
        "to_dict": "",
    },
    "MissedFiresPolicy": {
        "__init__": "kind, max_catchup=None",
        "skip": "",
        "fire_once": "",
        "fire_all": "max_catchup",
        "to_dict": "",
    },
    "RepeatableMeta": {
        "__init__": "key, job_name, pattern, next_fire_ms, limit=None, start_after_ms=None, end_before_ms=None,"
        " missed_fires=None",
    },
}
OURS = {"data_dir", "on_full", "strict_unique", "delayed_prefix", "durability", "link", "clock"}
CASES = [(name, method) for name, methods in REFERENCE.items() for method in methods]


def parameters(function: Any) -> list[str]:
    """Without types, and without what is ours alone."""
    signature = inspect.signature(function)
    compared = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name not in {"self", *OURS}
    ]
    text = str(inspect.Signature(compared))[1:-1]
    return text.split(", ") if text else []


@pytest.mark.parametrize(("name", "method"), CASES)
def test_a_method_is_called_as_in_the_reference(name: str, method: str) -> None:
    expected = REFERENCE[name][method].split(", ") if REFERENCE[name][method] else []
    assert parameters(getattr(getattr(chasqui, name), method)) == expected


def test_what_is_ours_can_only_be_given_by_name() -> None:
    found = inspect.signature(Queue.__init__).parameters
    assert {name for name in OURS if found[name].kind is NAMED} == OURS


def public(kind: type, *renamed: tuple[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, member in inspect.getmembers(kind):
        if (name.startswith("_") and name != "__init__") or not (callable(member) or isinstance(member, property)):
            continue
        text = str(inspect.signature(member)) if callable(member) else "property"
        for ours, theirs in renamed:
            text = text.replace(ours, theirs)
        found[name] = text
    return found


def test_the_two_queues_have_the_same_methods_arguments_and_answers() -> None:
    blocking = public(SyncQueue, ("SyncJob", "Job"))
    awaiting = public(Queue, ("AsyncLink", "Link"))
    assert blocking == awaiting
    assert all(
        inspect.iscoroutinefunction(getattr(Queue, name)) and not inspect.iscoroutinefunction(getattr(SyncQueue, name))
        for name in REFERENCE["Queue"]
        if name != "__init__"
    )


def test_the_two_jobs_are_alike() -> None:
    assert public(SyncJob) == public(Job)


def test_a_job_prints_and_compares_as_in_the_reference() -> None:
    job = Job("x", "n", {"a": 1}, 0, 5)
    assert repr(job) == "Job(id='x', name='n', data={'a': 1}, attempt=0, created_at_ms=5)"
    again = Job("x", "n", {"a": 1}, 0, 5, created=False)
    assert job == again
    assert repr(job) == repr(again)
    assert (job.created, again.created) == (True, False)
    assert job != Job("y", "n", {"a": 1}, 0, 5)


async def test_a_job_of_a_handler_cannot_wait_for_its_own_result() -> None:
    with pytest.raises(RuntimeError, match="only a job that Queue"):
        await Job("x", "n", 1, 0, 5).wait_for_result()
    with pytest.raises(RuntimeError, match="only a job that Queue"):
        SyncJob("x", "n", 1, 0, 5).wait_for_result()


def test_rules_are_values() -> None:
    assert {BackoffSpec.fixed(1), BackoffSpec.fixed(1)} == {BackoffSpec("fixed", 1)}
    assert RepeatPattern.every(1) == RepeatPattern("every", interval_ms=1)
    assert MissedFiresPolicy.skip() == MissedFiresPolicy("skip")
    assert RepeatableMeta("k", "n", RepeatPattern.every(1), 5).missed_fires is None


def test_errors_are_caught_where_those_of_the_reference_were() -> None:
    assert issubclass(chasqui.NotSupportedError, RuntimeError)
    assert issubclass(chasqui.UnrecoverableError, RuntimeError)
    assert not issubclass(chasqui.UnrecoverableError, ChasquiError), "it is the handler's, not ours"
    assert str(chasqui.UnrecoverableError()) == ""
    assert issubclass(chasqui.QueueFull, ServerError)
    assert issubclass(chasqui.ArgumentError, ValueError)
    assert issubclass(ServerError, RuntimeError)


def test_a_url_with_tls_keeps_its_scheme_and_its_secret() -> None:
    from chasqui.server.address import with_tls

    urls = {
        "redis://h:1/2": "rediss://h:1/2",
        "REDIS://h": "rediss://h",
        "rediss://h": "rediss://h",
        "redis+cluster://u:p@h": "rediss+cluster://u:p@h",
        "redis+sentinel://h/s": "rediss+sentinel://h/s",
        "h:6379": "rediss://h:6379",
    }
    assert {url: with_tls(url).reveal() for url in urls} == urls
    assert "p@" not in repr(with_tls("redis://u:p@h"))


def test_the_two_links_have_the_same_methods_and_arguments() -> None:
    blocking = public(Link)
    awaiting = public(AsyncLink, ("AsyncLink", "Link"), ("AsyncIterator", "Iterator"))
    of_workers_only = {"blocking_copy", "pipelined_connection"}
    assert {name: awaiting[name] for name in awaiting if name not in of_workers_only} == blocking
