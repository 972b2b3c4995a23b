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
