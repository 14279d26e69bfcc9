-- The newest deployment of a repository to a target whose app is known: one search of the index.
DROP INDEX deployments_read;
CREATE INDEX deployments_read ON deployments (repository, target, id) WHERE slug IS NOT NULL;
