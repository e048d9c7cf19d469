"""Renew the repository's own part of the golden bytes: `python -m tests.golden.extract FULL.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PER_CASE = 1
PER_CASE_OF = {"claim": 6, "cron_next": 6, "error": 2, "script": 0}


def representative(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The shortest few items of every case, so that each rule is met and the file stays small."""
    by_case: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for item in items:
        by_case.setdefault((item["kind"], item["case"]), []).append(item)
    return [
        item
        for (kind, _), found in by_case.items()
        for item in sorted(found, key=lambda item: len(json.dumps(item)))[: PER_CASE_OF.get(kind, PER_CASE)]
    ]


def main(source: str) -> None:
    full = json.loads(Path(source).read_text("utf-8"))
    full["items"] = representative(full["items"])
    full["set"] = "part"
    full["counts"] = {}
    for item in full["items"]:
        full["counts"][item["kind"]] = full["counts"].get(item["kind"], 0) + 1
        item["context"].pop("note", None)
        item["origin"] = item["origin"].partition(" from ")[0]
    lines = ",\n".join(_compact(item) for item in full.pop("items"))
    target = Path(__file__).with_name("vectors.json")
    target.write_text(f'{_compact(full)[:-1]},"items":[\n{lines}\n]}}\n', "utf-8")


def _compact(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main(sys.argv[1])
