-- What was last measured of each part of each worker, for the processes that do not measure: one
-- row, rewritten by every measurement (`at` in microseconds). No event is appended for it.
CREATE TABLE samples (
    worker text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    data text COLLATE "C" NOT NULL,
    PRIMARY KEY (worker, part)
) WITH (fillfactor = 50);
