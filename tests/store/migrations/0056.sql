-- A deployment whose WAML could not be read, after one whose WAML could be.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0056', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, state, received_at, finished_at, stages, summary, violations, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000056-000056', 'of-56', 'acme/of-0056', 'prod', 156, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v56', 'main', 'robot[bot]', '', 'devx', 'of-0056', 'failed', 1767312000056, 1767312100056, '[]', 'it breaks a rule', '[]', NULL, 1767312100056, 1, 0, 156, 1);
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, state, received_at, finished_at, stages, summary, violations, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000056-000057', 'of-57', 'acme/of-0056', 'prod', 157, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v57', 'main', 'robot[bot]', '', 'failed', 1767312000057, 1767312100057, '[]', '.weave.yaml cannot be read', '[]', NULL, 1767312100057, 1, 0, 157, 1);
