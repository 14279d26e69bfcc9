-- A program was told of each state of a deployment in its cluster.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0039', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic, cluster_state, cluster_at) VALUES
('20260102-000000039-000039', 'of-39', 'acme/of-0039', 'prod', 139, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v39', 'main', 'robot[bot]', '', 'devx', 'of-0039', 'backend-default@latest', 'succeeded', 1767312000039, 1767312100039, '[]', 'its pods run', '[]', NULL, NULL, 1767312100039, 1, 0, 139, 1, 'succeeded', 1767312200039);
INSERT INTO outbox (deployment, sink, seq, family, state, description, at, due_at, attempts, unsure, outcome, done_at, phase) VALUES
('20260102-000000039-000039', 'events/dw', 1, 'events/dw', 'in_progress', 'waiting for Argo CD', 1767312100039, 1767312100039, 1, 0, 'sent', 1767312100040, 'syncing'),
('20260102-000000039-000039', 'events/dw', 2, 'events/dw', 'in_progress', '1 of 2 updated', 1767312150039, 1767312150039, 1, 0, 'sent', 1767312150040, 'progressing');
