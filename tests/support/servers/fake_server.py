"""A fake server: it listens, and answers every command as a test wants."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HOSTILE = b"\x1b]0;pwned\x07\x1b[31m\x9b2J\xe2\x80\xaeevil[red]x[/red]"
_COMMANDS = re.compile(rb"\*\d+\r\n\$\d+\r\n([^\r]+)")

Answers = Callable[[str], bytes]


@contextmanager
def fake_server(answers: Answers) -> Iterator[str]:
    """Its URL. `answers` gives the bytes of each reply, by command."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_let_in, args=(listener, answers), daemon=True).start()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def _let_in(listener: socket.socket, answers: Answers) -> None:
    while True:
        try:
            line, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(line, answers), daemon=True).start()


def _serve(line: socket.socket, answers: Answers) -> None:
    with line:
        try:
            while asked := line.recv(1 << 16):
                names = [name.decode().upper() for name in _COMMANDS.findall(asked)]
                replies = [answers(name) for name in names]
                if not all(replies):
                    return
                line.sendall(b"".join(replies))
        except OSError:
            return


def bulk_reply(data: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(data), data)
