"""The engine next to the released one and a raw loop: interleaved rounds on one server, medians, ratios first.

python -m benchmarks.table [--quick] [--rounds N] [--only WORD] [--markdown]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.arena import Contender, arena
from benchmarks.report import aligned, markdown, report
from benchmarks.rounds import COMPUTING, CONTENDERS, backlog, compete, compute
from tests.support.processes import reference_engine


def main() -> int:
    words = _words()
    share = 0.3 if words.quick else 1.0
    with arena() as place:
        book = compete(place, _chosen(words), rounds=words.rounds or (5 if words.quick else 7), share=share)
        computing = compute(place, _having_reference(COMPUTING), rounds=3 if words.quick else 5, share=share)
        depths = None if words.only else backlog(place, rounds=3 if words.quick else 5)
    show = markdown if words.markdown else aligned
    for line in report(book, computing, depths, show):
        print(line)
    return 0


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a third of the jobs and fewer rounds")
    parser.add_argument("--rounds", type=int, help="how often each contender runs (7)")
    parser.add_argument("--only", help="contenders whose title has this word, and no backlog measurement")
    parser.add_argument("--markdown", action="store_true", help="tables for a document")
    return parser.parse_args()


def _chosen(words: argparse.Namespace) -> list[Contender]:
    return [one for one in _having_reference(CONTENDERS) if not words.only or words.only in one.title]


def _having_reference(contenders: Sequence[Contender]) -> list[Contender]:
    try:
        reference_engine.python()
    except reference_engine.NoReferenceError as missing:
        print(f"without the released engine: {missing}", file=sys.stderr)
        return [one for one in contenders if one.library != "chasquimq"]
    return list(contenders)


if __name__ == "__main__":
    sys.exit(main())
