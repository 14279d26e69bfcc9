-- An app that came first, one that was given away, and locks: placed, ended, taken away.
INSERT INTO owners (target, namespace, slug, repository, since, moved_by, reason) VALUES
('prod', 'devx', 'first', 'acme/first', 1767312000000, NULL, NULL),
('prod', 'devx', 'given', 'acme/given', 1767312000000, 'jo', 'split off');
INSERT INTO locks (id, scope, target, owner, namespace, slug, reason, placed_by, since, ends_at, removed_at, removed_by, removed_why) VALUES
('0000000a', 'everything', NULL, NULL, NULL, NULL, 'the fair', 'jo', 1767312000000, NULL, NULL, NULL, NULL),
('0000000b', 'app', 'prod', NULL, 'devx', 'shop', 'broken', 'jo', 1767312000000, 1767312100000, NULL, NULL, NULL),
('0000000c', 'owner', NULL, 'squad@example.com', NULL, NULL, 'away', 'jo', 1767312000000, NULL, 1767312200000, 'al', 'back');
