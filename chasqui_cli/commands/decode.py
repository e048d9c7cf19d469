"""`chasqui decode`: any bytes → one JSON object. Needs no server, so it works on a dump at 3 a.m. too."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_cli.context.command_context import CommandContext, command
from chasqui_cli.output.tagged_json import json_text
from chasqui_cli.output.writer import Format, print_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui_cli.output.columns import Record


class DecodeKind(StrEnum):
    """What the bytes are."""

    ENVELOPE = "envelope"
    DELAYED = "delayed"
    SPEC = "spec"
    RESULT = "result"
    AUTO = "auto"


MAX_STRING_BYTES = 512 * 1024 * 1024  # that a Redis server keeps

# In a batch, the long names that people know from the key layout do as well.
_KIND_ALIASES = {"delayed_member": "delayed", "repeat_spec": "spec"}


@command("decode", Format.JSON, server=False)
def decode(
    ctx: CommandContext,
    source: Annotated[str | None, typer.Argument(metavar="[-]", help="`-` reads raw bytes from stdin.")] = None,
    kind: Annotated[DecodeKind, typer.Option(help="What the bytes are; `auto` finds out.")] = DecodeKind.AUTO,
    hex_text: Annotated[str | None, typer.Option("--hex", metavar="HEX", help="The bytes in hexadecimal.")] = None,
    base64_text: Annotated[str | None, typer.Option("--base64", metavar="B64", help="The bytes in base64.")] = None,
    stdin_jsonl: Annotated[
        bool, typer.Option("--stdin-jsonl", help='Read {"kind","hex"} lines from stdin, answer one line each.')
    ] = False,
    max_bytes: Annotated[int, typer.Option(min=1, max=MAX_STRING_BYTES, help="Refuse more bytes than this.")] = 1 << 20,
) -> None:
    """Show what bytes from Redis mean: an envelope, a delayed member, a repeat spec, a result.

    In a batch (`--stdin-jsonl`) bytes that cannot be read are answered with {"error": …} in their place.
    """
    given = [way for way in (source, hex_text, base64_text, stdin_jsonl or None) if way is not None]
    if len(given) != 1 or source not in (None, "-"):
        raise typer.BadParameter("give the bytes in exactly one way: --hex, --base64, --stdin-jsonl or -")
    if stdin_jsonl:
        _decode_lines(max_bytes)
    else:
        ctx.write_record(_decode_bytes(kind, _read_input(hex_text, base64_text, max_bytes), max_bytes))


def _decode_lines(max_bytes: int) -> None:
    from chasqui.errors import ChasquiError

    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        try:
            answer = _decode_line(line, max_bytes)
        except ChasquiError as error:
            answer = {"error": str(error)}
        print_line(json_text(answer))
        sys.stdout.flush()  # the writer may wait for the result before it sends more


def _decode_line(line: bytes, max_bytes: int) -> Record:
    from chasqui.errors import ArgumentError

    try:
        question = json.loads(line)
        kind = DecodeKind(_KIND_ALIASES.get(question["kind"], question["kind"]))
        text = question["hex"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ArgumentError('not a {"kind": …, "hex": …} line with a known kind') from None
    if not isinstance(text, str):
        raise ArgumentError("hex is not a string")
    return _decode_bytes(kind, _from_hex(text), max_bytes)


def _read_input(hex_text: str | None, base64_text: str | None, max_bytes: int) -> bytes:
    if hex_text is not None:
        return _from_hex(hex_text)
    if base64_text is not None:
        return _from_base64(base64_text)
    return sys.stdin.buffer.read(max_bytes + 1)


def _from_hex(text: str) -> bytes:
    from chasqui.errors import ArgumentError

    try:
        return bytes.fromhex(text.strip().removeprefix("0x"))
    except ValueError as error:
        raise ArgumentError(f"not hexadecimal: {error}", hint="give pairs of 0-9 a-f, blanks allowed") from None


def _from_base64(text: str) -> bytes:
    from chasqui.errors import ArgumentError

    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ArgumentError(f"not base64: {error}", hint="standard alphabet (A-Z a-z 0-9 + /), with padding") from None


def _decode_bytes(kind: DecodeKind, data: bytes, max_bytes: int) -> Record:
    if kind is DecodeKind.AUTO:
        return _detect(data, max_bytes)
    return _DECODERS[kind](data, max_bytes)


def _detect(data: bytes, max_bytes: int) -> Record:
    """An envelope never reads as a spec, nor a prefixed member as either; nearly anything reads as a result."""
    from chasqui.errors import WireError

    if len(data) > max_bytes:
        raise WireError(f"over the limit of {max_bytes} bytes", data, hint="raise it with --max-bytes")
    for reader in _DECODERS.values():
        try:
            return reader(data, max_bytes)
        except WireError:
            continue
    raise WireError(
        "not an envelope, a delayed member, a repeat spec or a result",
        data,
        hint="say which with --kind to see why not",
    )


def _decode_envelope(data: bytes, max_bytes: int) -> Record:
    from chasqui import decode_envelope
    from chasqui_cli.output.records import envelope_record

    return envelope_record(decode_envelope(data, max_bytes))


def _decode_delayed(data: bytes, max_bytes: int) -> Record:
    from chasqui import decode_delayed_member
    from chasqui_cli.output.records import delayed_member_record

    return delayed_member_record(decode_delayed_member(data, max_bytes))


def _decode_spec(data: bytes, max_bytes: int) -> Record:
    from chasqui import decode_repeat_spec
    from chasqui_cli.output.records import spec_record

    return spec_record(decode_repeat_spec(data, max_bytes))


def _decode_result(data: bytes, max_bytes: int) -> Record:
    from chasqui import decode_result

    return {"kind": "result", "hex": data.hex(), "data": decode_result(data, max_bytes)}


_DECODERS: dict[DecodeKind, Callable[[bytes, int], Record]] = {
    DecodeKind.ENVELOPE: _decode_envelope,
    DecodeKind.SPEC: _decode_spec,
    DecodeKind.DELAYED: _decode_delayed,
    DecodeKind.RESULT: _decode_result,
}
