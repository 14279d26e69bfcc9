-- The outbox has a message for each sink that a change is told to, no longer for the forge alone.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

ALTER TABLE outbox RENAME TO outbox_before;

CREATE TABLE outbox (
    deployment   TEXT NOT NULL REFERENCES deployments (id),
    sink         TEXT NOT NULL,    -- forge, commit, check, channel, person, events/NAME
    seq          BIGINT NOT NULL,  -- among the deployment's messages for that sink, from 1
    family       TEXT NOT NULL,    -- sinks behind the same door: forge, slack, events/NAME
    state        TEXT NOT NULL,
    description  TEXT NOT NULL,
    at           BIGINT NOT NULL,
    due_at       BIGINT NOT NULL,  -- from when a sender may take it
    attempts     BIGINT NOT NULL,
    unsure       BIGINT NOT NULL,  -- 1: an attempt may have arrived without our knowing
    outcome      TEXT,             -- sent, skipped, parked; none while it waits
    done_at      BIGINT,
    reason       TEXT,             -- why it was skipped, or why nobody tries any more
    reference    TEXT,             -- what the other side calls it
    PRIMARY KEY (deployment, sink, seq)
);

INSERT INTO outbox (deployment, sink, seq, family, state, description, at, due_at, attempts, unsure,
    outcome, done_at, reason, reference)
SELECT deployment, 'forge', seq, 'forge', state, description, at, due_at, attempts,
    CASE WHEN attempts > 0 AND sent_at IS NULL THEN 1 ELSE 0 END,
    CASE WHEN sent_at IS NOT NULL THEN 'sent' WHEN parked IS NOT NULL THEN 'parked' END,
    sent_at, parked, NULL
FROM outbox_before;

DROP TABLE outbox_before;

CREATE INDEX outbox_waiting ON outbox (family, due_at) WHERE outcome IS NULL;
CREATE INDEX outbox_parked ON outbox (deployment) WHERE outcome = 'parked';
