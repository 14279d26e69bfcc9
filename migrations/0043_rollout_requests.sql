-- Deployments of the code host that start a rollout: stored before they are answered, and what the host is told of each.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch, the request is a JSON text.

CREATE TABLE rollout_requests (
    repository   TEXT NOT NULL,
    forge_id     BIGINT NOT NULL,    -- a second event with it is the same request
    request      TEXT NOT NULL,
    received_at  BIGINT NOT NULL,
    rollout      TEXT,               -- the one that it started
    error        TEXT,               -- why it started none
    told         TEXT,               -- the state that the host has
    failures     BIGINT NOT NULL,
    due_at       BIGINT NOT NULL,
    done_at      BIGINT,
    PRIMARY KEY (repository, forge_id)
);
CREATE INDEX rollout_requests_due ON rollout_requests (due_at) WHERE done_at IS NULL;
CREATE INDEX rollout_requests_rollout ON rollout_requests (rollout) WHERE rollout IS NOT NULL;
CREATE INDEX rollout_requests_done ON rollout_requests (done_at) WHERE done_at IS NOT NULL;
