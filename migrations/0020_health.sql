-- What is written to find out whether the database takes writes: a row of the file's one service, or
-- of each replica. Nobody reads it.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE health (
    name         TEXT PRIMARY KEY,
    at           BIGINT NOT NULL,
    filler       TEXT NOT NULL
);
