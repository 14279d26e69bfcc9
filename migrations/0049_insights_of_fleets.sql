-- Insights count the deployment to a fleet once, and not its parts. The indexes that they are read from have none of them;
-- `fleet` is in them, though always NULL, for SQLite, which reads the table for each column that an index lacks.
DROP INDEX deployments_changes;
CREATE INDEX deployments_changes
    ON deployments (received_at, target, namespace, slug, repository, state, cluster_state, finished_at, marks, rollback, fleet)
    WHERE finished_at IS NOT NULL AND rollback IS NULL AND fleet IS NULL;
DROP INDEX deployments_rollbacks;
CREATE INDEX deployments_rollbacks ON deployments (received_at) WHERE rollback IS NOT NULL AND fleet IS NULL;
DROP INDEX deployments_change_outcomes;
CREATE INDEX deployments_change_outcomes
    ON deployments (received_at, state, cluster_state, finished_at, rollback, fleet)
    WHERE finished_at IS NOT NULL AND rollback IS NULL AND fleet IS NULL;
