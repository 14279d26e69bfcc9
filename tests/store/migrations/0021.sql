-- One whose violations were too many to be listed.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0021', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, errors, warnings, pushed, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000021-000021', 'of-21', 'acme/of-0021', 'prod', 121, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v21', 'main', 'jo', '', 'devx', 'of-0021', 'backend-default@latest', 'failed', 1767312000021, 1767312100021, '[]', '15007 violations', '[]', 15000, 7, NULL, NULL, 1767312100021, 1, 1, 121, 0);
