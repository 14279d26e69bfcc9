-- Who did what on purpose, why, and from where. Rows are added, and never changed or deleted.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE audit (
    id           TEXT PRIMARY KEY,   -- in the order of time
    at           BIGINT NOT NULL,
    name         TEXT NOT NULL,
    via          TEXT NOT NULL,      -- how the name is known: token, github, loopback, operator
    address      TEXT,               -- where the request came from
    request      TEXT,               -- its id, as in the log
    act          TEXT NOT NULL,      -- rollback, hold, release, lock, unlock, remove, cancel, …
    target       TEXT,
    namespace    TEXT,
    slug         TEXT,
    subject      TEXT NOT NULL,
    reason       TEXT NOT NULL,
    outcome      TEXT NOT NULL
);
