-- Looking for events that were lost: where each sweep is, who is at it, and what it has settled.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE sweeps (
    name         TEXT PRIMARY KEY,   -- deliveries, deployments
    since        BIGINT NOT NULL,    -- when this installation began; what is older is history
    position     TEXT,               -- where the next run goes on; its form is the sweep's
    holder       TEXT,               -- the process that is at it
    lease_end    BIGINT NOT NULL,    -- from when another may take over
    due_at       BIGINT NOT NULL,    -- when the next run is due
    not_before   BIGINT NOT NULL     -- the forge asked to be left alone until then
);

-- What was looked at and needs no second look; rows are deleted when the forge has forgotten too.
CREATE TABLE swept (
    sweep        TEXT NOT NULL,
    item         TEXT NOT NULL,      -- a delivery's id, or a deployment's number
    outcome      TEXT NOT NULL,
    at           BIGINT NOT NULL,
    PRIMARY KEY (sweep, item)
);

CREATE INDEX swept_at ON swept (at);
