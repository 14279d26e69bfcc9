-- A deployment that was refused, and had its end.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0025', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic, refused_since) VALUES
('20260102-000000025-000025', 'of-25', 'acme/of-0025', 'prod', 125, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v25', 'main', 'robot[bot]', '', 'devx', 'of-0025', 'backend-default@latest', 'failed', 1767312000025, 1767312100025, '[]', 'refused', '[]', NULL, NULL, 1767312100025, 1, 1, 125, 1, 1767312050025);
