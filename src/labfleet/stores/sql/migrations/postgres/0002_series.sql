-- Workers' numbers over time, in rings: `slot` is the place of the bucket that begins at `at`
-- (microseconds) in the ring of its step (seconds), so a worker's rows are bounded by the key.
-- `data` is the packed form of resources/series. No event is appended for any of it. Pages keep
-- room so that a slot that is used again is rewritten in place, without touching the index.
CREATE TABLE series (
    worker text COLLATE "C" NOT NULL,
    step bigint NOT NULL,
    slot bigint NOT NULL,
    at bigint NOT NULL,
    data text COLLATE "C" NOT NULL,
    PRIMARY KEY (worker, step, slot)
) WITH (fillfactor = 80);
