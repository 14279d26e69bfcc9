-- It changes rows only; one that came after it, of a repository that was refused.
INSERT INTO lanes (repository, target) VALUES ('rival/of-0024', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000024-000024', 'of-24', 'rival/of-0024', 'prod', 124, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v24', 'main', 'mallory', '', NULL, NULL, NULL, 'failed', 1767312000024, 1767312100024, '[]', '1 violation', '[]', NULL, NULL, 1767312100024, 1, 1, 124, 0);
