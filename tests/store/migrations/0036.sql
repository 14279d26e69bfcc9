-- A deployment that failed in its cluster after the push, and what is remembered of it there.
INSERT INTO lanes (repository, target) VALUES ('acme/of-0036', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic, cluster_state, cluster_at, log_tail) VALUES
('20260102-000000036-000036', 'of-36', 'acme/of-0036', 'prod', 136, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v36', 'main', 'robot[bot]', '', 'devx', 'of-0036', 'backend-default@latest', 'succeeded', 1767312000036, 1767312100036, '[]', 'the image cannot be pulled', '[]', NULL, NULL, 1767312100036, 1, 0, 136, 1, 'failed', 1767312200036, '["no such image"]');
INSERT INTO cluster_progress (cluster, workload, uid, sequence, deployment, record, at) VALUES ('prod', 'Deployment/devx/of-0036', 'u', 1, '20260102-000000036-000036', '{}', 1767312200036);
INSERT INTO cluster_leases (cluster, holder, fence, lease_end) VALUES ('prod', 'a', 1, 1767312200036);
