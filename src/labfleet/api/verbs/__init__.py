"""Routes of verbs and measurements. Start at `verb_routes`; `system_routes` has health, tokens."""
