"""The REST faces over the core: one module for each part of the API, routes in tables."""
