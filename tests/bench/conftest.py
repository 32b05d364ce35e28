"""Nothing here is a test; some of it runs in other environments."""

collect_ignore_glob = ["*.py", "engines/*.py"]
