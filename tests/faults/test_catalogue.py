"""The catalogue of faults: every one of the forty-two has a test that bears its number."""

from __future__ import annotations

import re
from pathlib import Path

NUMBERS = {*range(1, 43)}


def test_every_fault_of_the_catalogue_is_injected_somewhere() -> None:
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    found = {int(number) for number in re.findall(r"def test_fault_(\d\d)_", tests)}
    assert found == NUMBERS, "a fault without a test, or a test without a fault"
