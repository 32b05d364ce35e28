"""Tables and views that others write, as external assets with observations and sensors."""
