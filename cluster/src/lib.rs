//! A PostgreSQL cluster to throw away, for tests and measurements.
//!
//! It lives in a directory for temporary files, listens on the loopback address alone, trusts everybody there, has the
//! settings of a fresh cluster, and is gone when it is dropped.

mod bouncer;
mod programs;
mod user;

use std::{
    env, fs,
    io::{self, ErrorKind},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

pub use bouncer::Bouncer;
pub use programs::{find as program, install, install_package};
use user::User;

/// Names a cluster that is there already, as a URL: it is used in place of a fresh one.
pub const VARIABLE: &str = "WINDLASS_POSTGRES";

/// How often another free port is tried when somebody was quicker.
const TRIES: usize = 5;

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    url: String,
    /// `None` for one that somebody else looks after.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    directory: PathBuf,
    user: Option<User>,
    /// Ends the cluster when this process is gone, however it went.
    keeper: Option<Child>,
}

/// Waits until nobody can write to it any more, which is when this process has ended.
const KEEPER: &str =
    r#"trap '' INT TERM HUP; cat; "$1" stop -m immediate --silent --pgdata "$2/data"; rm -rf "$2""#;

impl Cluster {
    /// The cluster that [`VARIABLE`] names, or a fresh one.
    ///
    /// # Errors
    ///
    /// Says which program is missing or failed, and what it said.
    pub fn find() -> Result<Self, String> {
        match env::var(VARIABLE) {
            Ok(url) => Ok(Self { url, own: None }),
            Err(_) => Self::start(&[]),
        }
    }

    /// A fresh cluster; `settings` are lines for its configuration file.
    ///
    /// # Errors
    ///
    /// As for [`Cluster::find`].
    pub fn start(settings: &[&str]) -> Result<Self, String> {
        Self::start_in(&env::temp_dir(), settings)
    }

    /// A fresh cluster that has these files, by name and contents, in its data directory, where it alone can read them:
    /// keys and certificates, or a `pg_hba.conf` in place of the one that trusts everybody.
    ///
    /// # Errors
    ///
    /// As for [`Cluster::find`].
    pub fn start_with(settings: &[&str], files: &[(&str, &str)]) -> Result<Self, String> {
        Self::begin(&env::temp_dir(), settings, files)
    }

    /// A fresh cluster whose files lie in a directory of their own within `base`.
    ///
    /// # Errors
    ///
    /// As for [`Cluster::find`].
    pub fn start_in(base: &Path, settings: &[&str]) -> Result<Self, String> {
        Self::begin(base, settings, &[])
    }

    fn begin(base: &Path, settings: &[&str], files: &[(&str, &str)]) -> Result<Self, String> {
        let (directory, user) = (fresh_directory(base)?, User::to_run_as()?);
        let mut own = Own { directory, user, keeper: None };
        own.keep()?;
        own.create(settings)?;
        for (name, contents) in files {
            own.place(name, contents)?;
        }
        let port = own.serve()?;
        Ok(Self { url: format!("postgres://windlass@127.0.0.1:{port}/postgres"), own: Some(own) })
    }

    /// Where it is, with its only user and a database that is there.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops it and starts it again on the same port, as an operator would; `how` is `fast` or `immediate`. Only for one
    /// that was started here.
    ///
    /// # Errors
    ///
    /// When it does not stop or start, or is somebody else's.
    pub fn restart(&self, how: &str) -> Result<(), String> {
        self.stop(how)?;
        self.resume()
    }

    /// Stops it.
    ///
    /// # Errors
    ///
    /// As for [`Cluster::restart`].
    pub fn stop(&self, how: &str) -> Result<(), String> {
        self.own()?.stop(how)
    }

    /// Starts it again.
    ///
    /// # Errors
    ///
    /// As for [`Cluster::restart`].
    pub fn resume(&self) -> Result<(), String> {
        self.own()?.control(&["start"])
    }

    fn own(&self) -> Result<&Own, String> {
        self.own.as_ref().ok_or_else(|| "somebody else looks after this cluster".to_owned())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            if let Err(error) = keeper.wait() {
                eprintln!("{} may be left behind: {error}", self.directory.display());
            }
        }
    }
}

impl Own {
    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Sees to it that nothing is left behind.
    fn keep(&mut self) -> Result<(), String> {
        if let Some(user) = &self.user {
            user.give(&self.directory)?;
        }
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "keeper"]).arg(programs::find("pg_ctl")?).arg(&self.directory);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(user) = &self.user {
            user.runs(&mut command);
        }
        self.keeper = Some(command.spawn().map_err(|error| format!("{command:?}: {error}"))?);
        Ok(())
    }

    fn create(&self, settings: &[&str]) -> Result<(), String> {
        let mut initdb = self.command("initdb")?;
        initdb.args(["--username=windlass", "--auth=trust", "--encoding=UTF8", "--no-sync", "--pgdata"]);
        run(initdb.arg(self.data()))?;
        let file = self.data().join("postgresql.conf");
        let mut text = fs::read_to_string(&file).map_err(|error| tell(&file, &error))?;
        let place = self.directory.display();
        text.push_str(&format!("listen_addresses = '127.0.0.1'\nunix_socket_directories = '{place}'\n"));
        text.extend(settings.iter().flat_map(|line| [line, "\n"]));
        fs::write(&file, text).map_err(|error| tell(&file, &error))
    }

    /// Puts a file where the server alone can read it.
    fn place(&self, name: &str, contents: &str) -> Result<(), String> {
        let file = self.data().join(name);
        fs::write(&file, contents).map_err(|error| tell(&file, &error))?;
        #[cfg(unix)]
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .map_err(|error| tell(&file, &error))?;
        self.user.as_ref().map_or(Ok(()), |user| user.give(&file))
    }

    /// Starts it on a free port, which somebody else may take first.
    fn serve(&self) -> Result<u16, String> {
        let mut last = String::new();
        for _ in 0..TRIES {
            let port = free_port().map_err(|error| format!("there is no free port: {error}"))?;
            let auto = self.data().join("postgresql.auto.conf");
            fs::write(&auto, format!("port = {port}\n")).map_err(|error| tell(&auto, &error))?;
            match self.control(&["start"]) {
                Ok(()) => return Ok(port),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    fn stop(&self, how: &str) -> Result<(), String> {
        if self.data().join("postmaster.pid").exists() { self.control(&["stop", "-m", how]) } else { Ok(()) }
    }

    fn control(&self, arguments: &[&str]) -> Result<(), String> {
        let log = self.directory.join("log");
        let mut command = self.command("pg_ctl")?;
        command.args(arguments).arg("--wait").arg("--silent").arg("--pgdata").arg(self.data());
        run(command.arg("--log").arg(&log)).map_err(|why| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            format!("{why}\n{said}")
        })
    }

    fn command(&self, program: &str) -> Result<Command, String> {
        let mut command = Command::new(programs::find(program)?);
        command.current_dir(&self.directory).env_remove("PGDATA").stdin(Stdio::null());
        if let Some(user) = &self.user {
            user.runs(&mut command);
        }
        Ok(command)
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    // The server must not keep a pipe of ours open.
    let silent = command.get_args().any(|argument| argument == "start");
    if silent {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    Err(format!("{command:?} failed ({status})\n{stdout}{stderr}"))
}

fn fresh_directory(base: &Path) -> Result<PathBuf, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = base.join(format!("windlass-pg-{}-{number}", std::process::id()));
        match fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(tell(&directory, &error)),
        }
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn tell(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_cluster_answers_until_it_is_dropped_and_leaves_nothing() {
        let cluster = Cluster::start(&[]).unwrap();
        let place = cluster.url().split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
        let directory = cluster.own.as_ref().unwrap().directory.clone();
        TcpStream::connect(&place).unwrap();
        cluster.restart("immediate").unwrap();
        TcpStream::connect(&place).unwrap();
        drop(cluster);
        assert!(TcpStream::connect(&place).is_err());
        assert!(!directory.exists());
    }
}
