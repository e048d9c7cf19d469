"""Exact percentiles of many groups, linear between neighbours.

Spark's own `percentile` counts the different values of a group in a map of objects, which is slow but needs no more
memory for more of the same. Up to some millions of rows it is faster to sort all values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_SORTED_ROWS = 10_000_000
"""Rows whose values a heap of 1 GB holds, also when they are of one group."""


def exact_percentiles(
    rows: Any,
    keys: Sequence[str],
    counts: Mapping[str, Any],
    measures: Mapping[str, Any],
    shares: Sequence[float],
    *,
    at_most: int,
) -> Any:
    """A row for each group: its keys, how many of its rows are each of `counts`, and `measure_p95` and the like.

    at_most: how many rows there may be.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    sums = [F.count_if(counted).alias(name) for name, counted in counts.items()]
    take = _by_sorting if at_most <= MAX_SORTED_ROWS else _by_counting
    spreads = {name: take(measure, name, shares) for name, measure in measures.items()}
    return (
        rows.groupBy(*keys)
        .agg(*sums, *(saved.alias(name) for name, (saved, _) in spreads.items()))
        .select(*keys, *counts, *(one for _, spread in spreads.values() for one in spread))
    )


def _by_sorting(measure: Any, name: str, shares: Sequence[float]) -> tuple[Any, list[Any]]:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    spread = []
    for share in shares:
        place = (F.size(name) - 1) * share
        low, high = (F.get(F.col(name), end(place).cast("int")).cast("double") for end in (F.floor, F.ceil))
        between = low + (high - low) * (place - F.floor(place))
        spread.append(between.alias(percentile_column(name, share)))
    return F.sort_array(F.collect_list(measure)), spread


def _by_counting(measure: Any, name: str, shares: Sequence[float]) -> tuple[Any, list[Any]]:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    spread = [F.col(name)[number].alias(percentile_column(name, share)) for number, share in enumerate(shares)]
    return F.percentile(measure, F.array(*map(F.lit, shares))), spread


def percentile_column(measure: str, share: float) -> str:
    return f"{measure}_p{round(share * 100)}"
