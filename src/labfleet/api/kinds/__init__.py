"""The routes that every kind has."""
