"""CML servers that are there already, known by address; switched by a command, or never.

Start at `compute`; `sites` reads the installation's file, `hooks` runs its commands.
"""
