"""The demo: a year of real flights, as the change log of a booking system, in Paimon tables."""
