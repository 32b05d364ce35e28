"""The values of the contract as bytes with a version: `wire` for splits and messages,
`wire_values` for all others.
"""
