"""The jobs of this deployment, and their schedules."""
