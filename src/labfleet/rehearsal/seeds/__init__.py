"""Plays seeds. Start at `run` (one); `playing` has many, `shrinking` makes failing ones small."""
