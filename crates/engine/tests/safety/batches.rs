//! A batch and two processes, of which one is killed again and again.

use std::time::Duration;

use windlass::{Client, batch::Leftover};

use crate::{
    child::Child,
    eventually::{PATIENCE, eventually_async},
    graph::gather,
    role::{Part, Role},
    room::Room,
    three_processes::LEASE,
};

on_both!(each_item_is_in_one_run_while_processes_are_killed);

const ITEMS: u32 = 1_500;

fn serving(name: &str, room: &Room) -> Child {
    Child::ready(Role::new(name, room, Part::Serve).lease(Duration::from_millis(500), LEASE))
}

async fn taken(client: &Client) -> u64 {
    let batch = client.batches().get::<u32>("gather").await.expect("it is there");
    batch.status().await.expect("it can be asked").items
}

async fn each_item_is_in_one_run_while_processes_are_killed(room: Room) {
    let _sound = serving("sound", &room);
    let mut killed = serving("killed-0", &room);
    let client = room.client().await;
    client.batch("gather", gather()).size(20).age(Duration::from_millis(50)).await.expect("it is declared");
    let batch = client.batches().get("gather").await.expect("it is there");
    for item in 0..ITEMS {
        batch.add(item).await.expect("it is added");
        if item % 300 == 299 {
            killed.kill();
            killed = serving(&format!("killed-{item}"), &room);
        }
    }
    batch.remove(Leftover::Start).await.expect("it is removed");
    client.batch("gather", gather()).await.expect("it is declared again");
    eventually_async("all items go", PATIENCE * 2, || async { taken(&client).await >= u64::from(ITEMS) })
        .await;
    let mut items = Vec::new();
    for run in client.runs().workflow("gather").limit(5_000).list().await.expect("runs can be found") {
        items.extend(client.run(&gather(), run.id).await.expect("it completes"));
    }
    items.sort_unstable();
    assert_eq!(items, (0..ITEMS).collect::<Vec<_>>(), "each item is in one run");
}
