//! Tasks that make entries in a table of the database, each in a transaction with its record.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::mpsc::UnboundedReceiver;
use windlass::{Engine, EngineBuilder, Workflow, prelude::*};

use crate::{
    child::{kill_at, wait_in_trap},
    program::say,
    role::{Boundary, Role},
    room::Room,
};

/// What the tasks know.
pub struct Book {
    /// The table.
    table: String,
    /// Who makes the entries.
    by: String,
    /// Set when the next body is to stand still with its entry made.
    trap: AtomicBool,
}

impl Book {
    fn add(&self) -> String {
        format!("INSERT INTO {} (run, step, made_by) VALUES ($1, $2, $3)", self.table)
    }

    fn pass_trap(&self) {
        if self.trap.swap(false, Ordering::SeqCst) {
            wait_in_trap();
        }
    }
}

#[cfg(feature = "postgres")]
#[workflow]
mod on_postgres {
    use windlass::postgres::Transaction;

    use super::*;

    #[task]
    pub async fn first(cx: &Cx, tx: &Transaction, book: Res<Book>) -> Result<u32> {
        tx.execute(&book.add(), &[&cx.run_id().to_string(), &"first", &book.by]).await?;
        book.pass_trap();
        Ok(1)
    }

    #[task]
    pub async fn second(first: u32, cx: &Cx, tx: &Transaction, book: Res<Book>) -> Result<u32> {
        tx.execute(&book.add(), &[&cx.run_id().to_string(), &"second", &book.by]).await?;
        Ok(first + 1)
    }
}

#[workflow]
mod on_sqlite {
    use windlass::sqlite::Transaction;

    use super::*;

    #[task]
    pub fn first(cx: &Cx, tx: &Transaction, book: Res<Book>) -> Result<u32> {
        tx.execute(&book.add(), [&cx.run_id().to_string(), "first", &book.by])?;
        book.pass_trap();
        Ok(1)
    }

    #[task]
    pub fn second(first: u32, cx: &Cx, tx: &Transaction, book: Res<Book>) -> Result<u32> {
        tx.execute(&book.add(), [&cx.run_id().to_string(), "second", &book.by])?;
        Ok(first + 1)
    }
}

pub fn workflow(room: &Room) -> Workflow<(), u32> {
    #[cfg(feature = "postgres")]
    if room.is_on_postgres() {
        return on_postgres::workflow();
    }
    assert!(room.url().starts_with("sqlite"), "a file");
    on_sqlite::workflow()
}

/// The application's table.
pub fn table(room: &Room) -> String {
    match room.url().split_once("schema=") {
        Some((_, schema)) => format!("{schema}_app.entry"),
        None => "entry".to_owned(),
    }
}

fn engine(role: &Role, room: &Room, builder: EngineBuilder) -> (EngineBuilder, Arc<Book>) {
    let book = Arc::new(Book { table: table(room), by: role.name.clone(), trap: AtomicBool::new(false) });
    let builder = builder
        .workflow(workflow(room))
        .shared(Arc::clone(&book))
        .heartbeat(role.heartbeat)
        .stale_after(role.stale_after);
    (builder, book)
}

/// Does what it is told.
pub async fn serve(role: &Role, room: &Room, mut orders: UnboundedReceiver<String>) {
    let (builder, book) = engine(role, room, Engine::over(room.store().await));
    let engine = builder.launch().await.expect("the engine launches");
    say("ready");
    while let Some(order) = orders.recv().await {
        match order.as_str() {
            "start" => {
                let run = engine.start(workflow(room), ()).await.expect("the run starts");
                say(&format!("started {}", run.id()));
            }
            "freeze in a body" => book.trap.store(true, Ordering::SeqCst),
            "stop" => break,
            other => panic!("`{other}` is no order"),
        }
    }
    engine.stop().await.expect("the engine stops");
}

/// Starts three runs, and sees them to their ends.
pub async fn enter_all(role: &Role, room: &Room, kill: Option<Boundary>) {
    let (builder, _) = engine(role, room, Engine::over(room.store_with(kill_at(kill)).await));
    let engine = builder.launch().await.expect("the engine launches");
    let mut runs = Vec::new();
    for number in 0..3 {
        let start = engine.start(workflow(room), ()).key(format!("run-{number}"));
        runs.push(start.await.expect("the run starts"));
    }
    for run in runs {
        assert_eq!(run.await.expect("the run completes"), 2);
    }
    engine.stop().await.expect("the engine stops");
}
