-- Whom messages to people are for, where that is not who asked; and a repository's own number at its
-- forge, which it keeps when it is renamed.
-- Portable: TEXT and BIGINT only.

-- None: who asked, by their login. Empty: nobody whom the forge knows. Else a login.
ALTER TABLE deployments ADD COLUMN recipient TEXT;
