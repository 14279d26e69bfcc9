-- A removal that was done, and one whose process died.
INSERT INTO acts (id, kind, target, namespace, slug, repository, actor, reason, details, asked_at, due_at, finished_at, commit_id, summary) VALUES
('20260104-000000000-00000a', 'removal', 'prod', 'devx', 'gone', 'acme/gone', 'jo', 'not used', '{"files":["apps/prod/devx.gone.yaml"],"objects":[],"keeps_data":[],"digest":null,"repository":"acme/gone","notes":[]}', 1767484800000, 1767485100000, 1767484801000, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'gone'),
('20260104-000000000-00000b', 'removal', 'prod', 'devx', 'going', 'acme/going', 'jo', 'not used', '{"files":[],"objects":[],"keeps_data":[],"digest":null,"repository":null,"notes":[]}', 1767484800000, 1767485100000, NULL, NULL, 'under way');
