"""PyRSMQ, or rsmqctl as it is typed, as a process that takes calls as JSON lines: `rsmq_python.py NAME PORT`.

Run by an interpreter that has the package and nothing of ours. Answers have the same shape as those of rsmq_node.mjs.
"""

from __future__ import annotations

import json
import sys
from typing import Any


class Library:
    """PyRSMQ."""

    def __init__(self, port: int) -> None:
        from rsmq import RedisSMQ  # type: ignore[import-not-found]

        self.rsmq: Any = RedisSMQ(host="127.0.0.1", port=port, ns="rsmq", exceptions=False)

    def create(self, queue: str, **wanted: Any) -> Any:
        return self.rsmq.createQueue(qname=queue, **wanted).execute()

    def drop(self, queue: str) -> Any:
        return self.rsmq.deleteQueue(qname=queue).execute()

    def names(self) -> Any:
        return sorted(self.rsmq.listQueues().execute())

    def send(self, queue: str, bodies: list[str], **wanted: Any) -> Any:
        return [self.rsmq.sendMessage(qname=queue, message=body, **wanted).execute() for body in bodies]

    def receive(self, queue: str, count: int, **wanted: Any) -> Any:
        found: list[Any] = []
        while len(found) < count:
            message = self.rsmq.receiveMessage(qname=queue, quiet=True, **wanted).execute()
            if not message:
                break
            found.append(message_row(message))
        return found

    def pop(self, queue: str) -> Any:
        message = self.rsmq.popMessage(qname=queue, quiet=True).execute()
        return message_row(message) if message else None

    def hide(self, queue: str, message_id: str, vt: int) -> Any:
        return bool(self.rsmq.changeMessageVisibility(qname=queue, id=message_id, vt=vt, quiet=True).execute())

    def delete(self, queue: str, ids: list[str]) -> Any:
        return [bool(self.rsmq.deleteMessage(qname=queue, id=one).execute()) for one in ids]

    def stats(self, queue: str) -> Any:
        return self.rsmq.getQueueAttributes(qname=queue).execute()


class CommandLine:
    """rsmqctl, all of it but the start of a process for each command."""

    def __init__(self, port: int) -> None:
        from click.testing import CliRunner
        from rsmqctl.rsmqctl import cli  # type: ignore[import-not-found]

        self.runner = CliRunner(mix_stderr=False)  # type: ignore[call-arg,unused-ignore]
        self.cli: Any = cli
        self.url = f"redis://127.0.0.1:{port}"

    def run(self, *words: Any) -> str:
        ended = self.runner.invoke(self.cli, ["-r", self.url, *map(str, words)])
        if ended.exit_code:
            raise RuntimeError(f"exit {ended.exit_code}: {ended.stderr}{ended.exception!r}")
        return str(ended.stdout)

    def create(self, queue: str, vt: int = 30, delay: int = 0, maxsize: int = 65535) -> Any:
        return self.run("queue", "create", "-n", queue, "-t", vt, "-d", delay, "-m", maxsize)

    def drop(self, queue: str) -> Any:
        return self.run("queue", "delete", "-n", queue)

    def names(self) -> Any:
        return json.loads(self.run("queue", "list"))

    def send(self, queue: str, bodies: list[str], delay: int = 0) -> Any:
        words = ("message", "send", "-n", queue, "-d", delay, "-m")
        return [self.run(*words, body).strip() for body in bodies]

    def receive(self, queue: str, count: int, vt: int = 30) -> Any:
        found: list[Any] = []
        while len(found) < count:
            output = self.run("message", "receive", "-n", queue, "-t", vt)
            if output.startswith("No messages"):
                break
            found.append(message_row(json.loads(output)))
        return found

    def pop(self, queue: str) -> Any:
        output = self.run("message", "pop", "-n", queue)
        return None if output.startswith("No messages") else message_row(json.loads(output))

    def hide(self, queue: str, message_id: str, vt: int) -> Any:
        return "visibility timeout set" in self.run("message", "visibility", "-n", queue, "-i", message_id, "-t", vt)

    def delete(self, queue: str, ids: list[str]) -> Any:
        gone = []
        for one in ids:
            try:
                self.run("message", "delete", "-n", queue, "-i", one)
                gone.append(True)
            except RuntimeError:
                gone.append(False)
        return gone

    def stats(self, queue: str) -> Any:
        return json.loads(self.run("queue", "describe", "-n", queue))


def message_row(message: dict[str, Any]) -> dict[str, Any]:
    names = {"id": "id", "body": "message", "receives": "rc", "first": "ts"}
    return {ours: message[theirs] for ours, theirs in names.items()}


def main(name: str, port: str) -> None:
    client = CommandLine(int(port)) if name == "rsmqctl" else Library(int(port))
    for line in sys.stdin:
        words = json.loads(line)
        try:
            answer = {"result": getattr(client, words.pop("verb"))(**words)}
        except Exception as error:  # noqa: BLE001 - any error is returned to the caller
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
