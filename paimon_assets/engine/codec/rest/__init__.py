"""The documents of REST catalogs: requests and responses as values (`bodies`) and as JSON.

Java's names and those of older documents are read, with absent and null members as Java takes them;
the written bytes are those of Java's printer. `to_dlf` gives the names of DLF's own pages.
"""
