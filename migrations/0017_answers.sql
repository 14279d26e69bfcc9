-- What was answered to acts with an `Idempotency-Key`, for a day: a repeat is answered the same.
-- And ways into the audit log.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE answers (
    caller       TEXT NOT NULL,
    route        TEXT NOT NULL,      -- the path
    request_key  TEXT NOT NULL,
    digest       TEXT NOT NULL,      -- of the body: another one under the same key is a mistake
    begun_at     BIGINT NOT NULL,
    due_at       BIGINT NOT NULL,    -- until when its process is at it; after that, it has died
    status       BIGINT,             -- none while it is at work
    body         TEXT,
    PRIMARY KEY (caller, route, request_key)
);

CREATE INDEX answers_age ON answers (begun_at);

CREATE INDEX audit_app ON audit (target, namespace, slug, id);
CREATE INDEX audit_name ON audit (name, id);
