"""What a what-if is given, read and checked before it is played. Start at `plan`, then `demand`."""
