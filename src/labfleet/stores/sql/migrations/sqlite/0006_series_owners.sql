-- Series go by (kind, uid) of their object, no longer by `namespace/name` of a worker: what is made
-- again under a name begins with none, and other kinds have theirs. Rows of workers that are gone
-- stay behind, and those from before the worker, where one before it had its name (its first
-- event then follows that one's last).
ALTER TABLE series RENAME TO series_by_name;

CREATE TABLE series (
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    step INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (kind, uid, step, slot)
) STRICT, WITHOUT ROWID;

INSERT INTO series (kind, uid, step, slot, at, data)
SELECT 'Worker', o.uid, s.step, s.slot, s.at, s.data
FROM series_by_name AS s JOIN objects AS o
ON o.kind = 'Worker' AND o.namespace || '/' || o.name = s.worker
LEFT JOIN events AS e ON e.revision = o.born
WHERE coalesce(e.previous, 0) = 0 OR s.at + s.step * 1000000 > o.created_at;

DROP TABLE series_by_name;
