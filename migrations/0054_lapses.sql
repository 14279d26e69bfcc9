-- How long a deployment took: its intervals and its lead time, as the service measures them by its marks. Insights read
-- these, which are an eighth as long as the marks. NULL where a former version pushed it: the service completes those.
ALTER TABLE deployments ADD COLUMN lapses TEXT;

-- `finished_at`, `rollback` and `fleet` are in it for SQLite, which reads the table for each column that an index lacks.
DROP INDEX deployments_changes;
CREATE INDEX deployments_changes
    ON deployments (received_at, target, namespace, slug, repository, state, cluster_state, finished_at, lapses, rollback, fleet)
    WHERE finished_at IS NOT NULL AND rollback IS NULL AND fleet IS NULL;
-- It is small enough now for what this one was made for.
DROP INDEX deployments_change_outcomes;

-- The changes that failed in their cluster, and what succeeded next.
CREATE INDEX deployments_cluster_failures
    ON deployments (received_at, id, target, namespace, slug, cluster_at, finished_at, rollback, fleet, state, cluster_state)
    WHERE rollback IS NULL AND fleet IS NULL AND state = 'succeeded' AND cluster_state = 'failed';
CREATE INDEX deployments_successes
    ON deployments (target, namespace, slug, id, cluster_at, finished_at, cluster_state, state)
    WHERE COALESCE(cluster_state, state) = 'succeeded';

CREATE INDEX deployments_unmeasured ON deployments (id)
    WHERE lapses IS NULL AND state = 'succeeded' AND fleet IS NULL;
