-- The statements of the PostgreSQL store. Each begins with its name; `%s` are positional.
-- Reads that must be true at one revision carry it in the same statement.

-- name: head
SELECT epoch, revision, horizon FROM meta;

-- name: set_revision
UPDATE meta SET revision = %s;

-- name: start_meta
INSERT INTO meta (one, epoch, revision, horizon, timeline) VALUES (1, %s, 0, 0, %s)
ON CONFLICT DO NOTHING;

-- name: new_epoch
-- A new life: the counter jumps, so that no version handed out in the lost one comes true again.
UPDATE meta SET epoch = %s, timeline = %s, revision = revision + 1000000;

-- name: new_epoch_leases
-- The same for fencing tokens; nobody holds a lease in the new life.
UPDATE leases SET holder = '', token = token + 1000000, version = version + 1;

-- name: timeline
-- Which write-ahead timeline the server is on; a standby that takes over begins another.
SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END,
       (SELECT timeline FROM meta);

-- name: get
SELECT o.kind, o.namespace, o.name, o.uid, h.revision, e.doc, o.labels, o.created_at
FROM objects AS o JOIN heads AS h ON h.born = o.born JOIN events AS e ON e.revision = h.revision
WHERE o.kind = %s AND o.namespace = %s AND o.name = %s;

-- name: list
SELECT m.epoch, m.revision AS head,
       o.kind, o.namespace, o.name, o.uid, h.revision, e.doc, o.labels, o.created_at
FROM meta AS m LEFT JOIN (
    SELECT o.* FROM objects AS o
    WHERE o.kind = %s AND (o.namespace, o.name) > (%s, %s) /*filters*/
    ORDER BY o.namespace, o.name LIMIT %s
) AS o ON TRUE
LEFT JOIN heads AS h ON h.born = o.born
LEFT JOIN events AS e ON e.revision = h.revision
ORDER BY o.namespace, o.name;

-- name: filter_namespace
AND o.namespace = %s

-- name: filter_in
AND EXISTS (
    SELECT 1 FROM labels AS l
    WHERE l.kind = o.kind AND l.namespace = o.namespace AND l.name = o.name
      AND l.label = %s AND l.value = ANY(%s::text[])
)

-- name: filter_not_in
AND NOT EXISTS (
    SELECT 1 FROM labels AS l
    WHERE l.kind = o.kind AND l.namespace = o.namespace AND l.name = o.name
      AND l.label = %s AND l.value = ANY(%s::text[])
)

-- name: filter_exists
AND EXISTS (
    SELECT 1 FROM labels AS l
    WHERE l.kind = o.kind AND l.namespace = o.namespace AND l.name = o.name AND l.label = %s
)

-- name: filter_absent
AND NOT EXISTS (
    SELECT 1 FROM labels AS l
    WHERE l.kind = o.kind AND l.namespace = o.namespace AND l.name = o.name AND l.label = %s
)

-- name: events
SELECT m.epoch, m.horizon, m.revision AS head,
       e.revision, e.type, e.kind, e.namespace, e.name, e.uid, e.doc,
       e.at, e.actor, e.request_id, e.reason
FROM meta AS m LEFT JOIN (
    SELECT * FROM events WHERE revision > %s ORDER BY revision LIMIT %s
) AS e ON TRUE
ORDER BY e.revision;

-- name: events_of
-- Along the chain of `previous`, from the event asked to go on from, or from the newest.
WITH RECURSIVE asked (kind, namespace, name, before) AS (
    VALUES (%s::text, %s::text, %s::text, %s::bigint)
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
ORDER BY c.revision DESC LIMIT %s;

-- name: ports
SELECT worker, transport, number, owner FROM ports ORDER BY worker, transport, number;

-- name: ports_of
SELECT worker, transport, number, owner FROM ports WHERE worker = %s
ORDER BY worker, transport, number;

-- name: lock
-- Every writer holds this row to its end, so revisions are committed in their order and no
-- reader passes one that is still to come; fences and ports are checked under it too.
SELECT revision FROM meta FOR UPDATE;

-- name: lease
SELECT name, holder, token, version FROM leases WHERE name = %s;

-- name: renew_lease
UPDATE leases SET version = version + 1 WHERE name = %s AND holder = %s AND token = %s
RETURNING version;

-- name: put_lease
INSERT INTO leases (name, holder, token, version) VALUES (%s, %s, %s, %s)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, token = excluded.token, version = excluded.version;

-- name: name_installation
-- Once: whoever is second gets the first one's.
UPDATE meta SET installation = %s WHERE installation = '';

-- name: store_bytes
SELECT pg_database_size(current_database());

-- name: installation
SELECT installation FROM meta;

-- name: reply
SELECT digest, reply FROM replies WHERE key = %s AND until > %s;

-- name: put_token
INSERT INTO tokens (id, hash, role, owner, created, expires, revoked)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE
SET hash = excluded.hash, role = excluded.role, owner = excluded.owner,
    created = excluded.created, expires = excluded.expires, revoked = excluded.revoked;

-- name: tokens
SELECT id, hash, role, owner, created, expires, revoked FROM tokens ORDER BY created, id;

-- name: horizon_at
-- The revision behind which more than the newest (given) events lie.
SELECT revision FROM events ORDER BY revision DESC LIMIT 1 OFFSET %s;

-- name: move_horizon
UPDATE meta SET horizon = greatest(horizon, %s);

-- name: first_young
-- The oldest event that is too young to go: everything before it may.
SELECT revision FROM events WHERE at >= %s ORDER BY revision LIMIT 1;

-- name: drop_events
-- A bounded bite, so that no commit waits long behind a compaction. The last event of an object
-- that lives holds its document and stays.
DELETE FROM events WHERE revision IN (
    SELECT e.revision FROM events AS e
    WHERE e.revision < %s AND NOT EXISTS (
        SELECT 1 FROM objects AS o JOIN heads AS h ON h.born = o.born
        WHERE o.kind = e.kind AND o.namespace = e.namespace AND o.name = e.name
          AND h.revision = e.revision
    )
    ORDER BY e.revision LIMIT %s
)
RETURNING revision;

-- name: drop_gone
DELETE FROM gone WHERE (kind, namespace, name) IN (
    SELECT kind, namespace, name FROM gone WHERE revision < %s ORDER BY revision LIMIT %s
)
RETURNING 1;

-- name: drop_replies
DELETE FROM replies WHERE key IN (
    SELECT key FROM replies WHERE until <= %s ORDER BY until LIMIT %s
)
RETURNING 1;

-- Loads of a batch: one statement for all keys of a kind of row.

-- name: load_objects
SELECT o.kind, o.namespace, o.name, o.uid, h.revision, o.labels, o.created_at, o.born
FROM unnest(%b::text[], %b::text[], %b::text[]) AS j (kind, namespace, name)
JOIN objects AS o ON (o.kind, o.namespace, o.name) = (j.kind, j.namespace, j.name)
JOIN heads AS h ON h.born = o.born;

-- name: load_documents
SELECT o.kind, o.namespace, o.name, e.doc
FROM unnest(%b::text[], %b::text[], %b::text[]) AS j (kind, namespace, name)
JOIN objects AS o ON (o.kind, o.namespace, o.name) = (j.kind, j.namespace, j.name)
JOIN heads AS h ON h.born = o.born JOIN events AS e ON e.revision = h.revision;

-- name: load_gone
SELECT g.kind, g.namespace, g.name, g.revision
FROM unnest(%b::text[], %b::text[], %b::text[]) AS j (kind, namespace, name)
JOIN gone AS g ON (g.kind, g.namespace, g.name) = (j.kind, j.namespace, j.name);

-- name: load_ledger
SELECT owner, version FROM ledger WHERE owner = ANY(%b::text[]);

-- name: load_ports
SELECT p.worker, p.transport, p.number, p.owner
FROM unnest(%b::text[], %b::text[], %b::bigint[]) AS j (worker, transport, number)
JOIN ports AS p ON (p.worker, p.transport, p.number) = (j.worker, j.transport, j.number);

-- name: load_owned_ports
SELECT p.worker, p.transport, p.number, p.owner
FROM unnest(%b::text[], %b::text[]) AS j (worker, owner)
JOIN ports AS p ON (p.worker, p.owner) = (j.worker, j.owner);

-- name: load_leases
SELECT name, holder, token FROM leases WHERE name = ANY(%b::text[]);

-- name: load_replies
SELECT key, digest, reply, until FROM replies WHERE key = ANY(%b::text[]);

-- Writes of a batch: one statement for all rows, columns as arrays.

-- name: add_object
INSERT INTO objects (born, kind, namespace, name, uid, labels, created_at)
SELECT * FROM unnest(%b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[],
                     %b::text[], %b::bigint[]);

-- name: add_head
INSERT INTO heads (revision, born) SELECT * FROM unnest(%b::bigint[], %b::bigint[]);

-- name: move_head
UPDATE heads AS h SET revision = j.revision
FROM unnest(%b::bigint[], %b::bigint[]) AS j (revision, born) WHERE h.born = j.born;

-- name: change_object
UPDATE objects AS o SET uid = j.uid, labels = j.labels
FROM unnest(%b::text[], %b::text[], %b::bigint[]) AS j (uid, labels, born)
WHERE o.born = j.born;

-- name: save_gone
INSERT INTO gone (kind, namespace, name, revision)
SELECT * FROM unnest(%b::text[], %b::text[], %b::text[], %b::bigint[])
ON CONFLICT (kind, namespace, name) DO UPDATE SET revision = excluded.revision;

-- name: drop_object
DELETE FROM objects WHERE born = ANY(%b::bigint[]);

-- name: drop_head
DELETE FROM heads WHERE born = ANY(%b::bigint[]);

-- name: save_label
INSERT INTO labels (kind, namespace, name, label, value)
SELECT * FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[]);

-- name: drop_label
DELETE FROM labels AS l
USING unnest(%b::text[], %b::text[], %b::text[], %b::text[]) AS j (kind, namespace, name, label)
WHERE (l.kind, l.namespace, l.name, l.label) = (j.kind, j.namespace, j.name, j.label);

-- name: save_event
INSERT INTO events (revision, kind, namespace, name, uid, type, doc, at,
                    actor, request_id, reason, previous)
SELECT * FROM unnest(%b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[],
                     %b::bytea[], %b::bigint[], %b::text[], %b::text[], %b::text[],
                     %b::bigint[]);

-- name: save_port
INSERT INTO ports (worker, transport, number, owner)
SELECT * FROM unnest(%b::text[], %b::text[], %b::bigint[], %b::text[]);

-- name: drop_port
DELETE FROM ports AS p
USING unnest(%b::text[], %b::text[], %b::bigint[]) AS j (worker, transport, number)
WHERE (p.worker, p.transport, p.number) = (j.worker, j.transport, j.number);

-- name: save_ledger
INSERT INTO ledger (owner, version) SELECT * FROM unnest(%b::text[], %b::bigint[])
ON CONFLICT (owner) DO UPDATE SET version = excluded.version;

-- name: save_reply
INSERT INTO replies (key, digest, reply, until)
SELECT * FROM unnest(%b::text[], %b::text[], %b::bytea[], %b::bigint[])
ON CONFLICT (key) DO UPDATE
SET digest = excluded.digest, reply = excluded.reply, until = excluded.until;

-- name: announce
-- Only wakes those who wait; they read the log themselves, and look now and then anyway.
SELECT pg_notify('labfleet_log', %s);

-- Series: a batch is a list of texts, each a JSON array, so both databases take the same.

-- name: load_series
-- What lies in the slots of a batch now: [kind, uid, step, slot].
SELECT s.kind, s.uid, s.step, s.slot, s.at, s.data
FROM unnest(%s::text[]) AS r CROSS JOIN LATERAL (SELECT r::jsonb AS row) AS j
JOIN series AS s ON s.kind = j.row ->> 0 AND s.uid = j.row ->> 1
 AND s.step = (j.row ->> 2)::bigint AND s.slot = (j.row ->> 3)::bigint;

-- name: save_series
INSERT INTO series (kind, uid, step, slot, at, data)
SELECT j.row ->> 0, j.row ->> 1, (j.row ->> 2)::bigint, (j.row ->> 3)::bigint,
       (j.row ->> 4)::bigint, j.row ->> 5
FROM unnest(%s::text[]) AS r CROSS JOIN LATERAL (SELECT r::jsonb AS row) AS j
ON CONFLICT (kind, uid, step, slot) DO UPDATE SET at = excluded.at, data = excluded.data;

-- name: series
SELECT kind, uid, step, at, data FROM series
WHERE kind = %s AND uid = %s AND step = %s AND at >= %s ORDER BY at;

-- name: series_owners
-- From one uid of a kind to the next: the rows between are not read.
WITH RECURSIVE uids (uid) AS (
    SELECT min(uid) FROM series WHERE kind = %s
    UNION ALL
    SELECT (SELECT min(s.uid) FROM series AS s WHERE s.kind = %s AND s.uid > n.uid)
    FROM uids AS n WHERE n.uid IS NOT NULL
)
SELECT uid FROM uids WHERE uid IS NOT NULL ORDER BY uid;

-- name: drop_series
DELETE FROM series WHERE kind = %s AND uid = %s RETURNING 1;

-- Samples: a batch is a list of texts as for series.

-- name: save_samples
INSERT INTO samples (worker, part, at, data)
SELECT j.row ->> 0, j.row ->> 1, (j.row ->> 2)::bigint, j.row ->> 3
FROM unnest(%s::text[]) AS r CROSS JOIN LATERAL (SELECT r::jsonb AS row) AS j
ON CONFLICT (worker, part) DO UPDATE SET at = excluded.at, data = excluded.data;

-- name: sample_times
SELECT worker, part, at FROM samples ORDER BY worker, part;

-- name: samples
SELECT worker, part, at, data FROM samples
WHERE worker = ANY(%s::text[]) ORDER BY worker, part;

-- name: drop_samples
DELETE FROM samples WHERE worker = %s RETURNING 1;

-- The history of past runs.

-- name: history
SELECT place, doc FROM history AS r
WHERE r.place > %s /*filters*/ ORDER BY r.place LIMIT %s;

-- name: newest_runs
SELECT place, doc FROM history AS r
WHERE r.place < %s /*filters*/ ORDER BY r.place DESC LIMIT %s;

-- name: filter_run_kind
AND r.kind = %s

-- name: filter_run_family
AND r.family = %s

-- name: filter_run_namespace
AND r.namespace = %s

-- name: filter_run_owner
AND r.owner = %s

-- name: history_size
SELECT rows, place FROM history_head;

-- name: history_end
-- After which place the next run is put; under the writers' lock, so no place appears late.
SELECT h.place + CASE h.epoch WHEN m.epoch THEN 0 ELSE 1000000 END
FROM history_head AS h CROSS JOIN meta AS m;

-- name: grow_history
INSERT INTO history_head (one, rows, place, epoch)
VALUES (1, %s, %s, (SELECT epoch FROM meta))
ON CONFLICT (one) DO UPDATE
SET rows = history_head.rows + excluded.rows, place = excluded.place, epoch = excluded.epoch;

-- name: shrink_history
UPDATE history_head SET rows = rows - %s;

-- name: load_runs
SELECT r.kind, r.uid, r.place
FROM unnest(%b::text[], %b::text[]) AS j (kind, uid)
JOIN history AS r ON (r.kind, r.uid) = (j.kind, j.uid);

-- name: save_run
INSERT INTO history (place, kind, uid, namespace, family, owner, kept_at, doc)
SELECT * FROM unnest(%b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[],
                     %b::text[], %b::bigint[], %b::bytea[]);

-- name: drop_runs
-- Of the first so many places those that are old.
DELETE FROM history WHERE place IN (
    SELECT f.place FROM (
        SELECT place, kept_at FROM history ORDER BY place LIMIT %s
    ) AS f WHERE f.kept_at < %s
)
RETURNING 1;

-- Kept labs.

-- name: kept_lab
SELECT uid, owner, digest, stored, kept_at, until FROM kept_labs WHERE uid = %s;

-- name: kept_labs
SELECT uid, owner, digest, stored, kept_at, until FROM kept_labs
WHERE uid > %s ORDER BY uid LIMIT %s;

-- name: kept_content
SELECT c.content FROM kept_labs AS l JOIN kept_contents AS c ON c.digest = l.digest WHERE l.uid = %s;

-- name: kept_sizes
-- What an owner's kept labs take, what all take, and whether there is such a content already.
SELECT (SELECT coalesce(sum(stored), 0) FROM kept_labs WHERE owner = %s),
       (SELECT coalesce(sum(stored), 0) FROM kept_contents),
       (SELECT count(*) FROM kept_contents WHERE digest = %s);

-- name: save_kept_lab
INSERT INTO kept_labs (uid, owner, digest, stored, kept_at, until) VALUES (%s, %s, %s, %s, %s, %s);

-- name: save_kept_content
INSERT INTO kept_contents (digest, stored, content) VALUES (%s, %s, %s)
ON CONFLICT (digest) DO NOTHING;

-- name: drop_kept_lab
DELETE FROM kept_labs WHERE uid = %s RETURNING digest;

-- name: drop_old_kept_labs
DELETE FROM kept_labs WHERE uid IN (
    SELECT uid FROM kept_labs WHERE until < %s ORDER BY until LIMIT %s
)
RETURNING digest;

-- name: drop_kept_content
-- Only when no lab has it any more.
DELETE FROM kept_contents
WHERE digest = %s AND NOT EXISTS (SELECT 1 FROM kept_labs WHERE digest = kept_contents.digest);
