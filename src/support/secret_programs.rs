//! The programs that take a secret after a short flag: `mysql -px`, `curl -u me:x`. Pure.

/// A program that takes a secret after a flag whose name does not show it.
pub(super) struct Program {
    /// The beginning of its name.
    name: &'static str,
    flags: &'static [&'static str],
    /// True if the value may be the next argument, and not only the rest of this one.
    apart: bool,
    /// True if the secret is only the text after the first colon: `me:x`.
    behind_colon: bool,
}

/// The programs, from their manuals.
const PROGRAMS: &[Program] = &[
    // After a blank it is the name of a database.
    Program { name: "mysql", flags: &["-p"], apart: false, behind_colon: false },
    Program { name: "mariadb", flags: &["-p"], apart: false, behind_colon: false },
    Program { name: "sshpass", flags: &["-p"], apart: true, behind_colon: false },
    Program { name: "mongo", flags: &["-p"], apart: true, behind_colon: false },
    Program { name: "redis-cli", flags: &["-a"], apart: true, behind_colon: false },
    Program { name: "ldap", flags: &["-w"], apart: true, behind_colon: false },
    Program { name: "sqlcmd", flags: &["-P"], apart: true, behind_colon: false },
    Program {
        name: "curl",
        flags: &["-u", "-U", "--user", "--proxy-user"],
        apart: true,
        behind_colon: true,
    },
];

impl Program {
    /// Finds the program that a word of a command runs.
    pub(super) fn of(word: &str) -> Option<&'static Self> {
        let name = word.rsplit('/').next().unwrap_or_default();
        PROGRAMS.iter().find(|program| name.starts_with(program.name))
    }

    /// Returns whether both are one program.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Finds the secret in an argument, or in the next one.
    pub(super) fn secret<'a>(&self, argument: &'a str, next: Option<&'a str>) -> Option<&'a str> {
        next.and_then(|next| self.apart(argument, next)).or_else(|| self.glued(argument))
    }

    /// Finds the secret in the argument after a flag.
    pub(super) fn apart<'a>(&self, flag: &str, value: &'a str) -> Option<&'a str> {
        let takes = self.apart && self.flags.contains(&flag.trim());
        self.part_of(value).filter(|_| takes && !value.starts_with('-'))
    }

    /// Finds the secret after a flag in the same argument.
    pub(super) fn glued<'a>(&self, argument: &'a str) -> Option<&'a str> {
        let mut short = self.flags.iter().filter(|flag| flag.len() == 2);
        let value = short.find_map(|flag| argument.strip_prefix(flag))?;
        self.part_of(value).filter(|value| !value.is_empty())
    }

    fn part_of<'a>(&self, value: &'a str) -> Option<&'a str> {
        if !self.behind_colon {
            return Some(value);
        }
        value.split_once(':').map(|(_user, secret)| secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_means_what_the_program_says() {
        let secret = |program: &str, argument, next| Program::of(program)?.secret(argument, next);
        assert_eq!(secret("/usr/bin/mysqldump", "-phunter2", None), Some("hunter2"));
        assert_eq!(secret("mysql", "-p", Some("shop")), None, "the name of a database");
        assert_eq!(secret("sshpass", "-p", Some("hunter2")), Some("hunter2"));
        assert_eq!(secret("curl", "-u", Some("me:hunter2")), Some("hunter2"));
        assert_eq!(secret("curl", "-ume:hunter2", None), Some("hunter2"));
        assert_eq!(secret("curl", "--user-agent", Some("a:b")), None);
        assert_eq!(secret("curl", "-u", Some("me")), None);
        assert_eq!(secret("redis-cli", "-a", Some("-h")), None);
        assert_eq!(secret("cp", "-p", Some("a")), None);
    }
}
