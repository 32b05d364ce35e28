"""The values of the contract as bytes with a version: `wire`, and `wire_values` for all others."""
