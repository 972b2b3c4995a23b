"""Tabs of the pages of single objects, one module each; `panel_table` beside this package lists them.

Start at `session_tabs`.
"""
