-- Tried in vain, and waiting.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0007', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures) VALUES
('20260102-000000007-000007', 'of-7', 'acme/of-0007', 'prod', 107, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v7', 'main', 'jo', '', 'devx', 'of-0007', 'backend-default@latest', 'succeeded', 1767312000007, 1767312100007, '[]', 'pushed', '[]', '{"commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","changed":true,"digest":"sha256:ab","files":["deployment.yaml"]}', NULL, 1767312100007, 1, 0);
INSERT INTO outbox (deployment, sink, seq, family, state, description, at, due_at, attempts, unsure, outcome, done_at, reason, reference, failures) VALUES
('20260102-000000007-000007', 'forge', 1, 'forge', 'success', 'pushed', 1767312100007, 1767312160007, 3, 0, NULL, NULL, NULL, NULL, 2);
