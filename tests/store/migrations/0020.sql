-- What was written to find out whether the database takes writes; and a deployment that came after it.
INSERT INTO health (name, at, filler) VALUES ('file', 1767312000020, '0'), ('replica-1', 1767312000020, '0');
INSERT INTO lanes (repository, target) VALUES ('acme/of-0020', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000020-000020', 'of-20', 'acme/of-0020', 'prod', 120, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v20', 'main', 'robot[bot]', '', 'devx', 'of-0020', 'backend-default@latest', 'failed', 1767312000020, 1767312100020, '[]', '1 violation', '[]', NULL, NULL, 1767312100020, 1, 1, 120, 1);
