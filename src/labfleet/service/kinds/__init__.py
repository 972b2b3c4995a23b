"""The rules of each kind for create, change and delete. Start at `rules`.

It asks the kind's own, which the kind's file (`session`) names and which stand beside it
(`session_rules`).
"""
