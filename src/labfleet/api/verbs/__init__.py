"""The routes of verbs, readings and the system."""
