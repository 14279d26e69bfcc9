-- A deployment whose WAML could not be read.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0055', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, state, received_at, finished_at, stages, summary, violations, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000055-000055', 'of-55', 'acme/of-0055', 'prod', 155, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v55', 'main', 'robot[bot]', '', 'failed', 1767312000055, 1767312100055, '[]', '.weave.yaml cannot be read', '[]', NULL, 1767312100055, 1, 0, 155, 1);
