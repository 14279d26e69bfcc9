-- What a deployment in the middle of its push claims, with what it waits for; and what one claimed
-- that has come to its end.
INSERT INTO claim_turns (target) VALUES ('prod');
INSERT INTO claims (deployment, target, namespace, slug, repository, host, path, claimed_at) VALUES
('20260101-000000005-000005', 'prod', 'devx', 'mail', 'acme/mail', '', '', 1767225641000),
('20260101-000000005-000005', 'prod', 'devx', 'mail', 'acme/mail', 'mail.example.com', '/', 1767225641000),
('20260101-000000001-000001', 'prod', 'devx', 'shop', 'acme/shop', 'shop.example.com', '/', 1767225601000);
-- An attempt at another repository's app, which its version wrote down as the app's.
INSERT INTO lanes (repository, target) VALUES ('rival/shop', 'prod');
INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, actor, description, namespace, slug, template, state, received_at, finished_at, stages, summary, violations, pushed, worker, due_at, attempts, failures, place, automatic) VALUES
('20260102-000000023-000023', 'of-23', 'rival/shop', 'prod', 123, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'v23', 'main', 'mallory', '', 'devx', 'shop', NULL, 'failed', 1767312000023, 1767312100023, '[]', '1 violation', '[]', NULL, NULL, 1767312100023, 1, 1, 123, 0);
