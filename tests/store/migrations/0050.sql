-- The answers of a gate, as 0050 keeps them.
INSERT INTO rollout_gate_answers (rollout, version, step, first_at, last_at, asked, result, value) VALUES
    ('r-20261121-054812123-000001', 3, 1, 1795240100000, 1795240160000, 5, 'not_passed', '0.07'),
    ('r-20261121-054812123-000001', 8, 1, 1795240175000, 1795240175000, 1, 'passed', '0.01');
