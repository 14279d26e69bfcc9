-- An end that was told again, because an older status was applied after it.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0034', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000034-000034', 'of-34', 'acme/of-0034', 'prod', 134, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v34', 'main', 'robot[bot]', '', 'devx', 'of-0034', 'backend-default@latest', 'failed', 1767312000034, 1767312100034, '[]', '1 violation', '[]', NULL, NULL, 1767312100034, 1, 1, 134, 1);
INSERT INTO outbox (deployment, sink, seq, family, state, description, at, due_at, attempts, unsure, outcome, done_at, reason, reference, failures, doubted, confirm_at, retold_at) VALUES
('20260102-000000034-000034', 'forge', 1, 'forge', 'failure', '1 violation', 1767312100034, 1767312100034, 1, 0, 'sent', 1767312100034, NULL, NULL, 0, 0, 1767312220034, 1767312160034);
