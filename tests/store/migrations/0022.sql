-- A removal that was asked for with a key, and whose process died at work.
INSERT INTO answers (caller, route, request_key, digest, begun_at, due_at, status, body, act) VALUES
('token ci', '/api/v1/apps/prod/devx/shop/remove', 'k-22', 'ab', 1799999000000, 1799999300000, NULL, NULL, '20260102-000000022-000022');
