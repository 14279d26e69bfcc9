-- Preview environments: workloads of others whose annotations name a commit, and what the forge is told of them.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

-- One commit on one workload: the commit status of that context.
CREATE TABLE environment_workloads (
    repository   TEXT NOT NULL,
    commit_id    TEXT NOT NULL,
    context      TEXT NOT NULL,
    cluster      TEXT NOT NULL,
    workload     TEXT NOT NULL,     -- Deployment/pr-12/web
    pull_request BIGINT,
    link         TEXT,
    state        TEXT NOT NULL,     -- waiting, ready, failed, superseded, removed
    sentence     TEXT NOT NULL,
    news         TEXT,              -- what people are to be told; none where it is only counted
    live         BIGINT NOT NULL,   -- 1: the workload carries this commit
    first_at     BIGINT NOT NULL,   -- when the commit was first seen on the workload
    began_at     BIGINT NOT NULL,   -- when its last rollout was first seen
    ended_at     BIGINT,
    changed_at   BIGINT NOT NULL,   -- since when there is that news
    turn         BIGINT NOT NULL,   -- grows with the news: what was sent before is not the newest
    claims       BIGINT NOT NULL,   -- grows with each claim: the newest fences off slower senders
    worker       TEXT,
    due_at       BIGINT NOT NULL,
    done_at      BIGINT,            -- since when there is nothing to send
    told         TEXT,              -- the news that the forge has
    unsure       BIGINT NOT NULL,   -- 1: something was sent, and there was no answer
    doubted      BIGINT NOT NULL,   -- 1: an earlier status may be applied after the one that was sent
    failures     BIGINT NOT NULL,
    refused      BIGINT NOT NULL,   -- 1: the forge takes no status for this commit
    summary      TEXT NOT NULL,
    PRIMARY KEY (repository, commit_id, context)
);
CREATE INDEX environment_workloads_due ON environment_workloads (due_at) WHERE done_at IS NULL;
CREATE INDEX environment_workloads_live ON environment_workloads (cluster, workload) WHERE live = 1;
CREATE INDEX environment_workloads_request ON environment_workloads (repository, pull_request) WHERE live = 1;
CREATE INDEX environment_workloads_done ON environment_workloads (done_at) WHERE live = 0;

-- The comment of one pull request.
CREATE TABLE environment_comments (
    repository   TEXT NOT NULL,
    number       BIGINT NOT NULL,
    turn         BIGINT NOT NULL,
    claims       BIGINT NOT NULL,
    worker       TEXT,
    due_at       BIGINT NOT NULL,
    done_at      BIGINT,
    changed_at   BIGINT NOT NULL,
    failures     BIGINT NOT NULL,
    summary      TEXT NOT NULL,
    comment      BIGINT,            -- its number at the forge
    shown_commit TEXT,              -- the commit that it is about
    shown_digest TEXT,              -- of its text
    dismissed    TEXT,              -- the commit whose comment a person deleted
    PRIMARY KEY (repository, number)
);
CREATE INDEX environment_comments_due ON environment_comments (due_at) WHERE done_at IS NULL;
CREATE INDEX environment_comments_done ON environment_comments (done_at);

-- What was written about preview environments within the last hour: the forge takes so many calls an hour.
CREATE TABLE environment_calls (
    repository TEXT NOT NULL,
    at         BIGINT NOT NULL,
    calls      BIGINT NOT NULL,
    PRIMARY KEY (repository, at)
);
CREATE INDEX environment_calls_at ON environment_calls (at);
