-- The deploy clock: when each step of a deployment happened, and by whose clock.
-- Portable: TEXT and BIGINT only.

-- The first time of each step: `received=1763703492123s;synced=1763703540000c;`. The letter names the clock: s is the
-- service's, h the code host's, c the cluster's. `+86400000` behind it says by how many milliseconds that clock is ahead.
-- Empty for deployments of versions before.
ALTER TABLE deployments ADD COLUMN marks TEXT NOT NULL DEFAULT '';

-- Insights read these columns of each ended deployment of a window, and no other: the whole rows are twenty times as
-- large. `rollback` is always NULL here; SQLite reads the table for each column that the index lacks.
CREATE INDEX deployments_changes
    ON deployments (received_at, target, namespace, slug, repository, state, cluster_state, finished_at, marks, rollback)
    WHERE finished_at IS NOT NULL AND rollback IS NULL;
CREATE INDEX deployments_rollbacks ON deployments (received_at) WHERE rollback IS NOT NULL;

-- In their order: the next success of an app is one search.
DROP INDEX deployments_app;
CREATE INDEX deployments_app ON deployments (target, namespace, slug, id);
