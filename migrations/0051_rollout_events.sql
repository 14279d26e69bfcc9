-- Events about rollouts for other programs: each is written once, in the transaction of its change, for every receiver.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE rollout_events (
    receiver TEXT NOT NULL,     -- the webhook's name in the configuration
    rollout  TEXT NOT NULL,
    version  BIGINT NOT NULL,   -- of the record with the change
    place    BIGINT NOT NULL,   -- among the events of that change
    event    TEXT NOT NULL,     -- the event's own id
    kind     TEXT NOT NULL,     -- rollout.started and others
    body     TEXT NOT NULL,     -- the event as it is sent; empty once that has an outcome
    at       BIGINT NOT NULL,
    due_at   BIGINT NOT NULL,   -- from when a sender may take it
    attempts BIGINT NOT NULL,   -- counts the claims: the newest fences off slower senders
    failures BIGINT NOT NULL,
    outcome  TEXT,              -- sent, skipped, parked; none while it waits
    done_at  BIGINT,
    reason   TEXT,              -- why it was skipped, or is not tried any more
    PRIMARY KEY (receiver, rollout, version, place)
);
CREATE INDEX rollout_events_waiting ON rollout_events (receiver, due_at) WHERE outcome IS NULL;
CREATE INDEX rollout_events_rollout ON rollout_events (rollout);
