CREATE TABLE public.events (
    revision bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    uid text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    doc bytea NOT NULL,
    at bigint NOT NULL,
    actor text NOT NULL COLLATE pg_catalog."C",
    request_id text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    previous bigint NOT NULL
);
CREATE TABLE public.gone (
    kind text NOT NULL COLLATE pg_catalog."C",
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL
);
CREATE TABLE public.heads (
    born bigint NOT NULL,
    revision bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.labels (
    kind text NOT NULL COLLATE pg_catalog."C",
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    label text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.leases (
    name text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL COLLATE pg_catalog."C",
    token bigint NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE public.ledger (
    owner text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL
);
CREATE TABLE public.meta (
    one smallint NOT NULL,
    epoch text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    horizon bigint NOT NULL,
    timeline text NOT NULL COLLATE pg_catalog."C",
    installation text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT meta_one_check CHECK ((one = 1))
)
WITH (fillfactor='10');
CREATE TABLE public.migrations (
    number bigint NOT NULL,
    name text NOT NULL,
    digest text NOT NULL
);
CREATE TABLE public.objects (
    born bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    uid text NOT NULL COLLATE pg_catalog."C",
    labels text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);
CREATE TABLE public.ports (
    worker text NOT NULL COLLATE pg_catalog."C",
    transport text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.replies (
    key text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    reply bytea NOT NULL,
    until bigint NOT NULL
);
CREATE TABLE public.series (
    worker text NOT NULL COLLATE pg_catalog."C",
    step bigint NOT NULL,
    slot bigint NOT NULL,
    at bigint NOT NULL,
    data text NOT NULL COLLATE pg_catalog."C"
)
WITH (fillfactor='80');
CREATE TABLE public.tokens (
    id text NOT NULL COLLATE pg_catalog."C",
    hash text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    created bigint NOT NULL,
    expires bigint,
    revoked bigint
);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (revision);
ALTER TABLE ONLY public.gone
    ADD CONSTRAINT gone_pkey PRIMARY KEY (kind, namespace, name);
ALTER TABLE ONLY public.heads
    ADD CONSTRAINT heads_pkey PRIMARY KEY (born);
ALTER TABLE ONLY public.labels
    ADD CONSTRAINT labels_pkey PRIMARY KEY (kind, namespace, name, label);
ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (owner);
ALTER TABLE ONLY public.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.objects
    ADD CONSTRAINT objects_kind_namespace_name_key UNIQUE (kind, namespace, name);
ALTER TABLE ONLY public.objects
    ADD CONSTRAINT objects_pkey PRIMARY KEY (born);
ALTER TABLE ONLY public.ports
    ADD CONSTRAINT ports_pkey PRIMARY KEY (worker, transport, number);
ALTER TABLE ONLY public.replies
    ADD CONSTRAINT replies_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.series
    ADD CONSTRAINT series_pkey PRIMARY KEY (worker, step, slot);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
CREATE INDEX gone_by_revision ON public.gone USING btree (revision);
CREATE INDEX ports_by_owner ON public.ports USING btree (worker, owner);
CREATE INDEX replies_by_end ON public.replies USING btree (until);
INSERT INTO public.migrations VALUES (1, 'start', 'b5a147dc24d5b8d9478458b538918034116ace7f9e5409a298a98d08d9662f82');
INSERT INTO public.migrations VALUES (2, 'series', '03c037d7c9850eb8b8e55aa7549835f764a805b4a5c44f161fa56942c774df50');
