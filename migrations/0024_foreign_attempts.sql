-- An attempt at another repository's app was recorded as one of the app's: it became the app's newest
-- deployment, and whoever could read the app read the name of the repository that was refused. It is
-- its repository's alone. RTRIM takes the name after the slash away, and leaves the owner.
-- Portable.

UPDATE deployments SET namespace = NULL, slug = NULL
WHERE state IN ('failed', 'superseded', 'cancelled') AND slug IS NOT NULL AND (
    EXISTS (
        SELECT 1 FROM owners o WHERE o.target = deployments.target
          AND o.namespace = deployments.namespace AND o.slug = deployments.slug
          AND LOWER(o.repository) <> LOWER(deployments.repository))
    OR (
        NOT EXISTS (
            SELECT 1 FROM owners o WHERE o.target = deployments.target
              AND o.namespace = deployments.namespace AND o.slug = deployments.slug)
        AND EXISTS (
            SELECT 1 FROM owners o WHERE o.target = deployments.target
              AND o.namespace = deployments.namespace)
        AND NOT EXISTS (
            SELECT 1 FROM owners o WHERE o.target = deployments.target
              AND o.namespace = deployments.namespace
              AND LOWER(RTRIM(o.repository, REPLACE(o.repository, '/', '')))
                = LOWER(RTRIM(deployments.repository, REPLACE(deployments.repository, '/', ''))))
    )
);
