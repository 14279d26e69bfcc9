-- What somebody did on purpose.
INSERT INTO audit (id, at, name, via, address, request, act, target, namespace, slug, subject, reason, outcome) VALUES
('20260114-000000000-00000a', 1768348800000, 'jo', 'operator', NULL, NULL, 'lock', 'prod', 'devx', 'shop', 'lock 0000000a', 'the fair', 'placed');
