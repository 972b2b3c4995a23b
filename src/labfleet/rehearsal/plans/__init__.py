"""The input of a what-if, read and checked before it is played. Start at `plan`, then `demand`."""
