-- The commit of the templates that a deployment was planned with; none where they are no repository's.

ALTER TABLE deployments ADD COLUMN templates_commit TEXT;
