-- Deployments to fleets: one deployment over several clusters.

-- On each cluster such a deployment has a part, a row of its own with the cluster as its target: the revision of the
-- cluster, its claims, and how it goes on there. No worker takes a part: it begins, ends and fails with the deployment
-- that this names. NULL for all others.
ALTER TABLE deployments ADD COLUMN fleet TEXT;
CREATE INDEX deployments_fleet ON deployments (fleet) WHERE fleet IS NOT NULL;
