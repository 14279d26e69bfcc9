-- A repository whose name was given by an event of a known time.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0035', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000035-000035', 'of-35', 'acme/of-0035', 'prod', 135, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v35', 'main', 'robot[bot]', '', 'devx', 'of-0035', 'backend-default@latest', 'failed', 1767312000035, 1767312100035, '[]', '1 violation', '[]', NULL, NULL, 1767312100035, 1, 1, 135, 1);
INSERT INTO repositories (number, name, owner, seen_at) VALUES (350, 'acme/of-0035', 7, 1767312000035);
