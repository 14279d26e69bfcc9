-- What somebody had changed by hand in an app's `latest`, found when the deployment was about to
-- replace it; none where nobody had.
-- Portable: TEXT only; it is a JSON text.

ALTER TABLE deployments ADD COLUMN hand_edit TEXT;
