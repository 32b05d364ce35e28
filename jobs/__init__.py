"""What this deployment runs, and when."""
