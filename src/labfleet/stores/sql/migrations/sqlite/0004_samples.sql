-- What was last measured of each part of each worker, for the processes that do not measure: one
-- row, rewritten by every measurement (`at` in microseconds). No event is appended for it.
CREATE TABLE samples (
    worker TEXT NOT NULL,
    part TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (worker, part)
) STRICT;
-- Every process reads all times each few seconds: from here, not past the data.
CREATE INDEX samples_by_time ON samples (worker, part, at);
