-- A canary that was held back, of a deployment as 0036 stores them.
INSERT INTO canary_samples (deployment, number, workload, at, phase, weight, failed_checks, threshold, reason) VALUES
    ('20260102-000000036-000036', 1, 'Deployment devx/of-0036', 1767312110000, 'Progressing', 10, 0, 3, NULL),
    ('20260102-000000036-000036', 2, 'Deployment devx/of-0036', 1767312120000, 'Progressing', 10, 1, 3, 'success rate 61.39% < 99%');
