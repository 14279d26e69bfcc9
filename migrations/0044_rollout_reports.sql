-- Rollouts: what people were last told of each, on its commit and in its Slack thread. A state, not a queue of messages.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE rollout_reports (
    rollout    TEXT NOT NULL,
    sink       TEXT NOT NULL,     -- commit, channel
    turn       BIGINT NOT NULL,   -- grows with the record: what was sent before is not the newest
    claims     BIGINT NOT NULL,   -- grows with each claim: the newest fences off slower senders
    worker     TEXT,
    due_at     BIGINT NOT NULL,
    done_at    BIGINT,            -- since when there is nothing to send
    begun_at   BIGINT NOT NULL,   -- when the rollout began: no message about it is older
    changed_at BIGINT NOT NULL,   -- since when there is something to look at
    told       TEXT,              -- what the receiver has: the status, or the digest of the thread's first message
    told_at    BIGINT,
    notice     TEXT,              -- the last message about a change in the thread
    reference  TEXT,              -- the first message of the thread
    unsure     BIGINT NOT NULL,   -- 1: something was sent, and there was no answer
    doubted    BIGINT NOT NULL,   -- 1: an earlier report may be applied after the one that was sent
    failures   BIGINT NOT NULL,
    summary    TEXT NOT NULL,
    PRIMARY KEY (rollout, sink)
);
CREATE INDEX rollout_reports_due ON rollout_reports (sink, due_at) WHERE done_at IS NULL;

-- What was written to the forge about rollouts within the last hour: it takes so many calls an hour.
CREATE TABLE rollout_calls (
    repository TEXT NOT NULL,
    at         BIGINT NOT NULL,
    calls      BIGINT NOT NULL,
    PRIMARY KEY (repository, at)
);
CREATE INDEX rollout_calls_at ON rollout_calls (at);

-- Insights are about the rollouts of a window.
CREATE INDEX rollouts_created ON rollouts (created_at);
