"""What the reference's scripts did, done by ours: the same entries, members and keys are left behind, on every server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui.server.commands import FireResult, PlannedFire, PromoteResult, RawEntry, ReplayItem
from chasqui.wire.keys import Keys
from tests import golden
from tests.support.queue_harness import GROUP, QueueHarness

if TYPE_CHECKING:
    from collections.abc import Sequence


def unhex(words: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(word) for word in words]


def entries(b: QueueHarness, key: str) -> list[list[bytes]]:
    return [list(entry.fields) for entry in RawEntry.list_from_reply(b.run_calls(b.commands.oldest_entries(key, 1000)))]


def clear(b: QueueHarness) -> None:
    for key in b.command("KEYS", f"{{chasqui:{b.queue}}}:*"):
        b.command("DEL", key)


def split(member: bytes) -> tuple[bytes, bytes]:
    end = 4 + int.from_bytes(member[:4], "little")
    return member[end:], member[4:end]


def test_promoting_keeps_every_job_the_reference_delivers_and_those_it_loses(
    harnesses: list[QueueHarness], record_property: Any
) -> None:
    def check(item: golden.Item) -> None:
        member, expected = bytes.fromhex(item["hex"]["member"]), item["expect"]
        for b in harnesses:
            clear(b)
            b.run_calls(b.commands.schedule(b.keys, member, 1))
            promoted = PromoteResult.from_reply(b.run_calls(b.commands.promote(b.keys, batch=10)))
            if expected["form"] == "corrupt":
                assert (promoted.quarantined, entries(b, b.keys.dlq)[0][1]) == (1, member)
                continue
            name = bytes.fromhex(expected["name_hex"]) if "name_hex" in expected else expected["name"].encode()
            envelope = bytes.fromhex(item["hex"]["envelope"])
            assert entries(b, b.keys.stream) == [[b"d", envelope, *([b"n", name] if name else [])]]
            assert promoted.envelopes == (envelope,)
            if expected.get("engine_delivered"):
                reference = [
                    bytes.fromhex(v) if i else k.encode() for k, v in expected["engine_stream_fields"] for i in (0, 1)
                ]
                assert entries(b, b.keys.stream) == [reference]

    golden.walk("delayed_member", check, record_property)


def test_firing_leaves_what_the_reference_leaves(harnesses: list[QueueHarness], record_property: Any) -> None:
    def check(item: golden.Item) -> None:
        context, expected = item["context"], item["expect"]
        argv = unhex(item["hex"]["argv"])
        next_ms, limit, end_ms = (int(argv[number]) for number in (8, 11, 12))
        fires = [PlannedFire(int(at), *_fire(member)) for at, member in zip(argv[14::2], argv[15::2], strict=True)]
        for b in harnesses:
            clear(b)
            key = context["spec_key"]
            b.run_calls(
                b.commands.upsert_repeat(b.keys, key, bytes.fromhex(item["hex"]["spec"]), next_ms=context["score"])
            )
            _count_earlier_fires(b, key, limit, expected)
            call = b.commands.fire_repeat(
                b.keys,
                key,
                fires,
                due_ms=context["score"],
                next_ms=next_ms,
                limit=limit,
                end_before_ms=end_ms,
            )
            fired = FireResult.from_reply(b.run_calls(call))
            assert fired.removed is expected["spec_removed"]
            assert fired.count == expected["stream_len_after"]
            calls = [unhex(words) for words in item["hex"]["lua_calls"]]
            added = [words[6:] for words in calls if words[0] == b"XADD"]
            assert entries(b, b.keys.stream) == added
            stored = b.command("HGET", b.keys.repeat_spec(key), "fired")
            assert stored == (expected["fired_field_after"].encode() if expected["fired_field_after"] else None)
            score = b.command("ZSCORE", b.keys.repeat, key)
            assert (score is None) if fired.removed else (int(float(score)) == next_ms)

    golden.walk("fire", check, record_property)


def _fire(member: bytes) -> tuple[bytes, str]:
    envelope, name = split(member)
    return envelope, name.decode()


def _count_earlier_fires(b: QueueHarness, key: str, limit: int, expected: dict[str, Any]) -> None:
    """A limit that was reached with fewer fires than it allows was nearly reached before."""
    earlier = limit - expected["stream_len_after"] if limit and expected["spec_removed"] else 0
    if earlier > 0:
        b.command("HSET", b.keys.repeat_spec(key), "fired", earlier)


def test_storing_a_result_leaves_what_the_reference_leaves(harnesses: list[QueueHarness], record_property: Any) -> None:
    def check(item: golden.Item) -> None:
        job_id, data = item["context"]["job_id"], bytes.fromhex(item["hex"]["value"])
        seconds = item["expect"]["ex_seconds"]
        for b in harnesses:
            [entry_id] = b.deliver(b"x")
            settle = b.commands.settle_owned
            call = settle(b.keys, GROUP, "ada", entry_id, job_id, data=data, ttl_s=seconds)
            assert b.run_calls(call) == 1
            assert b.run_calls(b.commands.stored_results(b.keys, [job_id])) == [data]
            left_ms = b.command("PTTL", b.keys.result(job_id))
            assert seconds * 1000 - 60_000 < left_ms <= seconds * 1000

    golden.walk("result", check, record_property)


def test_moving_to_the_dead_letters_and_replaying_leave_what_the_reference_leaves(
    harnesses: list[QueueHarness], record_property: Any
) -> None:
    def check(item: golden.Item) -> None:
        letter = [word for name, value in item["hex"]["fields"] for word in (name.encode(), bytes.fromhex(value))]
        source = [
            word for name, value in item["hex"]["source_fields"] for word in (name.encode(), bytes.fromhex(value))
        ]
        for b in harnesses:
            clear(b)
            b.run(b.commands.ensure_group(b.keys, GROUP))
            entry_id = item["expect"]["source_id"].encode()
            b.command("XADD", b.keys.stream, entry_id, *source)
            b.command("XREADGROUP", "GROUP", GROUP, "ada", "STREAMS", b.keys.stream, ">")
            dead_id = b.run_calls(b.commands.move_to_dlq(b.keys, GROUP, "ada", entry_id, letter, cap=100_000))
            assert (entries(b, b.keys.dlq), entries(b, b.keys.stream)) == ([letter], [])
            if item["expect"]["replayable"]:
                replayed = unhex([item["hex"]["replayed_d"], item["hex"]["replayed_n"]])
                b.run_calls(b.commands.replay_dead(b.keys, [ReplayItem(dead_id, *replayed)], cap=1_000_000))
                named = [b"d", replayed[0], *([b"n", replayed[1]] if replayed[1] else [])]
                assert (entries(b, b.keys.dlq), entries(b, b.keys.stream)) == ([], [named])

    golden.walk("dlq_entry", check, record_property)


def test_cancelling_leaves_what_the_reference_leaves(harnesses: list[QueueHarness]) -> None:
    cancels = [item for item in golden.items("command") if item["case"] == "cancel_delayed"]
    assert cancels
    for item in cancels:
        [_, removed, *_] = [unhex(words) for words in item["hex"]["lua_calls"]]
        index = unhex(item["hex"]["argvs"][0])[4].decode()
        job_id = index.removeprefix(Keys(item["context"]["queue"]).delayed_index(""))
        for b in harnesses:
            b.run_calls(b.commands.schedule_once(b.keys, job_id, removed[2], 10**13, now_ms=10**13 - 5000))
            assert bool(b.run_calls(b.commands.cancel_delayed(b.keys, job_id))) is item["expect"]["returned"]
            assert b.dump() == {}
