"""Tabs of the pages of single objects; each is a row of `panel_table`."""
