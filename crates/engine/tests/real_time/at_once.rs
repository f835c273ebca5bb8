//! Commits on the threads of those who ask for them: which threads these are, and for how long.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread::{self, ThreadId},
};

use windlass::{Client, Compressed, prelude::*};
use windlass_sqlite::{CommitMoment, SqliteOptions};

/// How many transactions each thread has committed.
#[derive(Clone, Default)]
struct Threads(Arc<Mutex<HashMap<ThreadId, usize>>>);

impl Threads {
    fn count(&self) {
        *self.0.lock().unwrap().entry(thread::current().id()).or_default() += 1;
    }

    /// How many this thread has committed.
    fn here(&self) -> usize {
        self.0.lock().unwrap().get(&thread::current().id()).copied().unwrap_or_default()
    }
}

/// A client, with nobody else at its database.
async fn connect(after: impl Fn() + Send + Sync + 'static) -> Result<Client> {
    let hook = move |moment| {
        if matches!(moment, CommitMoment::After(_)) {
            after();
        }
    };
    let store = SqliteOptions::new().on_commit(hook).open("sqlite::memory:").await.unwrap();
    Ok(Client::over(Arc::new(store), Arc::new(Compressed::default())).await?)
}

fn start(client: &Client) -> Pin<Box<dyn Future<Output = bool> + Send>> {
    let start = client.start_by_name("plain", serde_json::Value::Null);
    Box::pin(async move { start.await.is_ok() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_thread_of_a_runtime_never_waits_for_a_disk() -> Result<()> {
    let threads = Threads::default();
    let client = connect({
        let threads = threads.clone();
        move || threads.count()
    })
    .await?;
    let caller = thread::spawn({
        let (client, threads) = (client.clone(), threads.clone());
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for _ in 0..100 {
                    assert!(start(&client).await);
                }
            });
            threads.here()
        }
    });
    let commits = tokio::task::spawn_blocking(move || caller.join().unwrap()).await?;
    assert_eq!(commits, 0, "it waited for them");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_start_runs_on_one_thread_share_their_commits() -> Result<()> {
    let threads = Threads::default();
    let client = connect({
        let threads = threads.clone();
        move || threads.count()
    })
    .await?;
    for _ in 0..20 {
        assert!(start(&client).await);
    }
    let mut starts: Vec<_> = (0..200).map(|_| start(&client)).collect();
    // All of them on one thread, one after the other.
    let commits = poll_fn(|cx| {
        let before = threads.here();
        starts.retain_mut(|start| start.as_mut().poll(cx).is_pending());
        Poll::Ready(threads.here() - before)
    })
    .await;
    assert!(commits <= 1, "the thread waited for {commits} commits in a row");
    for start in starts {
        assert!(start.await);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_commits_its_own_does_not_stay_to_commit_what_others_hand_in() -> Result<()> {
    let (threads, on) = (Threads::default(), Arc::new(AtomicBool::new(false)));
    let (ask, asked) = mpsc::channel();
    let is_over = ask.clone();
    let (tell, told) = mpsc::channel();
    let caller = Arc::new(Mutex::new(None));
    let client = connect({
        let (threads, on, caller, told) =
            (threads.clone(), Arc::clone(&on), Arc::clone(&caller), Mutex::new(told));
        move || {
            threads.count();
            let is_caller = *caller.lock().unwrap() == Some(thread::current().id());
            if is_caller && on.load(Ordering::SeqCst) && threads.here() < 200 {
                // Before this commit is over, somebody else wants another.
                ask.send(true).unwrap();
                told.lock().unwrap().recv().unwrap();
            }
        }
    })
    .await?;
    let runtime = tokio::runtime::Handle::current();
    let other = thread::spawn({
        let (client, runtime) = (client.clone(), runtime.clone());
        move || {
            let _runtime = runtime.enter();
            let mut starts = Vec::new();
            while asked.recv().unwrap() {
                let mut start = start(&client);
                if start.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                    starts.push(start);
                }
                tell.send(()).unwrap();
            }
            starts.into_iter().all(|start| runtime.block_on(start))
        }
    });
    let calling = thread::spawn({
        let (client, threads) = (client.clone(), threads.clone());
        move || {
            let _runtime = runtime.enter();
            *caller.lock().unwrap() = Some(thread::current().id());
            let mut most = 0;
            for _ in 0..20 {
                // Until nothing is on its way and the store is found quick.
                for _ in 0..20 {
                    assert!(runtime.block_on(start(&client)));
                }
                on.store(true, Ordering::SeqCst);
                let (before, mut start) = (threads.here(), start(&client));
                let poll = start.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                most = most.max(threads.here() - before);
                on.store(false, Ordering::SeqCst);
                assert!(poll.is_ready() || runtime.block_on(start));
            }
            most
        }
    });
    let commits = tokio::task::spawn_blocking(move || calling.join().unwrap()).await?;
    assert!(commits <= 1, "one call waited for {commits} commits");
    is_over.send(false).unwrap();
    tokio::task::spawn_blocking(move || assert!(other.join().unwrap())).await?;
    Ok(())
}
