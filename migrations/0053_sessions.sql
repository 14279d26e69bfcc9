-- Browsers of people who have signed in, and the key by which the service knows its own cookies.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE sessions (
    id       TEXT PRIMARY KEY,     -- the SHA-256 of what the cookie has
    account  TEXT NOT NULL,        -- github:octocat, token:ci
    name     TEXT NOT NULL,        -- octocat, ci
    sealed   TEXT,                 -- a person's token, encrypted by a key that only the cookie has
    digest   TEXT,                 -- the SHA-256 of a configured token; one of the two is there
    began_at BIGINT NOT NULL,
    seen_at  BIGINT NOT NULL,
    ends_at  BIGINT NOT NULL
);
CREATE INDEX sessions_account ON sessions (account, seen_at);
CREATE INDEX sessions_ends ON sessions (ends_at);
CREATE INDEX sessions_seen ON sessions (seen_at);

CREATE TABLE cookie_keys (
    name    TEXT PRIMARY KEY,      -- cookies
    secret  TEXT NOT NULL,         -- 32 random bytes, in hexadecimal
    made_at BIGINT NOT NULL
);
