-- An end that an older status overtook is told again. That is one more call of the forge's hour, and is
-- counted as such.
-- Portable: BIGINT only; times are milliseconds since the epoch.

-- When it was told again last; none where it never was.
ALTER TABLE outbox ADD COLUMN retold_at BIGINT;

CREATE INDEX outbox_retold ON outbox (retold_at) WHERE retold_at IS NOT NULL;
