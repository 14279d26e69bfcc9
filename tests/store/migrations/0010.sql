-- A sweep that stopped on its way, and what it has looked at.
INSERT INTO sweeps (name, since, position, holder, lease_end, due_at, not_before) VALUES
('deployments', 1767225600000, 'acme/cart', 'dead', 1767312000000, 1767312000000, 0);
INSERT INTO swept (sweep, item, outcome, at) VALUES ('deployments', 'acme/cart 4', 'answered', 1767312000000);
