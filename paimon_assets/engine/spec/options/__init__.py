"""Table options: one typed value each, grouped by topic.

`all_options` is the index; `docs/options.md` is made from it.
"""
