-- A rollout that is done and one that goes on, as 0042 makes them.
INSERT INTO rollouts (id, undo_id, repository, namespace, slug, name, tag, targets, origin, creator, reason, state,
     version, record, waits, claimed, created_at, since, ended_at, due_at) VALUES
    ('r-20261121-054812123-000001', 'r-20261121-054812123-000002', 'acme/web', 'devx', 'web', 'production', 'v2',
     '["prod","dev"]', '{"git_ref":"main","owner":"squad@example.com","automatic":false,"recipient":"actor"}', 'ann',
     'the fair', 'done', 7, '{}', '[]', 1, 1795240000000, 1795240600000, 1795240600000, 1795240600000),
    ('r-20261121-064812123-000001', 'r-20261121-064812123-000002', 'acme/web', 'devx', 'web', NULL, 'v3',
     '["prod"]', '{"git_ref":"main","owner":"squad@example.com","automatic":false,"recipient":"actor"}', 'ann',
     'the fair', 'rolling_out', 2, '{}', '[]', 1, 1795243600000, 1795243600000, NULL, 1795243660000);
INSERT INTO rollout_claims (repository, namespace, slug, target, rollout) VALUES
    ('acme/web', 'devx', 'web', 'prod', 'r-20261121-064812123-000001');
