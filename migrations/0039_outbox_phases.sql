-- What a message says of a deployment after its push, in a cluster that is watched: programs get each of these
-- states once, apart from the start and the end.
-- Portable: TEXT and BIGINT only.

ALTER TABLE outbox ADD COLUMN phase TEXT;  -- syncing, progressing; none for all else
