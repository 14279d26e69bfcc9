-- What the forge was told within the last hour is counted: it takes so many calls an hour that make
-- something. And what was told in doubt is remembered, so that the end of such a deployment is looked at
-- again: a status that got no answer may be applied after it.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE INDEX outbox_told ON outbox (done_at) WHERE outcome = 'sent' AND family = 'forge';

-- 1: it was sent once without an answer, and whether it had arrived was not known.
ALTER TABLE outbox ADD COLUMN doubted BIGINT NOT NULL DEFAULT 0;
-- When it is looked whether the forge shows it as the newest; none where nobody has to look.
ALTER TABLE outbox ADD COLUMN confirm_at BIGINT;

CREATE INDEX outbox_confirm ON outbox (confirm_at) WHERE confirm_at IS NOT NULL;
