-- The statements of the SQLite store. Each begins with its name; `?` are positional.
-- Reads that must be true at one revision carry it in the same statement.

-- name: head
SELECT epoch, revision, horizon FROM meta;

-- name: others
-- Moves when another connection has committed; until then what we wrote is what is there.
PRAGMA data_version;

-- name: set_revision
UPDATE meta SET revision = ?;

-- name: start_meta
INSERT INTO meta (one, epoch, revision, horizon) VALUES (1, ?, 0, 0) ON CONFLICT DO NOTHING;

-- name: new_epoch
-- A new life: the counter jumps, so that no version handed out in the lost one comes true again.
UPDATE meta SET epoch = ?, revision = revision + 1000000;

-- name: new_epoch_leases
-- The same for fencing tokens; nobody holds a lease in the new life.
UPDATE leases SET holder = '', token = token + 1000000, version = version + 1;

-- name: get
SELECT o.kind, o.namespace, o.name, o.uid, h.revision, e.doc, o.labels, o.created_at
FROM objects AS o JOIN heads AS h ON h.born = o.born JOIN events AS e ON e.revision = h.revision
WHERE o.kind = ? AND o.namespace = ? AND o.name = ?;

-- name: list
SELECT m.epoch, m.revision AS head,
       o.kind, o.namespace, o.name, o.uid, h.revision, e.doc, o.labels, o.created_at
FROM meta AS m LEFT JOIN (
    SELECT o.* FROM objects AS o
    WHERE o.kind = ? AND (o.namespace, o.name) > (?, ?) /*filters*/
    ORDER BY o.namespace, o.name LIMIT ?
) AS o ON TRUE
LEFT JOIN heads AS h ON h.born = o.born
LEFT JOIN events AS e ON e.revision = h.revision
ORDER BY o.namespace, o.name;

-- name: filter_namespace
AND o.namespace = ?

-- name: filter_in
AND EXISTS (
    SELECT 1 FROM labels AS l
    WHERE l.kind = o.kind AND l.namespace = o.namespace AND l.name = o.name
      AND l.label = ? AND l.value IN (SELECT j.value FROM json_each(?) AS j)
)

-- name: filter_not_in
AND NOT EXISTS (
    SELECT 1 FROM labels AS l
    WHERE l.kind = o.kind AND l.namespace = o.namespace AND l.name = o.name
      AND l.label = ? AND l.value IN (SELECT j.value FROM json_each(?) AS j)
)

-- name: filter_exists
AND EXISTS (
    SELECT 1 FROM labels AS l
    WHERE l.kind = o.kind AND l.namespace = o.namespace AND l.name = o.name AND l.label = ?
)

-- name: filter_absent
AND NOT EXISTS (
    SELECT 1 FROM labels AS l
    WHERE l.kind = o.kind AND l.namespace = o.namespace AND l.name = o.name AND l.label = ?
)

-- name: events
SELECT m.epoch, m.horizon, m.revision AS head,
       e.revision, e.type, e.kind, e.namespace, e.name, e.uid, e.doc,
       e.at, e.actor, e.request_id, e.reason
FROM meta AS m LEFT JOIN (
    SELECT * FROM events WHERE revision > ? ORDER BY revision LIMIT ?
) AS e ON TRUE
ORDER BY e.revision;

-- name: events_of
-- Along the chain of `previous`, from the event asked to go on from, or from the newest.
WITH RECURSIVE asked (kind, namespace, name, before) AS (
    VALUES (?, ?, ?, ?)
), start (revision) AS (
    SELECT coalesce(
        (SELECT e.previous FROM events AS e
         WHERE e.revision = a.before AND e.kind = a.kind
           AND e.namespace = a.namespace AND e.name = a.name),
        (SELECT h.revision FROM objects AS o JOIN heads AS h ON h.born = o.born
         WHERE o.kind = a.kind AND o.namespace = a.namespace AND o.name = a.name),
        (SELECT g.revision FROM gone AS g
         WHERE g.kind = a.kind AND g.namespace = a.namespace AND g.name = a.name)
    )
    FROM asked AS a
), chain (revision, previous) AS (
    SELECT e.revision, e.previous FROM start AS s JOIN events AS e ON e.revision = s.revision
    UNION ALL
    SELECT e.revision, e.previous FROM chain AS c JOIN events AS e ON e.revision = c.previous
)
SELECT e.revision, e.type, e.kind, e.namespace, e.name, e.uid, e.doc, e.at,
       e.actor, e.request_id, e.reason
FROM chain AS c JOIN events AS e ON e.revision = c.revision
WHERE c.revision < (SELECT a.before FROM asked AS a)
ORDER BY c.revision DESC LIMIT ?;

-- name: ports
SELECT worker, transport, number, owner FROM ports ORDER BY worker, transport, number;

-- name: ports_of
SELECT worker, transport, number, owner FROM ports WHERE worker = ?
ORDER BY worker, transport, number;

-- name: lock
-- Nothing to lock: BEGIN IMMEDIATE has made us the only writer.
SELECT revision FROM meta;

-- name: lease
SELECT name, holder, token, version FROM leases WHERE name = ?;

-- name: renew_lease
UPDATE leases SET version = version + 1 WHERE name = ? AND holder = ? AND token = ?
RETURNING version;

-- name: put_lease
INSERT INTO leases (name, holder, token, version) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, token = excluded.token, version = excluded.version;

-- name: name_installation
-- Once: whoever is second gets the first one's.
UPDATE meta SET installation = ? WHERE installation = '';

-- name: store_bytes
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size();

-- name: installation
SELECT installation FROM meta;

-- name: reply
SELECT digest, reply FROM replies WHERE key = ? AND until > ?;

-- name: put_token
INSERT INTO tokens (id, hash, role, owner, created, expires, revoked)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE
SET hash = excluded.hash, role = excluded.role, owner = excluded.owner,
    created = excluded.created, expires = excluded.expires, revoked = excluded.revoked;

-- name: tokens
SELECT id, hash, role, owner, created, expires, revoked FROM tokens ORDER BY created, id;

-- name: horizon_at
-- The revision behind which more than the newest (?) events lie.
SELECT revision FROM events ORDER BY revision DESC LIMIT 1 OFFSET ?;

-- name: move_horizon
UPDATE meta SET horizon = max(horizon, ?);

-- name: first_young
-- The oldest event that is too young to go: everything before it may.
SELECT revision FROM events WHERE at >= ? ORDER BY revision LIMIT 1;

-- name: drop_events
-- A bounded bite, so that no commit waits long behind a compaction. The last event of an object
-- that lives holds its document and stays.
DELETE FROM events WHERE revision IN (
    SELECT e.revision FROM events AS e
    WHERE e.revision < ? AND NOT EXISTS (
        SELECT 1 FROM objects AS o JOIN heads AS h ON h.born = o.born
        WHERE o.kind = e.kind AND o.namespace = e.namespace AND o.name = e.name
          AND h.revision = e.revision
    )
    ORDER BY e.revision LIMIT ?
)
RETURNING revision;

-- name: drop_gone
DELETE FROM gone WHERE (kind, namespace, name) IN (
    SELECT kind, namespace, name FROM gone WHERE revision < ? ORDER BY revision LIMIT ?
)
RETURNING 1;

-- name: drop_replies
DELETE FROM replies WHERE key IN (
    SELECT key FROM replies WHERE until <= ? ORDER BY until LIMIT ?
)
RETURNING 1;

-- Loads of a batch: one statement for all keys of a kind of row.

-- name: load_objects
SELECT o.kind, o.namespace, o.name, o.uid, h.revision, o.labels, o.created_at, o.born
FROM json_each(?) AS j CROSS JOIN objects AS o JOIN heads AS h ON h.born = o.born
WHERE o.kind = json_extract(j.value, '$[0]')
  AND o.namespace = json_extract(j.value, '$[1]')
  AND o.name = json_extract(j.value, '$[2]');

-- name: load_documents
SELECT o.kind, o.namespace, o.name, e.doc
FROM json_each(?) AS j CROSS JOIN objects AS o JOIN heads AS h ON h.born = o.born
JOIN events AS e ON e.revision = h.revision
WHERE o.kind = json_extract(j.value, '$[0]')
  AND o.namespace = json_extract(j.value, '$[1]')
  AND o.name = json_extract(j.value, '$[2]');

-- name: load_gone
SELECT g.kind, g.namespace, g.name, g.revision
FROM json_each(?) AS j CROSS JOIN gone AS g
WHERE g.kind = json_extract(j.value, '$[0]')
  AND g.namespace = json_extract(j.value, '$[1]')
  AND g.name = json_extract(j.value, '$[2]');

-- name: load_ledger
SELECT l.owner, l.version FROM json_each(?) AS j CROSS JOIN ledger AS l WHERE l.owner = j.value;

-- name: load_ports
SELECT p.worker, p.transport, p.number, p.owner
FROM json_each(?) AS j CROSS JOIN ports AS p
WHERE p.worker = json_extract(j.value, '$[0]')
  AND p.transport = json_extract(j.value, '$[1]')
  AND p.number = json_extract(j.value, '$[2]');

-- name: load_owned_ports
SELECT p.worker, p.transport, p.number, p.owner
FROM json_each(?) AS j CROSS JOIN ports AS p
WHERE p.worker = json_extract(j.value, '$[0]') AND p.owner = json_extract(j.value, '$[1]');

-- name: load_leases
SELECT l.name, l.holder, l.token FROM json_each(?) AS j CROSS JOIN leases AS l
WHERE l.name = j.value;

-- name: load_replies
SELECT r.key, r.digest, r.reply, r.until FROM json_each(?) AS j CROSS JOIN replies AS r WHERE r.key = j.value;

-- Writes of a batch: run once per row by executemany.

-- name: add_object
INSERT INTO objects (born, kind, namespace, name, uid, labels, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: add_head
INSERT INTO heads (revision, born) VALUES (?, ?);

-- name: move_head
UPDATE heads SET revision = ? WHERE born = ?;

-- name: change_object
UPDATE objects SET uid = ?, labels = ? WHERE born = ?;

-- name: save_gone
INSERT INTO gone (kind, namespace, name, revision) VALUES (?, ?, ?, ?)
ON CONFLICT (kind, namespace, name) DO UPDATE SET revision = excluded.revision;

-- name: drop_object
DELETE FROM objects WHERE born = ?;

-- name: drop_head
DELETE FROM heads WHERE born = ?;

-- name: save_label
INSERT INTO labels (kind, namespace, name, label, value) VALUES (?, ?, ?, ?, ?);

-- name: drop_label
DELETE FROM labels WHERE kind = ? AND namespace = ? AND name = ? AND label = ?;

-- name: save_event
INSERT INTO events (revision, kind, namespace, name, uid, type, doc, at,
                    actor, request_id, reason, previous)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: save_port
INSERT INTO ports (worker, transport, number, owner) VALUES (?, ?, ?, ?);

-- name: drop_port
DELETE FROM ports WHERE worker = ? AND transport = ? AND number = ?;

-- name: save_ledger
INSERT INTO ledger (owner, version) VALUES (?, ?)
ON CONFLICT (owner) DO UPDATE SET version = excluded.version;

-- name: save_reply
INSERT INTO replies (key, digest, reply, until) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE
SET digest = excluded.digest, reply = excluded.reply, until = excluded.until;

-- Series: a batch is a list of texts, each a JSON array, so both databases take the same.

-- name: load_series
-- What lies in the slots of a batch now: [kind, uid, step, slot].
SELECT s.kind, s.uid, s.step, s.slot, s.at, s.data
FROM json_each(?) AS j CROSS JOIN series AS s
WHERE s.kind = json_extract(j.value, '$[0]')
  AND s.uid = json_extract(j.value, '$[1]')
  AND s.step = json_extract(j.value, '$[2]')
  AND s.slot = json_extract(j.value, '$[3]');

-- name: save_series
INSERT INTO series (kind, uid, step, slot, at, data)
SELECT json_extract(j.value, '$[0]'), json_extract(j.value, '$[1]'),
       json_extract(j.value, '$[2]'), json_extract(j.value, '$[3]'),
       json_extract(j.value, '$[4]'), json_extract(j.value, '$[5]')
FROM json_each(?) AS j WHERE TRUE
ON CONFLICT (kind, uid, step, slot) DO UPDATE SET at = excluded.at, data = excluded.data;

-- name: series
SELECT kind, uid, step, at, data FROM series
WHERE kind = ? AND uid = ? AND step = ? AND at >= ? ORDER BY at;

-- name: series_owners
-- From one uid of a kind to the next: the rows between are not read.
WITH RECURSIVE uids (uid) AS (
    SELECT min(uid) FROM series WHERE kind = ?
    UNION ALL
    SELECT (SELECT min(s.uid) FROM series AS s WHERE s.kind = ? AND s.uid > n.uid)
    FROM uids AS n WHERE n.uid IS NOT NULL
)
SELECT uid FROM uids WHERE uid IS NOT NULL ORDER BY uid;

-- name: drop_series
DELETE FROM series WHERE kind = ? AND uid = ? RETURNING 1;

-- Samples: a batch is a list of texts as for series.

-- name: save_samples
INSERT INTO samples (worker, part, at, data)
SELECT json_extract(j.value, '$[0]'), json_extract(j.value, '$[1]'),
       json_extract(j.value, '$[2]'), json_extract(j.value, '$[3]')
FROM json_each(?) AS j WHERE TRUE
ON CONFLICT (worker, part) DO UPDATE SET at = excluded.at, data = excluded.data;

-- name: sample_times
SELECT worker, part, at FROM samples ORDER BY worker, part;

-- name: samples
SELECT s.worker, s.part, s.at, s.data
FROM json_each(?) AS j CROSS JOIN samples AS s WHERE s.worker = j.value
ORDER BY s.worker, s.part;

-- name: drop_samples
DELETE FROM samples WHERE worker = ? RETURNING 1;

-- The history of past runs.

-- name: history
SELECT place, doc FROM history AS r
WHERE r.place > ? /*filters*/ ORDER BY r.place LIMIT ?;

-- name: newest_runs
SELECT place, doc FROM history AS r
WHERE r.place < ? /*filters*/ ORDER BY r.place DESC LIMIT ?;

-- name: filter_run_kind
AND r.kind = ?

-- name: filter_run_family
AND r.family = ?

-- name: filter_run_namespace
AND r.namespace = ?

-- name: filter_run_owner
AND r.owner = ?

-- name: history_size
SELECT rows, place FROM history_head;

-- name: history_end
-- After which place the next run is put.
SELECT h.place + CASE h.epoch WHEN m.epoch THEN 0 ELSE 1000000 END
FROM history_head AS h CROSS JOIN meta AS m;

-- name: grow_history
INSERT INTO history_head (one, rows, place, epoch)
VALUES (1, ?, ?, (SELECT epoch FROM meta))
ON CONFLICT (one) DO UPDATE
SET rows = history_head.rows + excluded.rows, place = excluded.place, epoch = excluded.epoch;

-- name: shrink_history
UPDATE history_head SET rows = rows - ?;

-- name: load_runs
SELECT r.kind, r.uid, r.place
FROM json_each(?) AS j CROSS JOIN history AS r
WHERE r.kind = json_extract(j.value, '$[0]') AND r.uid = json_extract(j.value, '$[1]');

-- name: save_run
INSERT INTO history (place, kind, uid, namespace, family, owner, kept_at, doc)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: drop_runs
-- Of the first so many places those that are old.
DELETE FROM history WHERE place IN (
    SELECT f.place FROM (
        SELECT place, kept_at FROM history ORDER BY place LIMIT ?
    ) AS f WHERE f.kept_at < ?
)
RETURNING 1;

-- Kept labs.

-- name: kept_lab
SELECT uid, owner, digest, stored, kept_at, until FROM kept_labs WHERE uid = ?;

-- name: kept_labs
SELECT uid, owner, digest, stored, kept_at, until FROM kept_labs
WHERE uid > ? ORDER BY uid LIMIT ?;

-- name: kept_content
SELECT c.content FROM kept_labs AS l JOIN kept_contents AS c ON c.digest = l.digest WHERE l.uid = ?;

-- name: kept_sizes
-- What an owner's kept labs take, what all take, and whether there is such a content already.
SELECT (SELECT coalesce(sum(stored), 0) FROM kept_labs WHERE owner = ?),
       (SELECT coalesce(sum(stored), 0) FROM kept_contents),
       (SELECT count(*) FROM kept_contents WHERE digest = ?);

-- name: save_kept_lab
INSERT INTO kept_labs (uid, owner, digest, stored, kept_at, until) VALUES (?, ?, ?, ?, ?, ?);

-- name: save_kept_content
INSERT INTO kept_contents (digest, stored, content) VALUES (?, ?, ?)
ON CONFLICT (digest) DO NOTHING;

-- name: drop_kept_lab
DELETE FROM kept_labs WHERE uid = ? RETURNING digest;

-- name: drop_old_kept_labs
DELETE FROM kept_labs WHERE uid IN (
    SELECT uid FROM kept_labs WHERE until < ? ORDER BY until LIMIT ?
)
RETURNING digest;

-- name: drop_kept_content
-- Only when no lab has it any more.
DELETE FROM kept_contents
WHERE digest = ? AND NOT EXISTS (SELECT 1 FROM kept_labs WHERE digest = kept_contents.digest);
