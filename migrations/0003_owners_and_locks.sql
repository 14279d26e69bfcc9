-- Whose an app is on a target, by first come; and what people keep from being deployed to.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE owners (
    target       TEXT NOT NULL,
    namespace    TEXT NOT NULL,
    slug         TEXT NOT NULL,
    repository   TEXT NOT NULL,
    since        BIGINT NOT NULL,
    moved_by     TEXT,             -- none: it came first
    reason       TEXT,
    PRIMARY KEY (target, namespace, slug)
);

-- Before there was this table: whose deployment is live, since a repository may have been renamed.
INSERT INTO owners (target, namespace, slug, repository, since)
SELECT d.target, d.namespace, d.slug, d.repository, d.finished_at
FROM deployments d
WHERE d.state = 'succeeded' AND d.namespace IS NOT NULL AND d.slug IS NOT NULL
  AND d.finished_at IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM deployments e
    WHERE e.state = 'succeeded' AND e.target = d.target AND e.namespace = d.namespace
      AND e.slug = d.slug
      AND (e.finished_at > d.finished_at OR (e.finished_at = d.finished_at AND e.id > d.id))
  );

CREATE TABLE locks (
    id           TEXT PRIMARY KEY,
    scope        TEXT NOT NULL,    -- everything, target, owner, app; says which of the next four are set
    target       TEXT,
    owner        TEXT,
    namespace    TEXT,
    slug         TEXT,
    reason       TEXT NOT NULL,
    placed_by    TEXT NOT NULL,
    since        BIGINT NOT NULL,
    ends_at      BIGINT,           -- none: until somebody takes it away
    removed_at   BIGINT,
    removed_by   TEXT,
    removed_why  TEXT
);

CREATE INDEX locks_placed ON locks (since) WHERE removed_at IS NULL;
