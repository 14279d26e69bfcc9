-- What a deployment claims when it begins to push, beside routes: the name of each object that it will make
-- live. As with routes a row counts while its deployment pushes, and some minutes after its success; later
-- the manifest repository alone says what is live, so a table that is empty loses nothing.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE object_claims (
    deployment   TEXT NOT NULL,
    target       TEXT NOT NULL,
    namespace    TEXT NOT NULL,
    slug         TEXT NOT NULL,
    api_group    TEXT NOT NULL,    -- without its version; empty for Kubernetes' core
    kind         TEXT NOT NULL,
    name         TEXT NOT NULL,
    claimed_at   BIGINT NOT NULL,
    PRIMARY KEY (deployment, api_group, kind, name)
);

CREATE INDEX object_claims_namespace ON object_claims (target, namespace);
CREATE INDEX object_claims_age ON object_claims (claimed_at);
