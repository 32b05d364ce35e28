"""The values of the contract as versioned bytes."""
