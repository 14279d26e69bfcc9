-- As version 1 left them: one done, one given up, one that waits, one whose worker died, one in the
-- middle of its push; and what the forge was told, is to be told, and will never be told.
INSERT INTO lanes (repository, target) VALUES ('acme/shop', 'prod'), ('acme/cart', 'prod'), ('acme/mail', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures) VALUES
('20260101-000000001-000001', 'd-1', 'acme/shop', 'prod', 1, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v1', 'main', 'jo', '', 'devx', 'shop', 'backend-default@latest', 'succeeded', 1767225600001, 1767225602000, '[{"stage":"fetch","micros":1200}]', 'pushed', '[]', '{"commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","changed":true,"digest":"sha256:ab","files":["deployment.yaml"]}', NULL, 1767225602000, 1, 0),
('20260101-000000002-000002', 'd-2', 'acme/shop', 'prod', 2, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v2', 'main', 'jo', 'again', 'devx', 'shop', 'backend-default@latest', 'failed', 1767225610000, 1767225611000, '[]', '1 violation', '[{"rule":"ports-map","severity":"error","message":"port 80 is not served","path":"","position":null,"expected":null,"help":null}]', NULL, NULL, 1767225611000, 1, 1),
('20260101-000000003-000003', 'd-3', 'acme/shop', 'prod', 3, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v3', 'main', 'jo', '', NULL, NULL, NULL, 'queued', 1767225620000, NULL, '[]', 'waiting for a worker', '[]', NULL, NULL, 1767225620000, 0, 0),
('20260101-000000004-000004', 'd-4', 'acme/cart', 'prod', 4, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v4', 'main', 'jo', '', NULL, NULL, NULL, 'running', 1767225630000, NULL, '[]', 'a worker is at it', '[]', NULL, 'dead', 1767225690000, 1, 0),
('20260101-000000005-000005', 'd-5', 'acme/mail', 'prod', 5, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v5', 'main', 'jo', '', 'devx', 'mail', 'backend-default@latest', 'pushing', 1767225640000, NULL, '[]', 'a worker is at it', '[]', NULL, 'dead', 1767225700000, 1, 0);
INSERT INTO outbox (deployment, seq, state, description, at, sent_at, parked, due_at, attempts) VALUES
('20260101-000000001-000001', 1, 'queued', 'waiting for a worker', 1767225600001, 1767225600100, NULL, 1767225600001, 1),
('20260101-000000001-000001', 2, 'success', 'pushed', 1767225602000, 1767225602100, NULL, 1767225602000, 1),
('20260101-000000002-000002', 1, 'queued', 'waiting for a worker', 1767225610000, NULL, 'no right to write statuses', 1767225610000, 6),
('20260101-000000003-000003', 1, 'queued', 'waiting for a worker', 1767225620000, NULL, NULL, 1767225620000, 0),
('20260101-000000004-000004', 1, 'queued', 'waiting for a worker', 1767225630000, NULL, NULL, 1767225630000, 1);
