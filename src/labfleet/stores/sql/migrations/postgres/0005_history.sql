-- Past runs: only appended to, each kind and uid once, in the order of `place`; rows outlive the
-- objects that ran. `kept_at` (microseconds) is when the row was written and never falls along
-- the places. Beside each filter stands the place, so that the newest that pass it are found
-- without reading the others.
CREATE TABLE history (
    place bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    family text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    kept_at bigint NOT NULL,
    doc bytea NOT NULL,
    UNIQUE (kind, uid)
);
CREATE INDEX history_by_kind ON history (kind, place);
CREATE INDEX history_by_namespace ON history (namespace, place);
CREATE INDEX history_by_family ON history (family, place);
CREATE INDEX history_by_owner ON history (owner, place);

-- One row, from the first run on: how many the history has, the last place that was given, and
-- in which life of the store; in a new one places jump, so that none of a lost life comes again.
CREATE TABLE history_head (
    one smallint PRIMARY KEY CHECK (one = 1),
    rows bigint NOT NULL,
    place bigint NOT NULL,
    epoch text COLLATE "C" NOT NULL
);
