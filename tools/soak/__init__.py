"""The soak: a small deployment lives through many days in minutes, beside a model of its rows."""
