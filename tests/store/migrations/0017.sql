-- An act that was answered, and one whose process died at work.
INSERT INTO answers (caller, route, request_key, digest, begun_at, due_at, status, body) VALUES
('token ci', '/api/v1/apps/prod/devx/shop/rollback', 'k-1', 'ab', 1768608000000, 1768608060000, 202, '{"hold":true}'),
('token ci', '/api/v1/apps/prod/devx/shop/rollback', 'k-2', 'cd', 1768608000000, 1768608060000, NULL, NULL);
