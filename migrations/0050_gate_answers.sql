-- The answers of the gates of rollouts: a row for questions in a row that had the same answer, so that a gate that says
-- the same for a weekend takes one. Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE rollout_gate_answers (
    rollout  TEXT NOT NULL,
    version  BIGINT NOT NULL,   -- of the record that has the first of them: the order, whatever clocks say
    step     BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at  BIGINT NOT NULL,
    asked    BIGINT NOT NULL,   -- how often
    result   TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (rollout, step, version)
);
