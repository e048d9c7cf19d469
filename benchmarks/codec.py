"""What the codecs cost per job next to msgpack alone on the same bytes, interleaved in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import msgpack

from chasqui.wire import delayed_member, envelope, msgpack_codec, payload
from chasqui.wire.job_id import new_job_id, new_job_ids

DATA = {"i": 7, "to": "ada@example.com"}
JOB = envelope.Envelope(new_job_id(1_794_796_970_454), payload.from_data(DATA), 1_794_796_970_454)
BYTES = envelope.encode(JOB)
MEMBER = delayed_member.encode(BYTES, "mail")
LIST = [JOB.id, JOB.payload.raw, JOB.created_at_ms, 0]
ONE_PACKER = msgpack.Packer()
OUR_PACKER = msgpack_codec.packer()

CONTENDERS: dict[str, tuple[Callable[[], object], str | None]] = {
    "msgpack: unpack the array": (lambda: msgpack.unpackb(BYTES), None),
    "decode an envelope": (lambda: envelope.decode(BYTES), "msgpack: unpack the array"),
    "decode a delayed member": (lambda: delayed_member.decode(MEMBER), "msgpack: unpack the array"),
    "msgpack: pack the array": (lambda: ONE_PACKER.pack(LIST), None),
    "encode an envelope": (lambda: envelope.encode(JOB, pack=OUR_PACKER), "msgpack: pack the array"),
    "mint 1,000 ids, per id": (lambda: new_job_ids(1000, 1_794_796_970_454), None),
}


def main(rounds: int = 11, times: int = 2000) -> None:
    seen: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, (call, _) in CONTENDERS.items():
            repeat = times // 1000 if "1,000" in name else times
            start = time.perf_counter()
            for _ in range(repeat):
                call()
            seen[name].append((time.perf_counter() - start) / times * 1e6)
    medians = {name: statistics.median(each) for name, each in seen.items()}
    print(f"{'':<28}{'µs':>8}  ratio")
    for name, (_, base) in CONTENDERS.items():
        ratio = f"{medians[name] / medians[base]:.1f} × {base}" if base else ""
        print(f"{name:<28}{medians[name]:>8.2f}  {ratio}")


if __name__ == "__main__":
    main()
