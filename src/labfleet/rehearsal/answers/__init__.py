"""What a what-if says: figures a variant, the best one, text, JSON and CSV."""
