-- The repositories and targets whose deployments have all failed before their WAML could be read. `state` and `slug` are in
-- the first one for SQLite, which reads the table for each column that an index lacks.
CREATE INDEX deployments_unread ON deployments (repository, target, id, state, slug)
    WHERE slug IS NULL AND state IN ('failed', 'cancelled');
CREATE INDEX deployments_read ON deployments (repository, target) WHERE slug IS NOT NULL;
