-- Deployments, their lanes, and what the forge is still to be told.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch, lists are JSON texts.

CREATE TABLE lanes (
    repository  TEXT NOT NULL,
    target      TEXT NOT NULL,
    PRIMARY KEY (repository, target)
);

CREATE TABLE deployments (
    id           TEXT PRIMARY KEY,
    delivery     TEXT NOT NULL UNIQUE,
    repository   TEXT NOT NULL,
    target       TEXT NOT NULL,
    forge_id     BIGINT NOT NULL,
    commit_id    TEXT NOT NULL,
    tag          TEXT NOT NULL,
    git_ref      TEXT NOT NULL,
    actor        TEXT NOT NULL,
    description  TEXT NOT NULL,
    namespace    TEXT,
    slug         TEXT,
    template     TEXT,
    state        TEXT NOT NULL,
    received_at  BIGINT NOT NULL,
    finished_at  BIGINT,
    stages       TEXT NOT NULL,
    summary      TEXT NOT NULL,
    violations   TEXT NOT NULL,
    pushed       TEXT,
    worker       TEXT,             -- who holds the lease; none between attempts
    due_at       BIGINT NOT NULL,  -- from when a worker may take it: a retry's time, or a lease's end
    attempts     BIGINT NOT NULL,  -- how often a worker began; the newest number fences off the older ones
    failures     BIGINT NOT NULL,  -- how many of the attempts failed or died
    FOREIGN KEY (repository, target) REFERENCES lanes (repository, target),
    UNIQUE (repository, forge_id)
);

-- The queue in its order; finished deployments are not in it, so it stays small.
CREATE INDEX deployments_queue ON deployments (received_at, forge_id) WHERE finished_at IS NULL;
CREATE INDEX deployments_lane ON deployments (repository, target, forge_id);
CREATE INDEX deployments_app ON deployments (target, namespace, slug);
CREATE INDEX deployments_state ON deployments (state);

CREATE TABLE outbox (
    deployment   TEXT NOT NULL REFERENCES deployments (id),
    seq          BIGINT NOT NULL,
    state        TEXT NOT NULL,
    description  TEXT NOT NULL,
    at           BIGINT NOT NULL,
    sent_at      BIGINT,
    parked       TEXT,             -- why nobody tries any more
    due_at       BIGINT NOT NULL,  -- from when a sender may take it
    attempts     BIGINT NOT NULL,
    PRIMARY KEY (deployment, seq)
);

CREATE INDEX outbox_waiting ON outbox (due_at) WHERE sent_at IS NULL AND parked IS NULL;
CREATE INDEX outbox_parked ON outbox (deployment) WHERE parked IS NOT NULL;
