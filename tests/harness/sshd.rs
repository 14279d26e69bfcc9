//! A git server behind ssh on the loopback address: the real OpenSSH with a host key and a user's key
//! of its own, and the real git behind a forced command, as code hosts have it.
//!
//! Each connection is handed to an `sshd` of its own, so that connections are counted, can be cut, and
//! no port must be guessed. What a host does to one program of git's is the forced command's part.

use std::fs;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use secrecy::SecretString;
use tempfile::TempDir;

use crate::harness::folder;
use crate::harness::git::{Bare, hermetic};

/// How the host treats who comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Good,
    /// The key may read, and not write.
    ReadOnly,
    /// Takes a push, then cuts the connection before it answers.
    CutAfterPush,
    /// Cuts the connection in the middle of a push: git gets nothing of it.
    CutDuringPush,
    /// Cuts the connection in the middle of a pack that it sends.
    CutDuringFetch,
    /// Takes no push, in words that only a person understands.
    Suspended,
    /// The same in place of its branches, as git's protocol has it.
    Complains,
    /// Says nothing at all until it behaves otherwise.
    Silent,
}

pub(crate) struct SshHost {
    folder: TempDir,
    user: String,
    address: SocketAddr,
    /// Every connection so far.
    lines: Arc<Mutex<Vec<TcpStream>>>,
    open: Arc<AtomicUsize>,
    server: tokio::task::JoinHandle<()>,
}

/// Where Debian has it, which is not on everybody's path.
const SBIN: &str = "/usr/sbin";

impl SshHost {
    /// `None` where OpenSSH's server is not installed.
    #[expect(clippy::print_stderr, reason = "who reads the output must see what was left out")]
    pub(crate) async fn start() -> Option<Self> {
        let Some(sshd) = program("sshd").filter(|_| program("ssh-keygen").is_some()) else {
            let required = std::env::var("THE_DEPLOYER_TEST_REQUIRE_ALL").is_ok_and(|v| v == "1");
            assert!(!required, "sshd is not installed, and all tests are required");
            eprintln!("SKIPPED: tests over ssh, because sshd and ssh-keygen are not installed");
            return None;
        };
        let folder = folder::temporary();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let user = prepare(folder.path());
        let (lines, open) = (Arc::default(), Arc::default());
        let counted = (Arc::clone(&lines), Arc::clone(&open));
        let server = tokio::spawn(serve(listener, sshd, folder.path().to_owned(), counted));
        let host = Self { folder, user, address, lines, open, server };
        host.behave(Behaviour::Good);
        host.write_known_hosts("host.pub");
        Some(host)
    }

    /// Makes an empty repository on the host.
    pub(crate) fn create(&self, name: &str) -> Bare {
        Bare::create(&self.folder.path().join("root").join(name))
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("ssh://{}@{}/{name}", self.user, self.address)
    }

    /// The private key that is let in.
    pub(crate) fn key(&self) -> SecretString {
        fs::read_to_string(self.folder.path().join("key")).unwrap().into()
    }

    /// Puts it into a file, as an operator would.
    pub(crate) fn write_key(&self, file: &Path) {
        fs::copy(self.folder.path().join("key"), file).unwrap();
    }

    /// A private key that is not.
    pub(crate) fn other_key(&self) -> SecretString {
        fs::read_to_string(self.folder.path().join("host")).unwrap().into()
    }

    /// The file that names this host's key.
    pub(crate) fn known_hosts(&self) -> PathBuf {
        self.folder.path().join("known_hosts")
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        let path = self.folder.path().join("behaviour");
        fs::write(path, format!("{behaviour:?}")).unwrap();
    }

    /// From now on the key is one that nobody knows; connections that are open stay open.
    pub(crate) fn refuse_the_key(&self) {
        fs::write(self.folder.path().join("authorized_keys"), "").unwrap();
    }

    pub(crate) fn accept_the_key(&self) {
        let folder = self.folder.path();
        fs::copy(folder.join("key.pub"), folder.join("authorized_keys")).unwrap();
    }

    /// Whom the file of known hosts takes for this host: `host.pub`, `key.pub` as another one, or
    /// nobody.
    pub(crate) fn write_known_hosts(&self, public: &str) {
        let name = format!("[{}]:{}", self.address.ip(), self.address.port());
        let text = fs::read_to_string(self.folder.path().join(public)).unwrap_or_default();
        let line = if text.is_empty() { String::new() } else { format!("{name} {text}") };
        fs::write(self.known_hosts(), line).unwrap();
    }

    /// Cuts every connection, in the middle of whatever goes on.
    pub(crate) fn cut(&self) {
        for line in self.lines.lock().unwrap().iter() {
            let _gone_already = line.shutdown(Shutdown::Both);
        }
    }

    /// From now on nobody listens.
    pub(crate) async fn stop(&mut self) {
        self.server.abort();
        let _aborted = (&mut self.server).await;
        self.cut();
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.lines.lock().unwrap().len()
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// What was run since the last call: `git-receive-pack m.git`.
    pub(crate) fn commands(&self) -> Vec<String> {
        let path = self.folder.path().join("commands");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _nothing_was_run = fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }
}

/// Whoever keeps a connection open is told that it has ended.
impl Drop for SshHost {
    fn drop(&mut self) {
        self.server.abort();
        self.cut();
    }
}

async fn serve(
    listener: tokio::net::TcpListener,
    sshd: PathBuf,
    folder: PathBuf,
    (lines, open): (Arc<Mutex<Vec<TcpStream>>>, Arc<AtomicUsize>),
) {
    // With this task they are gone.
    let mut children = tokio::task::JoinSet::new();
    while let Ok((line, _)) = listener.accept().await {
        let line = line.into_std().unwrap();
        line.set_nonblocking(false).unwrap();
        line.set_nodelay(true).unwrap();
        let ours = line.try_clone().unwrap();
        lines.lock().unwrap().push(line.try_clone().unwrap());
        let mut command = tokio::process::Command::new(&sshd);
        command.arg("-i").arg("-f").arg(folder.join("sshd_config"));
        command.arg("-E").arg(folder.join("sshd.log"));
        command.env_clear().kill_on_drop(true);
        let input: std::os::fd::OwnedFd = line.try_clone().unwrap().into();
        let output: std::os::fd::OwnedFd = line.into();
        command.stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        drop(command);
        let open = Arc::clone(&open);
        open.fetch_add(1, Ordering::SeqCst);
        children.spawn(async move {
            child.wait().await.unwrap();
            open.fetch_sub(1, Ordering::SeqCst);
            // We hold it open, too.
            let _gone_already = ours.shutdown(Shutdown::Both);
        });
    }
}

/// Keys, settings and the forced command; the name of the user to come as, which is ours.
fn prepare(folder: &Path) -> String {
    for name in ["host", "key"] {
        let mut command = Command::new(program("ssh-keygen").unwrap());
        command.args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"]).arg(folder.join(name));
        assert!(command.env_clear().status().unwrap().success(), "ssh-keygen");
    }
    fs::copy(folder.join("key.pub"), folder.join("authorized_keys")).unwrap();
    fs::create_dir(folder.join("root")).unwrap();
    fs::write(folder.join("serve"), forced_command(folder)).unwrap();
    let place = folder.display();
    // Bash reads the user's own `.bashrc` where it is the first shell behind ssh: that is no part of a host.
    let settings = format!(
        "HostKey {place}/host\nAuthorizedKeysFile {place}/authorized_keys\nStrictModes no\n\
         UsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nForceCommand /bin/sh {place}/serve\nLogLevel VERBOSE\n\
         SetEnv SHLVL=1\n"
    );
    fs::write(folder.join("sshd_config"), settings).unwrap();
    let uid = fs::metadata(folder).unwrap().uid();
    if uid == 0 {
        // Where it locks itself up before anybody is let in.
        fs::create_dir_all("/run/sshd").unwrap();
    }
    user(uid)
}

/// What runs in place of what was asked for. A push whose answer is to be lost is done in two steps,
/// as over HTTP.
fn forced_command(folder: &Path) -> String {
    let settings: Vec<String> =
        hermetic().iter().map(|(name, value)| format!("export {name}='{value}'")).collect();
    let script = r#"
program=${SSH_ORIGINAL_COMMAND%% *}
name=${SSH_ORIGINAL_COMMAND#* }
name=${name#?}
name=${name%?}
name=${name#/}
echo "$program $name" >>"$folder/commands"
cd "$folder/root/$name" 2>/dev/null || {
  echo 'ERROR: Repository not found.' >&2
  exit 1
}
while grep -q Silent "$folder/behaviour"; do sleep 0.05; done
case "$program,$(cat "$folder/behaviour")" in
git-receive-pack,ReadOnly)
  echo 'ERROR: The key you are authenticating with has been marked as read only.' >&2
  exit 1
  ;;
git-receive-pack,Suspended)
  echo 'ERROR: closed for today' >&2
  exit 1
  ;;
git-receive-pack,Complains)
  printf '0019ERR closed for today\n'
  exit 128
  ;;
git-receive-pack,CutAfterPush)
  git receive-pack --http-backend-info-refs .
  git receive-pack --stateless-rpc . >/dev/null
  kill -9 $PPID
  ;;
git-receive-pack,CutDuringPush)
  git receive-pack --http-backend-info-refs .
  dd bs=1 count=100 status=none >/dev/null
  kill -9 $PPID
  ;;
git-upload-pack,CutDuringFetch)
  listed=$(git upload-pack --http-backend-info-refs . | wc -c)
  git upload-pack . | dd bs=1 count=$((listed + 50)) status=none
  kill -9 $PPID
  ;;
git-receive-pack,*) exec git receive-pack . ;;
git-upload-pack,*) exec git upload-pack . ;;
*)
  echo "no such program: $program" >&2
  exit 127
  ;;
esac
"#;
    format!("{}\nfolder='{}'\n{script}", settings.join("\n"), folder.display())
}

fn user(uid: u32) -> String {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let mut users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = users.find(|fields| fields.get(2) == Some(&&*uid.to_string()));
    found.expect("we are a user of this machine")[0].to_owned()
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from(SBIN)]);
    folders.map(|folder| folder.join(name)).find(|path| path.exists())
}
