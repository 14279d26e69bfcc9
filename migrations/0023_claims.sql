-- What a deployment claims when it begins to push: its app and namespace, and each host and path that
-- it will be reached at. A row counts while its deployment pushes, and some minutes after its success:
-- until then, not every replica has seen the push. Later the manifest repository alone says what is
-- live, so a table that is empty loses nothing.
-- Portable: TEXT and BIGINT only.

CREATE TABLE claims (
    deployment   TEXT NOT NULL,
    target       TEXT NOT NULL,
    namespace    TEXT NOT NULL,
    slug         TEXT NOT NULL,
    repository   TEXT NOT NULL,
    host         TEXT NOT NULL,    -- in small letters; empty in the row that is for the app itself
    path         TEXT NOT NULL,
    claimed_at   BIGINT NOT NULL,
    PRIMARY KEY (deployment, host, path)
);

CREATE INDEX claims_host ON claims (target, host);
CREATE INDEX claims_app ON claims (target, namespace, slug);
CREATE INDEX claims_age ON claims (claimed_at);

-- A row is locked by whoever claims on that target: of two that claim at once, the second one sees what
-- the first one has.
CREATE TABLE claim_turns (
    target       TEXT PRIMARY KEY
);
