-- Several apps in one repository, each with a WAML of its own.

-- The app of a deployment by the name of its file; '' is the only one of its repository, and '*' stands for all of them:
-- such a deployment has one for each app, and pushes nothing itself.
ALTER TABLE deployments ADD COLUMN app_name TEXT NOT NULL DEFAULT '';
-- The deployment of all apps that one belongs to. NULL for all others.
ALTER TABLE deployments ADD COLUMN parent TEXT;
CREATE INDEX deployments_parent ON deployments (parent) WHERE parent IS NOT NULL;

-- The app that a removal is of; NULL where it is not known: then it is as if it were of every app of the repository.
ALTER TABLE acts ADD COLUMN app_name TEXT;

-- Each app has a lane of its own.
DROP INDEX deployments_lane;
CREATE INDEX deployments_lane ON deployments (repository, target, app_name, place, id);

-- As before, with the app: SQLite reads the table for each column that an index lacks.
DROP INDEX deployments_changes;
CREATE INDEX deployments_changes
    ON deployments (received_at, target, namespace, slug, repository, state, cluster_state, finished_at, lapses, rollback, fleet, app_name)
    WHERE finished_at IS NOT NULL AND rollback IS NULL AND fleet IS NULL;
DROP INDEX deployments_unread;
CREATE INDEX deployments_unread ON deployments (repository, target, app_name, id, state, slug)
    WHERE slug IS NULL AND state IN ('failed', 'cancelled');
