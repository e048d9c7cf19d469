"""Properties are tried on machines of any speed, and leave no directory behind."""

from __future__ import annotations

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.wire.expected")
settings.register_profile("wire", deadline=None, database=None)
settings.load_profile("wire")
