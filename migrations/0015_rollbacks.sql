-- Rollbacks are deployments that begin here. The order of a lane is by `place`, then id: the forge's
-- number of a deployment, and of a rollback that of the newest one before it.
-- Portable: TEXT and BIGINT only; rollback is a JSON text.

ALTER TABLE deployments ADD COLUMN place BIGINT NOT NULL DEFAULT 0;
UPDATE deployments SET place = forge_id;
ALTER TABLE deployments ADD COLUMN rollback TEXT;
ALTER TABLE deployments ADD COLUMN automatic BIGINT NOT NULL DEFAULT 0;

DROP INDEX deployments_lane;
CREATE INDEX deployments_lane ON deployments (repository, target, place, id);
