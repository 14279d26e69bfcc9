-- Where an app's people are reached and where the app itself is, as last read; and whether the
-- forge calls the environment a production one.
-- Portable: TEXT and BIGINT only; contact is a JSON text.

ALTER TABLE deployments ADD COLUMN contact TEXT;
ALTER TABLE deployments ADD COLUMN address TEXT;
ALTER TABLE deployments ADD COLUMN production BIGINT NOT NULL DEFAULT 0;
