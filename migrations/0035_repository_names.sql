-- A name that an event gives a repository counts only if the event is not older than the one that gave it its
-- present name: deliveries come late, and are delivered again.
-- Portable: BIGINT only; times are milliseconds since the epoch.

-- When that event happened, by the forge's clock; none where an earlier version noted the name.
ALTER TABLE repositories ADD COLUMN seen_at BIGINT;
