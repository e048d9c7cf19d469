"""The data pipeline on Spark: archive of what happened, roll-ups, reports, bulk production and replays.

The functions take a session and plain values, so that the command line, `spark-submit` and notebooks run the same ones.
How queues are read and written as tables is the business of `pyspark_chasqui`; only these two packages import Spark,
and they only where it is used. Unlike the rest of the engine this package looks at the environment: it starts Java.
"""
