-- A status that was sent in doubt, and the end that is to be looked at.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0028', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000028-000028', 'of-28', 'acme/of-0028', 'prod', 128, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v28', 'main', 'robot[bot]', '', 'devx', 'of-0028', 'backend-default@latest', 'failed', 1767312000028, 1767312100028, '[]', '1 violation', '[]', NULL, NULL, 1767312100028, 1, 1, 128, 1);
INSERT INTO outbox (deployment, sink, seq, family, state, description, at, due_at, attempts, unsure, outcome, done_at, reason, reference, failures, doubted, confirm_at) VALUES
('20260102-000000028-000028', 'forge', 1, 'forge', 'in_progress', 'reading', 1767312000028, 1767312000028, 2, 0, 'skipped', 1767312100028, 'it was over', NULL, 1, 1, NULL),
('20260102-000000028-000028', 'forge', 2, 'forge', 'failure', '1 violation', 1767312100028, 1767312100028, 1, 0, 'sent', 1767312100028, NULL, NULL, 0, 0, 1767312160028);
