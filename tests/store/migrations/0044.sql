-- What was told of a rollout that is done, and of one that goes on and may have been told, as 0044 makes them.
INSERT INTO rollout_reports (rollout, sink, turn, claims, worker, due_at, done_at, begun_at, changed_at, told, told_at, notice,
     reference, unsure, doubted, failures, summary) VALUES
    ('r-20261121-054812123-000001', 'commit', 4, 4, NULL, 1795240600000, 1795240600000, 1795240000000, 1795240600000,
     'Success 2 of 2 targets', 1795240600000, NULL, NULL, 0, 0, 0, 'sent'),
    ('r-20261121-054812123-000001', 'channel', 4, 6, NULL, 1795240600000, 1795240600000, 1795240000000, 1795240600000,
     'done-2 00', 1795240600000, 'done-1795240600000', 'C01 1.0 1.0 deploys', 0, 0, 0, 'sent'),
    ('r-20261121-064812123-000001', 'commit', 2, 1, 'outbox', 1795243660000, NULL, 1795243600000, 1795243600000,
     NULL, NULL, NULL, NULL, 1, 0, 0, '');
INSERT INTO rollout_calls (repository, at, calls) VALUES ('acme/web', 1795240600000, 1);
