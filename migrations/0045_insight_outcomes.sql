-- Insights count the outcomes of all changes of a window, find those that failed, and cut the window into slices. PostgreSQL
-- reads the table for that: `deployments_changes` has the marks, and is half as large. These columns are a tenth of it.
-- The last two are in the index for SQLite, which reads the table for each column that an index lacks.
CREATE INDEX deployments_change_outcomes
    ON deployments (received_at, state, cluster_state, finished_at, rollback)
    WHERE finished_at IS NOT NULL AND rollback IS NULL;
