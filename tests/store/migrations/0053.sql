-- A person and a program that have signed in, as 0053 stores them.
INSERT INTO sessions (id, account, name, sealed, digest, began_at, seen_at, ends_at) VALUES
    ('5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9', 'github:octocat', 'octocat', '00ff', NULL,
     1795240000000, 1795240600000, 1795326400000),
    ('6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b', 'token:ci', 'ci', NULL,
     '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 1795240000000, 1795240600000, 1795326400000);
INSERT INTO cookie_keys (name, secret, made_at) VALUES
    ('cookies', '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff', 1795240000000);
