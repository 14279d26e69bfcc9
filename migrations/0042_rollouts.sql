-- Rollouts: one release over many targets. The record is the state machine's, as JSON; the columns are for queries.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch, lists are JSON texts.

CREATE TABLE rollouts (
    id           TEXT PRIMARY KEY,   -- in the order of time
    undo_id      TEXT NOT NULL UNIQUE,
    repository   TEXT NOT NULL,
    namespace    TEXT NOT NULL,
    slug         TEXT NOT NULL,
    name         TEXT,               -- of the plan in the WAML; none: the targets were chosen by hand
    tag          TEXT NOT NULL,
    targets      TEXT NOT NULL,      -- a list, in the order of the rollout
    origin       TEXT NOT NULL,      -- the data of its deployments, as JSON
    creator      TEXT NOT NULL,
    reason       TEXT NOT NULL,
    state        TEXT NOT NULL,
    version      BIGINT NOT NULL,    -- counts the changes of the record: who read an older one may not write
    record       TEXT NOT NULL,
    waits        TEXT NOT NULL,      -- what it waits for, by the last turn; a list
    claimed      BIGINT NOT NULL,    -- 1: its targets are its own; 0: it is queued behind another rollout
    created_at   BIGINT NOT NULL,
    since        BIGINT NOT NULL,
    ended_at     BIGINT,
    due_at       BIGINT NOT NULL     -- from when it has its next turn
);
CREATE INDEX rollouts_due ON rollouts (due_at) WHERE ended_at IS NULL;
CREATE INDEX rollouts_app ON rollouts (namespace, slug, id);
CREATE INDEX rollouts_ended ON rollouts (ended_at) WHERE ended_at IS NOT NULL;

-- The targets of open rollouts: each has one rollout of an app at a time.
CREATE TABLE rollout_claims (
    repository   TEXT NOT NULL,
    namespace    TEXT NOT NULL,
    slug         TEXT NOT NULL,
    target       TEXT NOT NULL,
    rollout      TEXT NOT NULL,
    PRIMARY KEY (repository, namespace, slug, target)
);
CREATE INDEX rollout_claims_rollout ON rollout_claims (rollout);

-- The rollout, or its undo, that made a deployment.
ALTER TABLE deployments ADD COLUMN rollout TEXT;
CREATE INDEX deployments_rollout ON deployments (rollout) WHERE rollout IS NOT NULL;
