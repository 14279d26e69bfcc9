-- What keeps automation from deploying an app to a target: by a rollback, or by a person. One that
-- ended is kept as a record.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch, away is a JSON text.

CREATE TABLE holds (
    id           TEXT PRIMARY KEY,   -- in the order of time
    target       TEXT NOT NULL,
    namespace    TEXT NOT NULL,
    slug         TEXT NOT NULL,
    placed_by    TEXT NOT NULL,
    reason       TEXT NOT NULL,
    since        BIGINT NOT NULL,
    rollback     TEXT,               -- the rollback that took it; none: a person did
    away         TEXT,               -- the release that was rolled back from
    to_tag       TEXT,
    ended_at     BIGINT,
    ended_by     TEXT,
    ended_why    TEXT
);

CREATE INDEX holds_placed ON holds (target, namespace, slug) WHERE ended_at IS NULL;
