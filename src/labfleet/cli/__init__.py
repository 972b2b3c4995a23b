"""The command line: an HTTP client of the API for people and scripts.

Knows the table of kinds and the API's contract; never imports the server, its stores or its
machinery. Commands load on use, so that `labfleet --help` stays quick. Start at `main`.
"""
