-- What happens to a deployment in its cluster after the push.

-- NULL where nothing watches the cluster: the deployment ends when it is pushed. Otherwise `state` says
-- how the push went, and this how it goes on, in the same words: syncing, progressing, then succeeded,
-- failed or superseded.
ALTER TABLE deployments ADD COLUMN cluster_state TEXT;
-- Since when.
ALTER TABLE deployments ADD COLUMN cluster_at BIGINT;
-- What it waits for, as JSON; NULL once it has ended.
ALTER TABLE deployments ADD COLUMN waiting TEXT;
-- The last lines of the failed container's log, as JSON.
ALTER TABLE deployments ADD COLUMN log_tail TEXT;

CREATE INDEX deployments_in_cluster ON deployments (target)
    WHERE cluster_state IN ('syncing', 'progressing');
-- The newest pushes: which commits hold a revision.
CREATE INDEX deployments_pushed ON deployments (target, finished_at) WHERE state = 'succeeded';
-- The state that people see.
DROP INDEX deployments_state;
CREATE INDEX deployments_shown_state ON deployments ((COALESCE(cluster_state, state)));

-- What was told of each release of each workload.
CREATE TABLE cluster_progress (
    cluster    TEXT NOT NULL,
    workload   TEXT NOT NULL,     -- Deployment/devx/my-app
    uid        TEXT NOT NULL,     -- a workload that was deleted and made again is another one
    sequence   BIGINT NOT NULL,   -- of the release on its workload
    deployment TEXT,              -- who brought it, where that is known
    record     TEXT NOT NULL,
    at         BIGINT NOT NULL,
    PRIMARY KEY (cluster, workload, uid, sequence)
);
CREATE INDEX cluster_progress_at ON cluster_progress (at);

-- Which process watches a cluster.
CREATE TABLE cluster_leases (
    cluster    TEXT PRIMARY KEY,
    holder     TEXT NOT NULL,
    fence      BIGINT NOT NULL,   -- the newest number fences off former holders
    lease_end  BIGINT NOT NULL
);
