-- Since when the manifest repository has refused a deployment, without a break: a refusal is believed
-- after some minutes. None: the last attempt was not refused.

ALTER TABLE deployments ADD COLUMN refused_since BIGINT;
