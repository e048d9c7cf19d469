"""Any value that msgpack can carry, for properties that must hold of all of them."""

from __future__ import annotations

from hypothesis import strategies as st

from chasqui.wire.msgpack_codec import ExtType, Timestamp

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.builds(ExtType, st.integers(0, 127), st.binary())
    | st.builds(Timestamp, st.integers(-(2**63), 2**63 - 1), st.integers(0, 999_999_999))
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
