"""The documents of REST catalogs: what requests and responses hold, as values and as JSON.

    structure        a structure is a class; each of its members says its kind and its names
    member_kinds     texts, numbers, lists; schemas, snapshots, schema changes
    resources        tables, views and their changes, functions, snapshots, partitions, instants
    rest_requests    the bodies clients send
    rest_responses   the bodies servers answer

Read are Java's names and those of older documents, absent and null members as Java takes them;
written is what Java's printer writes, byte for byte. `to_dlf` gives the names of DLF's own pages.
"""
