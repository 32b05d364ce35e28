"""`spark.read.format("paimon_assets")`: tables as a Python data source, to read and write."""
