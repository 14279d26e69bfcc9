-- It changes no rows; one that came after it.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0019', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000019-000019', 'of-19', 'acme/of-0019', 'prod', 119, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v19', 'main', 'robot[bot]', '', 'devx', 'of-0019', 'backend-default@latest', 'failed', 1767312000019, 1767312100019, '[]', '1 violation', '[]', NULL, NULL, 1767312100019, 1, 1, 119, 1);
