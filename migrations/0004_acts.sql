-- What people did on purpose beside deploying: so far, removals. Rows are added and ended, never
-- changed otherwise and never deleted.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch, details are a JSON text.

CREATE TABLE acts (
    id           TEXT PRIMARY KEY,   -- also in the commit
    kind         TEXT NOT NULL,      -- removal
    target       TEXT NOT NULL,
    namespace    TEXT NOT NULL,
    slug         TEXT NOT NULL,
    repository   TEXT,               -- whose lane rests while the act is under way, where it is known
    actor        TEXT NOT NULL,
    reason       TEXT NOT NULL,
    details      TEXT NOT NULL,
    asked_at     BIGINT NOT NULL,
    due_at       BIGINT NOT NULL,    -- until when its process is at it; after that, it has died
    finished_at  BIGINT,
    commit_id    TEXT,               -- none: nothing was done
    summary      TEXT NOT NULL
);

CREATE INDEX acts_app ON acts (target, namespace, slug, id);
-- What is under way; finished acts are not in it, so it stays small.
CREATE INDEX acts_open ON acts (repository, target) WHERE finished_at IS NULL;
