-- What an act with an `Idempotency-Key` began, where it is not done in one transaction: a removal's
-- record. A repeat looks there for how it ended.
-- Portable: TEXT and BIGINT only.

ALTER TABLE answers ADD COLUMN act TEXT;
