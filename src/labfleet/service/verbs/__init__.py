"""Operations that change something: start at `objects` (any kind), then `lifecycle`."""
