"""Who uses the product in a rehearsal. Start at `people`; `operators` act on workers."""
