-- How far the canaries of a deployment were in their cluster: a row for each change of phase, weight or failed checks.
-- Portable: TEXT and BIGINT only; times are milliseconds since the epoch.

CREATE TABLE canary_samples (
    deployment    TEXT NOT NULL,
    number        BIGINT NOT NULL,   -- their order within the deployment, whatever clocks say
    workload      TEXT NOT NULL,     -- Deployment devx/my-app
    at            BIGINT NOT NULL,
    phase         TEXT NOT NULL,     -- Flagger's word
    weight        BIGINT NOT NULL,   -- percent of the traffic
    failed_checks BIGINT NOT NULL,
    threshold     BIGINT NOT NULL,   -- 0: not known
    reason        TEXT,              -- of the last failed check
    PRIMARY KEY (deployment, number)
);

-- The apps whose first deployment failed are few of those with a failed one.
CREATE INDEX deployments_failed_apps ON deployments (target, namespace, slug, id)
    WHERE state = 'failed' AND slug IS NOT NULL;
