-- Pull requests and their previews: one row for each that is open, for its newest head.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch, request is a JSON text.

CREATE TABLE previews (
    repository   TEXT NOT NULL,
    number       BIGINT NOT NULL,
    request      TEXT NOT NULL,    -- the pull request as it was last heard of
    updated_at   BIGINT NOT NULL,  -- the forge's own time of that
    received_at  BIGINT NOT NULL,
    worker       TEXT,             -- who holds the lease; none between attempts
    due_at       BIGINT NOT NULL,  -- from when a worker may take it: a retry's time, or a lease's end
    turn         BIGINT NOT NULL,  -- grows with every request and claim; the newest fences off older ones
    attempts     BIGINT NOT NULL,  -- how often a worker began since the newest request
    failures     BIGINT NOT NULL,  -- how many of those failed or died
    done_at      BIGINT,           -- since when there is nothing to do
    summary      TEXT NOT NULL,    -- what became of it, or what it waits for
    shown_turn   BIGINT NOT NULL,  -- of the attempt that showed something last; 0 before that
    shown_head   TEXT,             -- the commit that has a check run of ours
    shown_check  BIGINT,           -- its number
    shown_digest TEXT,             -- of what it says
    PRIMARY KEY (repository, number)
);

CREATE INDEX previews_waiting ON previews (due_at) WHERE done_at IS NULL;
CREATE INDEX previews_done ON previews (done_at) WHERE done_at IS NOT NULL;
