-- What all PostgreSQL migrations together must make (a test compares). Collation "C" so that names sort as in SQLite. Instants are microseconds since 1970 in UTC, documents are JSON bytes.

-- One row: which life of the store this is, where its log ends, how far back it may be read,
-- and the server's write-ahead timeline, which moves when a standby takes over.
-- Its row is locked by every writer, so revisions are committed in their order.
CREATE TABLE meta (
    one smallint PRIMARY KEY CHECK (one = 1),
    epoch text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    horizon bigint NOT NULL,
    timeline text COLLATE "C" NOT NULL,
    installation text COLLATE "C" NOT NULL DEFAULT ''
) WITH (fillfactor = 10);

-- What is: what an object is called and what rarely changes. `born` is the revision that added
-- it; `labels` repeats the label rows as JSON, so that reading them needs no join.
CREATE TABLE objects (
    born bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    labels text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    UNIQUE (kind, namespace, name)
);

-- Each object's last event, which holds its document: kept once, and no compaction drops it while
-- the object lives. A table of its own, because it is all that most commits change: hundreds of
-- rows share a page, so a batch writes a tenth of the pages that updating `objects` would.
CREATE TABLE heads (
    born bigint PRIMARY KEY,
    revision bigint NOT NULL
) WITH (fillfactor = 50);

-- The index behind label selectors; found by label, removed by its whole key.
CREATE TABLE labels (
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    label text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, namespace, name, label)
);

-- What happened, one row per revision: `type` is ADDED, MODIFIED or DELETED (a CHECK for it
-- nearly doubled the cost of the row). `previous` is the revision of the same object's event
-- before this one (0: none), which gives each object its history without an index to maintain:
-- with one, a batch of commits dirtied twice the pages.
CREATE TABLE events (
    revision bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    doc bytea NOT NULL,
    at bigint NOT NULL,
    actor text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    previous bigint NOT NULL
);

-- Where the history of a removed object begins: the revision of its last event.
CREATE TABLE gone (
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    PRIMARY KEY (kind, namespace, name)
);
CREATE INDEX gone_by_revision ON gone (revision);

-- Ports of labs given out; the key is the promise that none is given twice.
CREATE TABLE ports (
    worker text COLLATE "C" NOT NULL,
    transport text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    PRIMARY KEY (worker, transport, number)
);
CREATE INDEX ports_by_owner ON ports (worker, owner);

-- Per worker or cluster the revision at which its reservations were last changed.
CREATE TABLE ledger (
    owner text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL
);

-- Who leads; `token` only grows, an empty holder has given the lease up.
CREATE TABLE leases (
    name text COLLATE "C" PRIMARY KEY,
    holder text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    version bigint NOT NULL
);

-- API tokens; only hashes.
CREATE TABLE tokens (
    id text COLLATE "C" PRIMARY KEY,
    hash text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    expires bigint,
    revoked bigint
);

-- Answers kept under idempotency keys.
CREATE TABLE replies (
    key text COLLATE "C" PRIMARY KEY,
    digest text COLLATE "C" NOT NULL,
    reply bytea NOT NULL,
    until bigint NOT NULL
);
CREATE INDEX replies_by_end ON replies (until);

-- Numbers over time of objects by kind and uid, in rings: `slot` is the place of the bucket that
-- begins at `at` (microseconds) in the ring of its step (seconds), so an object's rows are bounded
-- by the key. `data` is the packed form of resources/series. No event is appended for any of it. Pages keep
-- room so that a slot that is used again is rewritten in place, without touching the index.
CREATE TABLE series (
    kind text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    step bigint NOT NULL,
    slot bigint NOT NULL,
    at bigint NOT NULL,
    data text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, uid, step, slot)
) WITH (fillfactor = 80);

-- What was last measured of each part of each worker, for the processes that do not measure: one
-- row, rewritten by every measurement (`at` in microseconds). No event is appended for it.
CREATE TABLE samples (
    worker text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    data text COLLATE "C" NOT NULL,
    PRIMARY KEY (worker, part)
) WITH (fillfactor = 50);

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

-- Labs that were kept at the end of their session: who owns which content, and until when (in
-- microseconds). `stored` is the size of the content as it lies here. Contents are addressed by
-- their SHA-256, so that one that two labs have is there once; `content` comes last, for sums of
-- `stored` shall not read it. No event is appended for any of it: it may hold passwords.
CREATE TABLE kept_labs (
    uid text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    stored bigint NOT NULL,
    kept_at bigint NOT NULL,
    until bigint NOT NULL
);
CREATE INDEX kept_labs_by_owner ON kept_labs (owner, stored);
CREATE INDEX kept_labs_by_digest ON kept_labs (digest);
CREATE INDEX kept_labs_by_end ON kept_labs (until);

CREATE TABLE kept_contents (
    digest text COLLATE "C" PRIMARY KEY,
    stored bigint NOT NULL,
    content bytea NOT NULL
);
CREATE INDEX kept_contents_by_size ON kept_contents (stored);
