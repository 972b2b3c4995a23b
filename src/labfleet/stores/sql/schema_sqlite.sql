-- What all SQLite migrations together must make (a test compares). Instants are microseconds since 1970 in UTC, documents are JSON bytes.

-- One row: which life of the store this is, where its log ends, how far back it may be read.
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch TEXT NOT NULL,
    revision INTEGER NOT NULL,
    horizon INTEGER NOT NULL,
    installation TEXT NOT NULL DEFAULT ''
) STRICT;

-- What is: what an object is called and what rarely changes. `born` is the revision that added
-- it; `labels` repeats the label rows as JSON, so that reading them needs no join.
CREATE TABLE objects (
    born INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    labels TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (kind, namespace, name)
) STRICT;

-- Each object's last event, which holds its document: kept once, and no compaction drops it while
-- the object lives. A table of its own, because it is all that most commits change: hundreds of
-- rows share a page, so a batch writes a tenth of the pages that updating `objects` would.
CREATE TABLE heads (
    born INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT;

-- The index behind label selectors; found by label, removed by its whole key.
CREATE TABLE labels (
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, namespace, name, label)
) STRICT, WITHOUT ROWID;

-- What happened, one row per revision: `type` is ADDED, MODIFIED or DELETED (a CHECK for it
-- nearly doubled the cost of the row). `previous` is the revision of the same object's event
-- before this one (0: none), which gives each object its history without an index to maintain:
-- with one, a batch of commits dirtied twice the pages.
CREATE TABLE events (
    revision INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    type TEXT NOT NULL,
    doc BLOB NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    request_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    previous INTEGER NOT NULL
) STRICT;

-- Where the history of a removed object begins: the revision of its last event.
CREATE TABLE gone (
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (kind, namespace, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX gone_by_revision ON gone (revision);

-- Ports of labs given out; the key is the promise that none is given twice.
CREATE TABLE ports (
    worker TEXT NOT NULL,
    transport TEXT NOT NULL,
    number INTEGER NOT NULL,
    owner TEXT NOT NULL,
    PRIMARY KEY (worker, transport, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX ports_by_owner ON ports (worker, owner);

-- Per worker or cluster the revision at which its reservations were last changed.
CREATE TABLE ledger (
    owner TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who leads; `token` only grows, an empty holder has given the lease up.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    token INTEGER NOT NULL,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- API tokens; only hashes.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL,
    role TEXT NOT NULL,
    owner TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER
) STRICT, WITHOUT ROWID;

-- Answers kept under idempotency keys.
CREATE TABLE replies (
    key TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    reply BLOB NOT NULL,
    until INTEGER NOT NULL
) STRICT;
CREATE INDEX replies_by_end ON replies (until);

-- Numbers over time of objects by kind and uid, in rings: `slot` is the place of the bucket that
-- begins at `at` (microseconds) in the ring of its step (seconds), so an object's rows are bounded
-- by the key. `data` is the packed form of resources/series. No event is appended for any of it.
CREATE TABLE series (
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    step INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (kind, uid, step, slot)
) STRICT, WITHOUT ROWID;

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

-- Past runs: only appended to, each kind and uid once, in the order of `place`; rows outlive the
-- objects that ran. `kept_at` (microseconds) is when the row was written and never falls along
-- the places. Beside each filter stands the place, so that the newest that pass it are found
-- without reading the others.
CREATE TABLE history (
    place INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    namespace TEXT NOT NULL,
    family TEXT NOT NULL,
    owner TEXT NOT NULL,
    kept_at INTEGER NOT NULL,
    doc BLOB NOT NULL,
    UNIQUE (kind, uid)
) STRICT;
CREATE INDEX history_by_kind ON history (kind, place);
CREATE INDEX history_by_namespace ON history (namespace, place);
CREATE INDEX history_by_family ON history (family, place);
CREATE INDEX history_by_owner ON history (owner, place);

-- One row, from the first run on: how many the history has, the last place that was given, and
-- in which life of the store; in a new one places jump, so that none of a lost life comes again.
CREATE TABLE history_head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    rows INTEGER NOT NULL,
    place INTEGER NOT NULL,
    epoch TEXT NOT NULL
) STRICT;

-- Labs that were kept at the end of their session: who owns which content, and until when (in
-- microseconds). `stored` is the size of the content as it lies here. Contents are addressed by
-- their SHA-256, so that one that two labs have is there once; `content` comes last, for sums of
-- `stored` shall not read it. No event is appended for any of it: it may hold passwords.
CREATE TABLE kept_labs (
    uid TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    digest TEXT NOT NULL,
    stored INTEGER NOT NULL,
    kept_at INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT;
CREATE INDEX kept_labs_by_owner ON kept_labs (owner, stored);
CREATE INDEX kept_labs_by_digest ON kept_labs (digest);
CREATE INDEX kept_labs_by_end ON kept_labs (until);

CREATE TABLE kept_contents (
    digest TEXT PRIMARY KEY,
    stored INTEGER NOT NULL,
    content BLOB NOT NULL
) STRICT;
CREATE INDEX kept_contents_by_size ON kept_contents (stored);
