"""Aggregate functions as kernels over whole columns.

    values by row number + the records of each group (`Grouped`) ─▶ a row or a value for each group

Concept → modules:
    name → kernel, retraction                 functions
    last, first, largest                      picks
    sum, product                              numbers
    collect, listagg                          lists
    nested_update, merge_map                  nested_rows
    rbm32, rbm64, theta_sketch, hll_sketch    sets
"""
