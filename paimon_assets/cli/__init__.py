"""The command line: `paimon-assets`."""
