-- How many violations there were, of which a record lists only some: lists count without reading them.
-- None in rows of a version before this one: those are counted by their text.
-- Portable: TEXT and BIGINT only.

ALTER TABLE deployments ADD COLUMN errors BIGINT;
ALTER TABLE deployments ADD COLUMN warnings BIGINT;

-- Those that a former version ended: they are counted, and cut, by the service in small steps.
CREATE INDEX deployments_uncounted ON deployments (id) WHERE errors IS NULL AND finished_at IS NOT NULL;
