//! The real git, on bare repositories in temporary folders, deaf to the machine's configuration.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Every file of a tree, by path.
pub(crate) type Files = BTreeMap<String, String>;

/// Where git is: of a program that it need not look for, the standard library makes a process without a copy of this one,
/// whose memory is large.
static GIT: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join("git"));
    places.find(|place| place.is_file()).expect("git is not installed")
});

/// A git process without any configuration but the repository's own.
pub(crate) fn git(folder: &Path) -> Command {
    let mut command = Command::new(&*GIT);
    command.current_dir(folder).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs(hermetic());
    command
}

/// What keeps git from reading the machine's configuration, and makes its commits the same always.
pub(crate) fn hermetic() -> [(&'static str, &'static str); 9] {
    [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("HOME", "/nonexistent"),
        ("LC_ALL", "C"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_AUTHOR_NAME", "Somebody"),
        ("GIT_AUTHOR_EMAIL", "somebody@example.com"),
        ("GIT_COMMITTER_NAME", "Somebody"),
        ("GIT_COMMITTER_EMAIL", "somebody@example.com"),
    ]
}

/// A bare repository whose branch is `main`.
#[derive(Debug, Clone)]
pub(crate) struct Bare(pub(crate) PathBuf);

impl Bare {
    pub(crate) fn create(path: &Path) -> Self {
        fs::create_dir_all(path).unwrap();
        let bare = Self(path.to_owned());
        bare.run(&["init", "--quiet", "--bare", "--initial-branch=main", "."]);
        // Hosts tidy up at times of their own, not behind each push.
        let mut config = fs::OpenOptions::new().append(true).open(path.join("config")).unwrap();
        config.write_all(b"[receive]\n\tautogc = false\n").unwrap();
        bare
    }

    /// Runs git here; it must succeed.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, &[], "")
    }

    pub(crate) fn commits(&self) -> usize {
        self.try_run(&["rev-list", "--count", "main"]).map_or(0, |n| n.trim().parse().unwrap())
    }

    pub(crate) fn tip(&self) -> String {
        self.run(&["rev-parse", "main"]).trim().to_owned()
    }

    /// Every commit that `main` ever was at, where [`Bare::keep_reflog`] came first; oldest first.
    pub(crate) fn reflog(&self) -> Vec<String> {
        let log = fs::read_to_string(self.0.join("logs/refs/heads/main")).unwrap_or_default();
        let second = |line: &str| line.split(' ').nth(1).map(str::to_owned);
        log.lines().filter_map(second).collect()
    }

    /// From now on the repository notes where its branch was.
    pub(crate) fn keep_reflog(&self) {
        self.run(&["config", "core.logAllRefUpdates", "always"]);
    }

    pub(crate) fn message(&self) -> String {
        self.run(&["log", "-1", "--format=%B", "main"])
    }

    /// The values of a trailer of the last commit, as git itself understands trailers.
    pub(crate) fn trailer(&self, key: &str) -> Vec<String> {
        let format = format!("--format=%(trailers:key={key},valueonly)");
        let values = self.run(&["log", "-1", &format, "main"]);
        values.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The object id at `main:path`.
    pub(crate) fn object(&self, path: &str) -> String {
        self.run(&["rev-parse", &format!("main:{path}")]).trim().to_owned()
    }

    /// Every file on `main`, read by the real git.
    pub(crate) fn files(&self) -> Files {
        let Some(listing) = self.try_run(&["ls-tree", "-r", "main"]) else { return Files::new() };
        let entries: Vec<(&str, &str)> =
            listing.lines().map(|line| line.split_once('\t').unwrap()).collect();
        let ids: Vec<&str> = entries.iter().map(|(head, _)| &head[12..]).collect();
        let mut rest = &*self.run_with(&["cat-file", "--batch"], &[], &(ids.join("\n") + "\n"));
        let mut files = Files::new();
        for (_, path) in entries {
            let (head, tail) = rest.split_once('\n').unwrap();
            let size: usize = head.rsplit(' ').next().unwrap().parse().unwrap();
            files.insert(path.to_owned(), tail[..size].to_owned());
            rest = &tail[size + 1..];
        }
        files
    }

    /// Somebody else commits one file straight to `main`.
    pub(crate) fn somebody_writes(&self, path: &str, text: &str) {
        self.somebody_puts("100644", path, text);
    }

    /// The same with a mode: `120000` makes a symbolic link to `text`.
    pub(crate) fn somebody_puts(&self, mode: &str, path: &str, text: &str) {
        assert!(self.somebody_tries_to_put(mode, path, text), "the branch has moved meanwhile");
    }

    /// The same; false where somebody else moved the branch meanwhile, and nothing was written.
    pub(crate) fn somebody_tries_to_put(&self, mode: &str, path: &str, text: &str) -> bool {
        let index = self.0.join(format!("index-{}", uuid::Uuid::now_v7()));
        let env = [("GIT_INDEX_FILE", index.to_str().unwrap())];
        let parent = self.try_run(&["rev-parse", "--verify", "--quiet", "main"]);
        if parent.is_some() {
            self.run_with(&["read-tree", "main"], &env, "");
        }
        let blob = self.run_with(&["hash-object", "-w", "--stdin"], &[], text);
        let entry = format!("{mode},{},{path}", blob.trim());
        self.run_with(&["update-index", "--add", "--cacheinfo", &entry], &env, "");
        let tree = self.run_with(&["write-tree"], &env, "");
        let mut arguments = vec!["commit-tree", "-m", "somebody's", tree.trim()];
        arguments.extend(parent.iter().flat_map(|id| ["-p", id.trim()]));
        let commit = self.run(&arguments);
        let old = parent.as_deref().map_or("0000000000000000000000000000000000000000", str::trim);
        let moved = self.try_run(&["update-ref", "refs/heads/main", commit.trim(), old]);
        fs::remove_file(index).unwrap();
        moved.is_some()
    }

    /// Takes in a stream of `git fast-import`.
    pub(crate) fn import(&self, stream: &str) {
        self.run_with(&["fast-import", "--quiet"], &[], stream);
    }

    /// Installs a hook as a shell script.
    pub(crate) fn hook(&self, name: &str, script: &str) {
        let path = self.0.join("hooks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What must hold after every test.
    pub(crate) fn assert_sound(&self) {
        let report = self.run(&["fsck", "--strict", "--full"]);
        let bad: Vec<_> = report.lines().filter(|line| !line.starts_with("dangling")).collect();
        assert!(bad.is_empty(), "{report}");
    }

    fn try_run(&self, arguments: &[&str]) -> Option<String> {
        let output = git(&self.0).args(arguments).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    fn run_with(&self, arguments: &[&str], env: &[(&str, &str)], input: &str) -> String {
        let mut command = git(&self.0);
        command.args(arguments).envs(env.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}
