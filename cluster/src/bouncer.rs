//! A pooler to throw away, before a cluster.

use std::{
    env, fs,
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    TRIES, free_port, fresh_directory,
    programs::{self, POOLER},
    tell,
    user::User,
};

/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the pooler when this process is gone, however it went: nobody can write to its input any more.
const KEEPER: &str = r#"
    "$1" --quiet "$2/pgbouncer.ini" & pooler=$!
    trap '' INT TERM HUP; cat; kill -TERM $pooler; wait; rm -rf "$2"
"#;

/// PgBouncer, in transaction mode unless it is told otherwise.
#[derive(Debug)]
pub struct Bouncer {
    url: String,
    keeper: Child,
}

impl Bouncer {
    /// A pooler before the server that a URL names; `settings` are lines for its configuration file.
    ///
    /// # Errors
    ///
    /// Says what is missing or failed.
    pub fn before(url: &str, settings: &[&str]) -> Result<Self, String> {
        let unreadable = || format!("`{url}` is not `postgres://user@host:port/database`");
        let (user, place) =
            url.strip_prefix("postgres://").and_then(|rest| rest.split_once('@')).ok_or_else(unreadable)?;
        let (server, database) = place.split_once('/').ok_or_else(unreadable)?;
        let (host, port) = server.rsplit_once(':').ok_or_else(unreadable)?;
        let mut last = String::new();
        for _ in 0..TRIES {
            let own = free_port().map_err(|error| format!("there is no free port: {error}"))?;
            let mut text = format!(
                "[databases]\n* = host={host} port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {own}\nunix_socket_dir =\nlogfile = log\nauth_type = trust\nauth_file = users.txt\n\
                 pool_mode = transaction\nmax_client_conn = 500\n"
            );
            text.extend(settings.iter().flat_map(|line| [line, "\n"]));
            match serve(&text, user, own) {
                Ok(keeper) => {
                    return Ok(Self { url: format!("postgres://{user}@127.0.0.1:{own}/{database}"), keeper });
                }
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// Where it is, with the user and the database of the server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The version of the program, such as `(1, 18)`.
    ///
    /// # Errors
    ///
    /// When it is missing or does not say.
    pub fn version() -> Result<(u32, u32), String> {
        let mut command = Command::new(programs::find(POOLER)?);
        let said = command.arg("--version").output().map_err(|error| format!("{command:?}: {error}"))?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let mut numbers = said.split([' ', '.', '\n']).filter_map(|word| word.parse().ok());
        numbers.next().zip(numbers.next()).ok_or_else(|| format!("`{said}` has no version"))
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        if let Err(error) = self.keeper.wait() {
            eprintln!("a pooler may be left behind: {error}");
        }
    }
}

fn serve(text: &str, user: &str, port: u16) -> Result<Child, String> {
    let directory = fresh_directory(&env::temp_dir())?;
    let write = |name: &str, text: &str| {
        let file: PathBuf = directory.join(name);
        fs::write(&file, text).map_err(|error| tell(&file, &error))
    };
    write("pgbouncer.ini", text)?;
    write("users.txt", &format!("\"{user}\" \"\"\n"))?;
    let run_as = User::to_run_as()?;
    let mut command = Command::new("sh");
    command
        .args(["-c", KEEPER, "keeper"])
        .arg(programs::find(POOLER)?)
        .arg(&directory)
        .current_dir(&directory);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(user) = &run_as {
        user.give(&directory)?;
        user.runs(&mut command);
    }
    let mut keeper = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > PATIENCE {
            let said = fs::read_to_string(directory.join("log")).unwrap_or_default();
            drop(keeper.stdin.take());
            return Err(format!("the pooler does not begin\n{said}"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(keeper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cluster;

    #[test]
    fn a_pooler_answers_until_it_is_dropped() {
        let cluster = Cluster::find().unwrap();
        let bouncer = Bouncer::before(cluster.url(), &[]).unwrap();
        let place = bouncer.url().split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
        TcpStream::connect(&place).unwrap();
        assert!(Bouncer::version().unwrap() >= (1, 0));
        drop(bouncer);
        assert!(TcpStream::connect(&place).is_err());
    }
}
