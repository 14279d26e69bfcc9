-- A deployment that a workflow asked for, for a person.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0029', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic, recipient) VALUES
('20260102-000000029-000029', 'of-29', 'acme/of-0029', 'prod', 129, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v29', 'main', 'github-actions[bot]', '', 'devx', 'of-0029', 'backend-default@latest', 'failed', 1767312000029, 1767312100029, '[]', '1 violation', '[]', NULL, NULL, 1767312100029, 1, 1, 129, 1, 'octocat');
INSERT INTO repositories (number, name, owner) VALUES (290, 'acme/of-0029', 7);
