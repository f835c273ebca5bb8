//! A list that is shorter when it is made again.

use windlass::{TaskState, prelude::*, testing::Lab};

use crate::{Tally, secs};

#[workflow]
mod trip {
    use super::*;

    /// Three rooms, and then one.
    #[task]
    pub async fn list(cx: &Cx, tally: Res<Tally>) -> Result<Vec<u32>> {
        tally.add("list");
        Ok(if cx.key().ends_with("list") { vec![1, 2, 3] } else { vec![1] })
    }

    #[undo(list)]
    pub async fn forget() -> Result<()> {
        Ok(())
    }

    #[task(for_each = list)]
    pub async fn room(item: u32, context: &mut Context) -> Result<u32> {
        context.set(format!("room {item}"), item)?;
        Ok(item)
    }

    #[undo(room)]
    pub async fn cancel(room: u32, tally: Res<Tally>) -> Result<()> {
        tally.add(format!("no room {room}"));
        Ok(())
    }

    #[task(retry(attempts = 1))]
    pub async fn end(room: &[u32], context: &Context, tally: Res<Tally>) -> Result<()> {
        let kept = (1..=3).filter(|number| context.contains(&format!("room {number}"))).count();
        tally.add(format!("{} rooms, {kept} kept", room.len()));
        tokio::time::sleep(secs(10)).await;
        Err("no seats".into())
    }
}

/// An element whose undo has failed is still there when its run is retried, and the list has it no more.
async fn shorten(lab: Lab, crashes: bool) -> Result<()> {
    let tally = Tally::default();
    let launch = || lab.engine().resource(tally.clone()).workflow(trip::workflow()).launch();
    let mut engine = launch().await?;
    let id = engine.start(trip::workflow(), ()).await?.id();
    let mut run = engine.run(&trip::workflow(), id);
    lab.fail("room[2]/undo", 1.., "the hotel is closed");
    assert!((&mut run).await.is_err());
    assert_eq!(run.status().await?.task("room").unwrap().undo, Some(TaskState::Failed));
    lab.forgive();
    run.retry().await?;
    lab.advance(secs(1)).await;
    if crashes {
        lab.crash(&engine);
        engine = launch().await?;
        run = engine.run(&trip::workflow(), id);
    }
    assert!((&mut run).await.is_err());
    let done = tally.all();
    let ends: Vec<&String> = done.iter().filter(|what| what.contains("kept")).collect();
    assert_eq!(ends.first().map(|end| end.as_str()), Some("3 rooms, 3 kept"));
    assert_eq!(ends.last().map(|end| end.as_str()), Some("1 rooms, 1 kept"));
    let undone: Vec<&String> = done.iter().filter(|what| what.starts_with("no")).collect();
    assert_eq!(undone, ["no room 2", "no room 1", "no room 1", "no room 3"]);
    Ok(())
}

#[windlass::test]
async fn a_completed_element_that_the_list_has_no_more_is_undone_all_the_same(lab: Lab) -> Result<()> {
    shorten(lab, false).await
}

#[windlass::test]
async fn it_is_undone_by_another_process_too(lab: Lab) -> Result<()> {
    shorten(lab, true).await
}
