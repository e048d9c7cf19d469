"""Spark's data source `chasqui`: Spark finds this package by its name. Queues become tables, rows become jobs.

    spark.read.format("chasqui").option("subscribe", "emails").load()
    df.write.format("chasqui").mode("append").option("queue", "emails").option("runId", "2026-11-17").save()

Everything it needs besides Spark is the engine, and nothing is imported before it is used. Archives, reports and
sessions are not made here: see `chasqui.spark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """What Spark asks for readers and writers. Options are checked in `schema()`, where Spark reports errors well."""

    @classmethod
    def name(cls) -> str:
        """What `format()` takes."""
        return "chasqui"

    def schema(self) -> str:
        """The columns of the table that `table` names."""
        from pyspark_chasqui import error_marks, tables
        from pyspark_chasqui.source_options import ReadOptions

        with error_marks.marked_errors():
            return tables.ddl(ReadOptions.parse(self.options).table)

    def reader(self, schema: StructType) -> Any:
        """Reads what is there now."""
        from pyspark_chasqui import batch_reader, error_marks
        from pyspark_chasqui.source_options import ReadOptions

        with error_marks.marked_errors():
            options = ReadOptions.parse(self.options)
            kind = batch_reader.PushdownReader if options.pushdown else batch_reader.BatchReader
            return kind(options, schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's word
        """Reads on and on."""
        from pyspark_chasqui import error_marks, stream_reader
        from pyspark_chasqui.source_options import ReadOptions

        with error_marks.marked_errors():
            return stream_reader.StreamReader(ReadOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Adds a job for each row."""
        from pyspark_chasqui import error_marks, sink
        from pyspark_chasqui.source_options import WriteOptions

        with error_marks.marked_errors():
            return sink.BatchWriter(
                sink.begin_load(WriteOptions.parse(self.options), schema, overwrite=overwrite), schema
            )

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's word
        """Adds a job for each row of each micro-batch."""
        from pyspark_chasqui import error_marks, sink
        from pyspark_chasqui.source_options import WriteOptions

        with error_marks.marked_errors():
            options = WriteOptions.parse(self.options, streaming=True)
            return sink.StreamWriter(sink.begin_load(options, schema, overwrite=overwrite), schema)
