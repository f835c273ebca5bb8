//! Another process of this program, which plays a part of a measurement.

use std::{env, io, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::Result;

/// The variable that makes this program play a part; its value is the part's name and what it needs to know.
pub(crate) const PART: &str = "WINDLASS_BENCH_PART";

/// How long to wait for a word.
const PATIENCE: Duration = Duration::from_secs(600);

/// The other process, as the one that started it sees it. It ends when the value is dropped.
pub(crate) struct Other {
    child: Child,
    ear: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Starts it.
    pub(crate) fn start(part: &str) -> Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (ear, mouth) =
            child.stdin.take().zip(child.stdout.take()).ok_or("the other process has no pipes")?;
        Ok(Self { child, ear, said: BufReader::new(mouth).lines() })
    }

    /// Tells it something.
    pub(crate) async fn say(&mut self, word: &str) -> Result<()> {
        Ok(self.ear.write_all(format!("{word}\n").as_bytes()).await?)
    }

    /// The next thing that it says.
    pub(crate) async fn hear(&mut self) -> Result<String> {
        let heard = tokio::time::timeout(PATIENCE, self.said.next_line())
            .await
            .map_err(|_| format!("the other process has said nothing for {} s", PATIENCE.as_secs()))?;
        heard?.ok_or_else(|| "the other process ended by itself; what it said above tells why".into())
    }

    /// Waits until it says this.
    pub(crate) async fn expect(&mut self, word: &str) -> Result<()> {
        let heard = self.hear().await?;
        if heard == word {
            Ok(())
        } else {
            Err(format!("the other process said `{heard}`, not `{word}`").into())
        }
    }

    /// Asks it for a figure.
    pub(crate) async fn ask(&mut self, what: &str) -> Result<f64> {
        self.say(what).await?;
        Ok(self.hear().await?.parse()?)
    }

    /// Kills it, as nothing else ends a process at once.
    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Lets it end by itself: nothing will be said to it any more.
    pub(crate) async fn leave(mut self) -> Result<()> {
        drop(self.ear);
        let status = tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .map_err(|_| format!("the other process goes on after {} s", PATIENCE.as_secs()))??;
        if status.success() { Ok(()) } else { Err(format!("the other process ended with {status}").into()) }
    }
}

/// In the other process: the next word, or nothing when there will be none.
pub(crate) async fn word() -> Result<Option<String>> {
    let read = || io::stdin().lines().next().transpose();
    Ok(tokio::task::spawn_blocking(read).await??)
}
