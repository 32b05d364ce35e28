"""Shortcuts around Spark that pay: the first line of each module has the gain.

Without any of them the same rows are read and written by tasks of our own. A shortcut knows no
other, so it is removed by deleting its module, its tests and its one call:

    native_read/     Spark's own readers          executor: to_dataframe, count_rows
    driver_read      small reads by the driver    executor: to_dataframe, count_rows
    size_estimate    the size that Spark assumes  executor: to_dataframe
    plain_scan       files read by the writers    executor: map_rows; dataframes/merge
"""
