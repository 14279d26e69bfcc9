-- How often telling somebody failed, apart from how often it was tried: waiting for the other
-- side's leave is no failure.
-- Portable: TEXT and BIGINT only.

ALTER TABLE outbox ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;
