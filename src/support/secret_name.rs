//! Recognizes the names of secrets: `DB_PASSWORD`, `dbpass`, `GITHUB_PAT`, `client-secret`.
//!
//! It decides by the words of a name, so that `PATH`, `AUTHOR` and `PASS_RATE` are none. Pure.

/// Words in a secret's name, or the ends of such words: `PGPASSWORD`.
const NAMES: &[&str] = &[
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "PASSCODE",
    "SECRET",
    "TOKEN",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
    "PRIVATEKEY",
    "ACCESSKEY",
    "SECRETKEY",
    "SIGNINGKEY",
    "ENCRYPTIONKEY",
];
/// Words that count only as the last of several, or as the only one: `DB_PWD`.
const LAST_NAMES: &[&str] = &["PASS", "PWD", "PW", "PAT", "AUTH", "CREDS", "PSWD"];
/// The ends of a word after the owner of the secret: `dbpass`. `COMPASS` and `BYPASS` are other words.
const SHORT_NAMES: &[&str] = &["PASS", "PWD", "PW"];
/// The owners that a short name follows directly.
const HOLDERS: &[&str] = &[
    "ADMIN",
    "AMQP",
    "API",
    "APP",
    "DATABASE",
    "DB",
    "FTP",
    "KAFKA",
    "KEY",
    "KEYSTORE",
    "LDAP",
    "MAIL",
    "MARIADB",
    "MASTER",
    "MONGO",
    "MONGODB",
    "MY",
    "MYSQL",
    "PG",
    "POSTGRES",
    "POSTGRESQL",
    "PROXY",
    "RABBITMQ",
    "REDIS",
    "ROOT",
    "SMTP",
    "SQL",
    "SSH",
    "TRUSTSTORE",
    "USER",
];
/// The words before `KEY` that make it a secret: `API_KEY`. A `PUBLIC_KEY` and a `CACHE_KEY` are none.
const SECRET_KEYS: &[&str] = &[
    "ACCESS",
    "ACCOUNT",
    "API",
    "AUTH",
    "CONSUMER",
    "DECRYPTION",
    "DEPLOY",
    "ENCRYPTION",
    "HMAC",
    "JWT",
    "LICENSE",
    "MASTER",
    "PRIVATE",
    "SESSION",
    "SHARED",
    "SIGNING",
    "SSH",
    "SSL",
    "STORAGE",
    "TLS",
];
/// Last words of names that are about a secret, and not the secret: `TOKEN_URL`.
const ABOUT: &[&str] = &[
    "AGE",
    "ALG",
    "ALGORITHM",
    "ALLOWED",
    "ATTEMPTS",
    "AUDIENCE",
    "BACKEND",
    "BUCKET",
    "CLASS",
    "COLUMN",
    "COOKIE",
    "COUNT",
    "DAYS",
    "DIR",
    "DIRECTORY",
    "DISABLED",
    "DURATION",
    "ENABLED",
    "ENCODER",
    "ENDPOINT",
    "ENGINE",
    "EXPIRATION",
    "EXPIRES",
    "EXPIRY",
    "FIELD",
    "FILE",
    "FOLDER",
    "FORMAT",
    "HASHER",
    "HEADER",
    "HOST",
    "HOURS",
    "ID",
    "INTERVAL",
    "ISSUER",
    "LENGTH",
    "LIFETIME",
    "LIMIT",
    "MAX",
    "METHOD",
    "MIN",
    "MINUTES",
    "MODE",
    "MS",
    "NAME",
    "PATH",
    "PERIOD",
    "POLICIES",
    "POLICY",
    "PORT",
    "PREFIX",
    "PROVIDER",
    "REF",
    "REGION",
    "REQUIRED",
    "RETRIES",
    "ROTATION",
    "SCOPE",
    "SCOPES",
    "SECONDS",
    "SIZE",
    "STORE",
    "STRATEGY",
    "SUFFIX",
    "TIMEOUT",
    "TTL",
    "TYPE",
    "URI",
    "URL",
    "USES",
    "VERSION",
];

/// Returns whether a variable or a key has the name of a secret.
pub fn is_secret_name(name: &str) -> bool {
    // The longest name that is checked, in bytes: a value may stand in the place of a name.
    const LONGEST: usize = 256;
    // `PWD` alone is a shell's folder, and `auth` a part of many configurations.
    if name.len() > LONGEST || matches!(name, "PWD" | "auth" | "Auth") {
        return false;
    }
    let words = words_of(name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(last) = words.last() else { return false };
    let is_name = |word: &&str| NAMES.iter().any(|name| word.ends_with(name));
    let is_key = |pair: &[&str]| matches!(pair, [kind, "KEY"] if SECRET_KEYS.contains(kind));
    let is_short = |word: &str| {
        let holder = SHORT_NAMES.iter().find_map(|name| word.strip_suffix(name));
        holder.is_some_and(|holder| HOLDERS.contains(&holder))
    };
    // `MAX_TOKENS` counts them.
    let is_list = last.ends_with("TOKENS") && !words.iter().any(|word| word.starts_with("MAX"));
    let is_secret = LAST_NAMES.contains(last)
        || is_list
        || is_short(last)
        || words.iter().any(is_name)
        || words.windows(2).any(is_key);
    is_secret && !ABOUT.contains(last)
}

/// Splits a name into its words, in capitals: `dbPassword`, `DB_PASSWORD` and `db-password` have
/// the same.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut signs = name.chars().peekable();
    let mut before = ' ';
    while let Some(c) = signs.next() {
        let is_next_small = signs.peek().is_some_and(char::is_ascii_lowercase);
        let is_begin = c.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && is_next_small));
        let is_between = matches!(c, '_' | '-' | '.' | ' ' | '/');
        if is_begin || is_between {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| !is_between) {
            word.push(c.to_ascii_uppercase());
        }
        before = c;
    }
    // `PASSWORD1` and `PASSWORD_2` are passwords.
    for word in &mut words {
        word.truncate(word.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way of writing them.
    #[test]
    fn names_of_secrets_are_known() {
        for name in [
            "DB_PASSWORD",
            "dbPassword",
            "DBPassword",
            "REDIS_PASS",
            "redisPass",
            "mysqlPwd",
            "pgpassword",
            "authToken",
            "apiKey",
            "private-key",
            "signingKey",
            "pass",
            "PGPASSWORD",
            "MYSQL_ROOT_PASSWORD",
            "PASSPHRASE",
            "SSH_KEY_PASSPHRASE",
            "DB_PWD",
            "dbpwd",
            "DB_PASS",
            "dbpass",
            "DBPASS",
            "userpass",
            "DB_PW",
            "GITHUB_PAT",
            "githubPat",
            "SSH_KEY",
            "SSH_PRIVATE_KEY",
            "AUTH",
            "REDIS_AUTH",
            "basic-auth",
            "AUTHTOKEN",
            "AUTH_TOKEN",
            "CREDENTIALS",
            "AWS_CREDS",
            "API_KEY",
            "api-key",
            "APIKEY",
            "STRIPE_API_KEY",
            "PRIVATE_KEY",
            "SIGNING_KEY",
            "JWT_KEY",
            "ENCRYPTION_KEY",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "awsSecretAccessKey",
            "SECRET_KEY_BASE",
            "CLIENT_SECRET",
            "SECRET",
            "password",
            "example.com/db-password",
            "API_TOKENS",
            "authTokens",
            "PASSWORD1",
            "pw2",
            "API_KEY_2",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn names_of_other_things_are_not() {
        for name in [
            "",
            "PWD",
            "OLDPWD",
            "PATH",
            "PATTERN",
            "COMPAT",
            "AUTHOR",
            "AUTHORITY",
            "AUTH_URL",
            "AUTH_PROVIDER",
            "auth",
            "OAUTH",
            "OAUTH2",
            "KEYBOARD",
            "KEY",
            "MONKEY",
            "CACHE_KEY",
            "PARTITION_KEY",
            "PUBLIC_KEY",
            "JWT_PUBLIC_KEY",
            "API_KEY_ID",
            "AWS_ACCESS_KEY_ID",
            "PASSIVE",
            "PASS_RATE",
            "PASSENGER",
            "COMPASS",
            "BYPASS",
            "passThrough",
            "TOKEN_URL",
            "tokenUrl",
            "passwordFile",
            "TOKEN_TTL_SECONDS",
            "TOKEN_EXPIRES",
            "MAX_TOKENS",
            "MAX_NEW_TOKENS",
            "TOKENS_PER_MINUTE",
            "PASSWORD_HASHER",
            "PASSWORD_ENCODER",
            "TOKEN_SIGNING_ALG",
            "VAULT_SECRET_ENGINE",
            "SECRET_STORE",
            "SECRETS_BACKEND",
            "TOKEN_COOKIE",
            "TOKEN_BUCKET",
            "tokenPeriod",
            "tokenPolicies",
            "TOKEN_NUM_USES",
            "TOKENIZER",
            "PASSWORD_FILE",
            "PASSWORD_MIN_LENGTH",
            "PASSWORD_POLICY",
            "SECRETARY",
            "secretName",
            "imagePullSecrets",
            "WEBHOOK_URL",
            "NAME",
            "WPW_MODE",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
