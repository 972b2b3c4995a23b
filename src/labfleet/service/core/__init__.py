"""What verbs and reads share: start at `service_context`; `access` has roles, `intake` bodies."""
