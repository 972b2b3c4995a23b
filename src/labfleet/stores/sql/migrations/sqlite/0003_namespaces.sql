-- Ports and series go by `namespace/name` of their worker, no longer by its bare name: two
-- namespaces may have a worker of one name. A port lies where the session does that gives it
-- back, a series lies with the worker of that name, which was the only one of the fleet.
UPDATE ports SET worker = o.namespace || '/' || ports.worker
FROM objects AS o WHERE o.kind = 'Session' AND o.uid = ports.owner;

UPDATE ports SET worker = 'default/' || worker WHERE worker NOT LIKE '%/%';

UPDATE series SET worker = w.namespace || '/' || series.worker
FROM (
    SELECT name, min(namespace) AS namespace FROM objects WHERE kind = 'Worker' GROUP BY name
) AS w WHERE w.name = series.worker;

-- Of workers that are gone: the next sweep of series drops them.
UPDATE series SET worker = 'default/' || worker WHERE worker NOT LIKE '%/%';
