"""The clients of the vectors: each of their calls made with our flows and builders, with the client's own habits.

We follow npm rsmq, so its calls are our flows and its errors our errors. PyRSMQ and rsmqctl check arguments in another
way and write by the same steps; what only they do (a ghost written by set, bytes ids) is done with plain commands.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chasqui.foreign import joblist, rsmq
from chasqui.foreign.common_calls import clock
from chasqui.foreign.joblist.joblist_values import JobListOptions
from chasqui.foreign.joblist.keys import JobListKeys, compact_json
from chasqui.foreign.rsmq import limits
from chasqui.foreign.rsmq import rsmq_calls as calls
from chasqui.foreign.rsmq.keys import RsmqKeys, new_message_id
from chasqui.foreign.rsmq.message_values import Message, QueueAttributes
from chasqui.server.flow import Call, Flow
from tests.foreign.vector_stage import VectorStage


class ClientError(Exception):
    """An error of a client: its name and message."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(slots=True)
class NodeRsmq:
    """npm rsmq 0.12.4."""

    stage: VectorStage
    ns: str = "rsmq"
    realtime: bool = False

    def call(self, name: str, args: dict[str, Any]) -> Any:
        try:
            return getattr(self, name)(**args)
        except limits.RsmqError as error:
            raise ClientError(error.name, str(error)) from error

    def _keys(self, qname: Any) -> RsmqKeys:
        return RsmqKeys(limits.check_name(qname), self.ns)

    def createQueue(self, qname: Any = None, **wanted: Any) -> int:  # noqa: N802
        names = {"vt": "vt_s", "delay": "delay_s", "maxsize": "maxsize"}
        self.stage.run(rsmq.create_queue(RsmqKeys(qname, self.ns), **{names[key]: wanted[key] for key in wanted}))
        return 1

    def deleteQueue(self, qname: Any) -> int:  # noqa: N802
        self.stage.run(rsmq.drop_queue(self._keys(qname)))
        return 1

    def listQueues(self) -> list[str]:  # noqa: N802
        return self.stage.run(rsmq.list_queues(self.ns))

    def sendMessage(self, qname: Any, message: Any = None, delay: Any = None) -> str:  # noqa: N802
        delay_ms = None if delay is None else limits.parse_seconds("delay", delay) * 1000
        flow = rsmq.send(self._keys(qname), message, delay_ms=delay_ms, realtime=self.realtime)
        return self.stage.run(flow)

    def receiveMessage(self, qname: Any, vt: Any = None) -> dict[str, Any]:  # noqa: N802
        vt_ms = None if vt is None else limits.parse_seconds("vt", vt) * 1000
        return self._message(self.stage.run(rsmq.receive(self._keys(qname), vt_ms=vt_ms)))

    def popMessage(self, qname: Any) -> dict[str, Any]:  # noqa: N802
        return self._message(self.stage.run(rsmq.pop(self._keys(qname))))

    def changeMessageVisibility(self, qname: Any, id: Any = None, vt: Any = None) -> int:  # noqa: A002, N802
        keys, message_id = self._keys(qname), limits.check_id(id)
        flow = rsmq.change_visibility(keys, message_id, limits.parse_seconds("vt", vt) * 1000)
        return int(self.stage.run(flow))

    def deleteMessage(self, qname: Any, id: Any) -> int:  # noqa: A002, N802
        return int(self.stage.run(rsmq.delete(self._keys(qname), limits.check_id(id))))

    def getQueueAttributes(self, qname: Any) -> dict[str, Any]:  # noqa: N802
        return _node_stats(self.stage.run(rsmq.queue_stats(self._keys(qname))))

    def setQueueAttributes(self, qname: Any, **wanted: Any) -> dict[str, Any]:  # noqa: N802
        names = {"vt": "vt_s", "delay": "delay_s", "maxsize": "maxsize"}
        named = {names[key]: value for key, value in wanted.items()}
        return _node_stats(self.stage.run(rsmq.set_attributes(self._keys(qname), **named)))

    def _message(self, message: Message | None) -> dict[str, Any]:
        if message is None:
            return {}
        return {
            "id": message.id,
            "message": None if message.body is None else message.body.decode("utf-8", "replace"),
            "rc": message.receives,
            "fr": message.first_received_ms or 0,
            "sent": (message.sent_us or 0) / 1000,
        }


def _node_stats(stats: rsmq.QueueStats) -> dict[str, Any]:
    about = stats.attributes
    return {
        "vt": int(about.vt_s or 0),
        "delay": int(about.delay_s or 0),
        "maxsize": about.maxsize,
        "totalrecv": about.received,
        "totalsent": about.sent,
        "created": about.created_s,
        "modified": about.modified_s,
        "msgs": stats.messages,
        "hiddenmsgs": stats.hidden,
    }


def _ask(*asked: Call) -> Flow[list[Any]]:
    return (yield list(asked))


@dataclass(slots=True)
class PyRsmq:
    """PyRSMQ 0.6.1, or 0.4.5 when ids come as bytes and are `old`."""

    stage: VectorStage
    ns: str = "rsmq"
    raw: bool = False
    old: bool = False

    def call(self, name: str, args: dict[str, Any]) -> Any:
        try:
            return getattr(self, name)(**args)
        except limits.QueueNotFound as error:
            raise self._missing(args["qname"]) from error
        except TypeError as error:
            raise ClientError("TypeError", str(error)) from error

    def _missing(self, qname: str) -> ClientError:
        return ClientError("QueueDoesNotExist", f"Queue '{qname}' does not exist")

    def _keys(self, qname: str) -> RsmqKeys:
        return RsmqKeys(qname, self.ns)

    def _open(self, qname: str) -> tuple[QueueAttributes, int]:
        """It looks at `vt` only, and a missing delay is none."""
        fields, now = self.stage.run(_ask(calls.read_attributes(self._keys(qname)), clock()))
        if fields[0] is None:
            raise self._missing(qname)
        return QueueAttributes.from_fields(fields), int(now[0]) * 1_000_000 + int(now[1])

    def _message(self, message: Message | None, qname: str) -> dict[str, Any]:
        if message is None:
            raise ClientError("NoMessageInQueue", f"Queue '{qname}' has no messages waiting")
        first: Any = message.first_received_ms
        body = message.body
        return {
            "id": {"b64": _b64(message.id.encode())} if self.raw else message.id,
            "message": {"b64": _b64(body)} if self.raw and body is not None else body and body.decode(),
            "rc": message.receives,
            "ts": int(first),
        }

    def createQueue(self, qname: str, vt: Any = 30, delay: Any = 0, maxsize: Any = 65565) -> bool:  # noqa: N802
        if ":" in qname or not 1 <= len(qname) <= 64:
            return False
        vt, delay = _seconds(vt, 30), _seconds(delay, 0)
        maxsize = maxsize if maxsize == -1 or 1024 <= maxsize <= 65565 else 65565
        keys = self._keys(qname)
        now, before = self.stage.run(_ask(clock(), calls.read_attributes(keys)))
        if None not in before[:5]:
            raise ClientError("QueueAlreadyExists", f"Queue '{qname}' already exists")
        made = calls.create_queue(keys, vt_s=str(vt), delay_s=str(delay), maxsize=maxsize, now_s=int(now[0]))
        self.stage.run(_ask(made, calls.add_to_queue_list(keys)))
        return True

    def deleteQueue(self, qname: str) -> bool:  # noqa: N802
        [(removed, listed)] = self.stage.run(_ask(calls.drop_queue(self._keys(qname))))
        if not removed and not listed:
            raise self._missing(qname)
        return True

    def listQueues(self) -> list[str]:  # noqa: N802
        return self.stage.run(rsmq.list_queues(self.ns))

    def sendMessage(self, qname: str, message: Any, delay: Any = None) -> Any:  # noqa: N802
        if not message:
            return False
        about, now_us = self._open(qname)
        body = message if isinstance(message, str | bytes) else json.dumps(message)
        wait_s = (about.delay_s or 0) if delay is None else delay
        message_id = new_message_id(now_us)
        score = now_us // 1000 + int(wait_s * 1000)
        self.stage.run(_ask(calls.send(self._keys(qname), message_id, score, limits.encode_body(body))))
        return message_id

    def receiveMessage(self, qname: str, vt: Any = None) -> dict[str, Any]:  # noqa: N802
        about, now_us = self._open(qname)
        now_ms, vt_s = now_us // 1000, (about.vt_s or 0) if vt is None else vt
        until_ms = now_ms + int(vt_s * 1000)
        [reply] = self.stage.run(_ask(calls.receive(self._keys(qname), now_ms=now_ms, until_ms=until_ms)))
        return self._message(Message.from_receipt(reply, until_ms) if reply else None, qname)

    def popMessage(self, qname: str) -> dict[str, Any]:  # noqa: N802
        return self._message(self.stage.run(rsmq.pop(self._keys(qname))), qname)

    def changeMessageVisibility(self, qname: str, id: str, vt: Any) -> bool:  # noqa: A002, N802
        if not self.stage.run(rsmq.change_visibility(self._keys(qname), id, int(vt * 1000))):
            raise ClientError("NoMessageInQueue", f"Queue '{qname}' has no messages waiting")
        return True

    def deleteMessage(self, qname: str, id: Any) -> bool:  # noqa: A002, N802
        keys = self._keys(qname)
        if self.old:
            name = id.decode() if isinstance(id, bytes) else id
            fields = (name, f"{id!r}:rc", f"{id!r}:fr") if self.raw else (name, f"{id}:rc", f"{id}:fr")
            replies = (
                self.stage.command("ZREM", keys.messages, name),
                self.stage.command("HDEL", keys.hash, *fields),
            )
            return bool(replies[0] == 1 and replies[1] > 0)
        [[(_, removed)]] = self.stage.run(_ask(calls.delete(keys, [id])))
        return bool(removed == 3)

    def getQueueAttributes(self, qname: str) -> dict[str, Any]:  # noqa: N802
        fields, messages, now = self.stage.run(
            _ask(calls.read_attributes(self._keys(qname)), calls.message_count(self._keys(qname)), clock())
        )
        if fields[0] is None:
            raise self._missing(qname)
        return self._stats(fields, messages, now, self._keys(qname))

    def _stats(self, fields: Any, messages: int, now: Any, keys: RsmqKeys) -> dict[str, Any]:
        now_ms = int(now[0]) * 1000 + int(now[1]) // 1000
        [hidden] = self.stage.run(_ask(calls.count_from(keys, now_ms)))
        vt, delay, maxsize, created, modified, sent, received = fields
        stats = {"vt": float(vt), "delay": float(delay), "maxsize": int(maxsize)}
        stats |= {"totalrecv": int(received or 0), "totalsent": int(sent or 0)}
        return stats | {
            "created": int(created),
            "modified": int(modified),
            "msgs": messages,
            "hiddenmsgs": hidden,
        }

    def setQueueAttributes(self, qname: str, **wanted: Any) -> dict[str, Any]:  # noqa: N802
        keys = self._keys(qname)
        [now] = self.stage.run(_ask(clock()))
        valid = {
            name: value
            for name, value in wanted.items()
            if (name == "maxsize" and 1024 <= value <= 65565) or (name != "maxsize" and 0 <= value <= 9_999_999)
        }
        self.stage.run(_ask(calls.set_attributes(keys, {"modified": int(now[0]), **valid})))
        fields, messages = self.stage.run(_ask(calls.read_attributes(keys), calls.message_count(keys)))
        return self._stats(fields, messages, now, keys)


def _seconds(value: Any, default: int) -> Any:
    return value if 0 <= value <= 9_999_999 else default


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@dataclass(slots=True)
class RsmqCtl:
    """rsmqctl 1.0.0: words in; exit code, output and complaints out."""

    stage: VectorStage

    def call(self, argv: list[str]) -> dict[str, Any]:
        what, verb, *words = argv[1:]
        options = dict(zip(words[::2], words[1::2], strict=True))
        self.name = options.get("-n", "")
        self.client = PyRsmq(self.stage, old=True)
        try:
            ended: dict[str, Any] = getattr(self, f"{what}_{verb}")(options)
            return ended
        except ClientError as error:
            return self._refused(error, what, verb, options)

    name: str = ""
    client: PyRsmq = field(init=False)

    def _refused(self, error: ClientError, what: str, verb: str, options: dict[str, str]) -> dict[str, Any]:
        leak = f"{error.name}: Exception while processing {{}}: {error}\n"
        match error.name, verb:
            case "NoMessageInQueue", "pop":
                return _ended(0, f"No messages on queue: {self.name}\n", leak.format("PopMessageCommand"))
            case "NoMessageInQueue", "receive":
                return _ended(0, f"No messages on queue: {self.name}\n")
            case "NoMessageInQueue", _:
                text = f"Failed to change visibility timeout for message ID: {options['-i']}\n"
                return _ended(1, "", leak.format("ChangeMessageVisibilityCommand") + text)
            case "QueueAlreadyExists", _:
                return _ended(1, "", f"Queue already exists: {self.name}\n")
            case _:
                return _ended(1, "", f"No such queue: {self.name}\n")

    def queue_list(self, _: dict[str, str]) -> dict[str, Any]:
        return _ended(0, json.dumps(sorted(self.client.listQueues())) + "\n")

    def queue_create(self, options: dict[str, str]) -> dict[str, Any]:
        vt, delay = int(options.get("-t", 30)), int(options.get("-d", 0))
        self.client.createQueue(self.name, vt, delay, int(options.get("-m", 65535)))
        return _ended(0)

    def queue_describe(self, _: dict[str, str]) -> dict[str, Any]:
        return _ended(0, json.dumps(self.client.getQueueAttributes(self.name)) + "\n")

    def queue_delete(self, _: dict[str, str]) -> dict[str, Any]:
        self.client.deleteQueue(self.name)
        return _ended(0)

    def message_send(self, options: dict[str, str]) -> dict[str, Any]:
        sent = self.client.sendMessage(self.name, options["-m"], int(options.get("-d", 0)))
        return _ended(0, f"{sent}\n")

    def message_receive(self, options: dict[str, str]) -> dict[str, Any]:
        vt = int(options.get("-t", 0)) or None
        return _ended(0, json.dumps(self.client.receiveMessage(self.name, vt)) + "\n")

    def message_pop(self, _: dict[str, str]) -> dict[str, Any]:
        return _ended(0, json.dumps(self.client.popMessage(self.name)) + "\n")

    def message_delete(self, options: dict[str, str]) -> dict[str, Any]:
        if self.client.deleteMessage(self.name, options["-i"]):
            return _ended(0)
        return _ended(1, "", f"Failed to delete message ID: {options['-i']}\n")

    def message_visibility(self, options: dict[str, str]) -> dict[str, Any]:
        self.client.changeMessageVisibility(self.name, options["-i"], int(options["-t"]))
        text = f"Message ID: {options['-i']} visibility timeout set to {options['-t']}s\n"
        return _ended(0, text)


def _ended(code: int, out: str = "", err: str = "") -> dict[str, Any]:
    return {"exit": code, "stdout": out, "stderr": err}


@dataclass(slots=True)
class GuideClient:
    """The guide's Python or Node version: the same but for how JSON is spelled. Its counters live in the process."""

    stage: VectorStage
    keys: JobListKeys
    options: JobListOptions
    now_ms: int = 0
    totals: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("enqueued_total", "completed_total", "failed_total", "reclaimed_total"), 0
        )
    )

    @classmethod
    def of(cls, stage: VectorStage, client: str, queue: str, settings: dict[str, int]) -> GuideClient:
        spelled: Callable[[object], str] = json.dumps if client == "guide-py" else compact_json
        options = JobListOptions(
            visibility_ms=settings["visibility_ms"],
            ttl_s=settings["completed_ttl"],
            history=settings["completed_history"],
            max_attempts=settings["max_attempts"],
            write_json=spelled,
        )
        return cls(stage, JobListKeys(queue), options)

    def call(self, name: str, args: dict[str, Any]) -> Any:
        return getattr(self, name)(**args)

    def enqueue(self, payload: Any) -> str:
        self.totals["enqueued_total"] += 1
        return self.stage.run(joblist.enqueue(self.keys, payload, now_ms=self.now_ms, options=self.options))

    def claim(self, timeout_ms: int) -> Any:
        claim = self.stage.run(joblist.claim(self.keys, block_ms=timeout_ms, now_ms=self.now_ms))
        if claim is None:
            return None
        job = {"id": claim.id, "payload": claim.payload, "attempts": claim.attempts}
        return job | {"claim_token": claim.token}

    def complete(self, job: dict[str, Any], result: Any) -> bool:
        flow = joblist.complete(
            self.keys, job["id"], job["claim_token"], result, now_ms=self.now_ms, options=self.options
        )
        done = self.stage.run(flow)
        self.totals["completed_total"] += done
        return done

    def fail(self, job: dict[str, Any], error: str) -> bool:
        flow = joblist.fail(
            self.keys,
            job["id"],
            job["claim_token"],
            error,
            attempts=job["attempts"],
            now_ms=self.now_ms,
            options=self.options,
        )
        outcome = self.stage.run(flow)
        self.totals["failed_total"] += outcome == "failed"
        return outcome is not None

    def reclaim_stuck(self) -> list[str]:
        """The guide's sweep fails as a whole where ours reports one id; this client raises the guide's error."""
        flow = joblist.reclaim(self.keys, options=self.options, now_ms=self.now_ms)
        outcome = self.stage.run(flow)
        if any("is no number" in one.reason for one in outcome.skipped):
            raise ClientError("ResponseError", "attempt to compare number with nil")
        self.totals["reclaimed_total"] += len(outcome.moved)
        return list(outcome.moved)

    def stats(self) -> dict[str, int]:
        depths = self.stage.run(joblist.read_depths(self.keys))
        lengths = {f"{name}_depth": getattr(depths, name) for name in ("pending", "processing", "completed", "failed")}
        return self.totals | lengths | {"visibility_ms": self.options.visibility_ms}

    def get_job(self, job_id: str) -> Any:
        job = self.stage.run(joblist.read_job(self.keys, job_id))
        if job is None or job.is_expired:
            return None
        decoded = {"payload", "result"}
        return {name: job.value(name) if name in decoded else job.text(name) for name in job.fields}

    def list_pending(self) -> list[str]:
        return self.stage.run(joblist.list_ids(self.keys, "pending"))

    def purge(self) -> None:
        self.stage.run(joblist.purge_all(self.keys))
