-- Whom messages to people are for, where that is not who asked; and a repository's own number at its
-- forge, which it keeps when it is renamed.
-- Portable: TEXT and BIGINT only.

-- None: who asked, by their login. Empty: nobody whom the forge knows. Else a login.
ALTER TABLE deployments ADD COLUMN recipient TEXT;

CREATE TABLE repositories (
    number       BIGINT PRIMARY KEY,  -- the forge's, which a repository keeps when it is renamed
    name         TEXT NOT NULL,       -- as it was last heard of
    owner        BIGINT               -- the forge's number of its owner, where it is known
);
