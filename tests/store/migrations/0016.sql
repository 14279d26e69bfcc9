-- A hold by that rollback, and one that was released.
INSERT INTO holds (id, target, namespace, slug, placed_by, reason, since, rollback, away, to_tag, ended_at, ended_by, ended_why) VALUES
('20260102-000000015-000015', 'prod', 'devx', 'of-0015', 'jo', 'it was slow', 1767312100015, '20260102-000000015-000015', NULL, 'v15', NULL, NULL, NULL),
('20260116-000000000-00000a', 'prod', 'devx', 'shop', 'jo', 'the fair', 1768521600000, NULL, NULL, NULL, 1768521700000, 'al', 'it is over');
