-- An event that was sent, and one that waits, as 0051 keeps them.
INSERT INTO rollout_events (receiver, rollout, version, place, event, kind, body, at, due_at, attempts, failures, outcome,
     done_at, reason) VALUES
    ('warehouse', 'r-20261121-054812123-000001', 1, 0, 'r-20261121-054812123-000001-1', 'rollout.started', '',
     1795240000000, 1795240000000, 1, 0, 'sent', 1795240001000, NULL),
    ('warehouse', 'r-20261121-054812123-000001', 9, 0, 'r-20261121-054812123-000001-9', 'rollout.finished', '{}',
     1795240600000, 1795240600000, 0, 0, NULL, NULL, NULL);
