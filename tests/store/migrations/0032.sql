-- What a deployment in the middle of its push claims, and what one claimed that has come to its end.
INSERT INTO object_claims (deployment, target, namespace, slug, api_group, kind, name, claimed_at) VALUES
('20260101-000000005-000005', 'prod', 'devx', 'mail', '', 'Service', 'mail', 1767225641000),
('20260101-000000005-000005', 'prod', 'devx', 'mail', 'apps', 'Deployment', 'mail', 1767225641000),
('20260101-000000001-000001', 'prod', 'devx', 'shop', '', 'Service', 'shop', 1767225601000);
