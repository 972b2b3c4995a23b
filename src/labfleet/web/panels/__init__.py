"""Tabs of the pages of single objects, each in a module; `panel_table` lists them.

Start at `topology`.
"""
