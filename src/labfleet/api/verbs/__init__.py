"""The routes of verbs and readings. Start at `verb_routes`; `system_routes` has health, tokens."""
