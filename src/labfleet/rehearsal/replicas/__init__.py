"""Processes of the product inside virtual time, and the ways people reach one."""
