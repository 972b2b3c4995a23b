"""What all verbs and reads stand on. Start at `parts`; `access` has roles, `intake` bodies."""
