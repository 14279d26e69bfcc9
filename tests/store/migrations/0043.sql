-- A request that started a rollout, and one that started none, as 0043 makes them.
INSERT INTO rollout_requests (repository, forge_id, request, received_at, rollout, error, told, failures, due_at, done_at)
VALUES
    ('acme/web', 9001, '{"forge_id":9001}', 1795240000000, 'r-20261121-054812123-000001', NULL, 'success', 0,
     1795240600000, 1795240600000),
    ('acme/web', 9002, '{"forge_id":9002}', 1795240000000, NULL, 'the WAML has no rollout `x`', 'error', 0,
     1795240000000, 1795240000000);
