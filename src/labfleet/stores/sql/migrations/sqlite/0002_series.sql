-- Workers' numbers over time, in rings: `slot` is the place of the bucket that begins at `at`
-- (microseconds) in the ring of its step (seconds), so a worker's rows are bounded by the key.
-- `data` is the packed form of resources/series. No event is appended for any of it.
CREATE TABLE series (
    worker TEXT NOT NULL,
    step INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (worker, step, slot)
) STRICT, WITHOUT ROWID;
