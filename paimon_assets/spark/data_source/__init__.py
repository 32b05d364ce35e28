"""`spark.read.format("paimon_assets")`: tables as a Python Data Source, to read and write."""
