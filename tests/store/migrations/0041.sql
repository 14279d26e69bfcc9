-- A preview environment that was told, and its comment.
INSERT INTO environment_workloads (repository, commit_id, context, cluster, workload, pull_request, link, state, sentence, news, live, first_at, began_at, ended_at, changed_at, turn, claims, worker, due_at, done_at, told, unsure, doubted, failures, refused, summary) VALUES
('acme/of-0041', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'the-deployer/preview/dev/pr-1/deployment/web', 'dev', 'Deployment/pr-1/web', 1, 'https://pr-1.example.com', 'ready', '2 of 2 available', 'ready', 1, 1767312000041, 1767312000041, 1767312100041, 1767312100041, 2, 2, NULL, 1767312100041, 1767312100041, 'ready', 0, 0, 0, 0, 'sent');
INSERT INTO environment_comments (repository, number, turn, claims, worker, due_at, done_at, changed_at, failures, summary, comment, shown_commit, shown_digest, dismissed) VALUES
('acme/of-0041', 1, 1, 1, NULL, 1767312100041, 1767312100041, 1767312100041, 0, 'written', 7, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'd', NULL);
INSERT INTO environment_calls (repository, at, calls) VALUES ('acme/of-0041', 1767312100041, 2);
