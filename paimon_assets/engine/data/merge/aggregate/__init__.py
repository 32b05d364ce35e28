"""Aggregate functions as kernels over whole columns.

    values by row number + the records of each group (`Grouped`) ─▶ a row or a value for each group

Concept → modules:
    name → kernel, retraction                 functions
    last, first, largest                      picks
    sum, product                              numbers
    listagg                                   texts
    collect                                   lists
    nested_update                             nested_rows
    merge_map                                 maps
    rbm32, rbm64, theta_sketch, hll_sketch    sets
"""
