-- What lists of deployments are asked by: who asked for them, what was deployed, and when.
-- Portable: TEXT and BIGINT only.

CREATE INDEX deployments_actor ON deployments (actor);
CREATE INDEX deployments_tag ON deployments (tag);
CREATE INDEX deployments_received ON deployments (received_at);
