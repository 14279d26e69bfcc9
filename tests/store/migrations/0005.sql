-- Told to several, one of whom may have heard it.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0005', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures) VALUES
('20260102-000000005-000005', 'of-5', 'acme/of-0005', 'prod', 105, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v5', 'main', 'jo', '', 'devx', 'of-0005', 'backend-default@latest', 'succeeded', 1767312000005, 1767312100005, '[]', 'pushed', '[]', '{"commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","changed":true,"digest":"sha256:ab","files":["deployment.yaml"]}', NULL, 1767312100005, 1, 0);
INSERT INTO outbox (deployment, sink, seq, family, state, description, at, due_at, attempts, unsure, outcome, done_at, reason, reference) VALUES
('20260102-000000005-000005', 'forge', 1, 'forge', 'success', 'pushed', 1767312100005, 1767312100005, 1, 0, 'sent', 1767312100105, NULL, NULL),
('20260102-000000005-000005', 'commit', 1, 'forge', 'success', 'pushed', 1767312100005, 1767312160005, 1, 1, NULL, NULL, NULL, NULL),
('20260102-000000005-000005', 'channel', 1, 'slack', 'success', 'pushed', 1767312100005, 1767312100005, 1, 0, 'skipped', 1767312100105, 'nobody asked', NULL);
