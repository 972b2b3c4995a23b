"""Tabs of the pages of single objects, each in a module. Start at `measured_server`."""
