//! Looking at a database and steering what is in it, without the code of the workflows.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use windlass::{Mark, RunId, RunState, Update, prelude::*, testing::Lab};

#[workflow]
mod letters {
    use super::*;

    #[task]
    pub async fn write(input: String) -> Result<String> {
        Ok(input)
    }

    #[task]
    pub async fn post(write: &str) -> Result<usize> {
        Ok(write.len())
    }
}

const APPROVED: Event<String> = Event::new("approved");

#[flow]
async fn approval(cx: &Flow, _order: u32) -> Result<String> {
    cx.event(APPROVED).await
}

#[windlass::test]
async fn a_run_is_found_by_its_id_alone(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(letters::workflow()).launch().await?;
    let others = [engine.start(letters::workflow(), "a".to_owned()).await?, {
        engine.start(letters::workflow(), "b".to_owned()).await?
    }];
    let run = engine.start(letters::workflow(), "hello".to_owned()).key("k").tag("eu").await?;
    engine.start(letters::workflow(), "c".to_owned()).await?;
    let found = engine.find_run(run.id()).await?;
    assert_eq!((found.id(), found.workflow()), (run.id(), "letters"));
    assert_eq!(found.await?, json!(5));
    let status = run.status().await?;
    assert_eq!(
        (status.key.as_deref(), status.tags, &*status.queue),
        (Some("k"), vec!["eu".into()], "default")
    );
    assert_eq!(status.definition.map(|known| known.tasks.len()), Some(2));
    assert_ne!(others[0].id(), others[1].id());
    Ok(())
}

#[windlass::test]
async fn a_run_that_is_not_there_is_not_found_in_its_neighbour(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(letters::workflow()).launch().await?;
    let run = engine.start(letters::workflow(), "hello".to_owned()).await?;
    let next = u128::from_be_bytes(*run.id().as_bytes()) + 1;
    for id in [RunId::from_bytes(next.to_be_bytes()), RunId::LAST, RunId::from_bytes([0; 16])] {
        assert_eq!(engine.find_run(id).await.unwrap_err().code(), "unknown_run");
    }
    Ok(())
}

#[cfg(feature = "schedule")]
#[windlass::test]
async fn workflows_of_the_engines_own_are_not_listed(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(letters::workflow()).launch().await?;
    let declared = engine.schedule("nightly").manual().workflow(letters::workflow(), "x".to_owned());
    declared.await?;
    let known = engine.workflows().list().await?;
    assert_eq!(known.iter().map(|known| known.name()).collect::<Vec<_>>(), ["letters"]);
    assert!(engine.workflows().versions("windlass.schedule", 10).await?.is_empty());
    Ok(())
}

#[windlass::test]
async fn the_workflows_of_a_database_are_known_without_their_code(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(letters::workflow()).workflow(approval::workflow()).launch().await?;
    let known = engine.workflows().list().await?;
    assert_eq!(known.iter().map(|known| known.name()).collect::<Vec<_>>(), ["approval", "letters"]);
    assert_eq!(known[1].version(), letters::workflow().version());
    assert_eq!(known[1].to_mermaid(), letters::workflow().to_mermaid());
    assert_eq!(known[1].to_dot(), letters::workflow().to_dot());
    assert_eq!(known[1].to_json(), letters::workflow().to_json());
    let error = engine.workflows().get("leters").await.unwrap_err();
    assert!(error.to_string().contains("did you mean `letters`?"), "{error}");
    Ok(())
}

#[windlass::test]
async fn the_versions_of_a_workflow_are_listed_newest_first(lab: Lab) -> Result<()> {
    let version = |version: &str| {
        let task = Task::new("only", |_: TaskCx| async { Ok::<_, Failure>(json!(1)) });
        Workflow::builder("grown").version(version).task(task).build().unwrap()
    };
    lab.engine().workflow(version("one")).launch().await?.stop().await?;
    let engine = lab.engine().workflow(version("two")).launch().await?;
    let versions = engine.workflows().versions("grown", 10).await?;
    assert_eq!(versions.iter().map(|known| known.version()).collect::<Vec<_>>(), ["two", "one"]);
    assert!(versions[0].id > versions[1].id);
    assert_eq!(engine.workflows().get("grown").await?.version(), "two");
    assert_eq!(engine.workflows().versions("grown", 1).await?.len(), 1);
    Ok(())
}

#[windlass::test]
async fn an_event_is_sent_by_its_name_with_json(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(approval::workflow()).launch().await?;
    let run = engine.start(approval::workflow(), 1).await?;
    let found = engine.find_run(run.id()).await?;
    found.send_by_name("approved", &json!("by Ann")).await?;
    assert_eq!(run.await?, "by Ann");
    let refused = found.send_by_name("!order", &Value::Null).await.unwrap_err();
    assert_eq!(refused.code(), "event_name");
    Ok(())
}

/// The steps that a watcher sees, with their marks, until the run ends.
async fn seen(mut watch: windlass::Watch) -> Result<Vec<(Arc<str>, Mark)>> {
    let mut steps = Vec::new();
    while let Some(update) = watch.next().await {
        match update? {
            Update::Step { name, mark, .. } => steps.push((name, mark)),
            Update::Ended { state, .. } => assert_eq!(state, RunState::Completed),
            _ => {}
        }
    }
    Ok(steps)
}

#[windlass::test]
async fn a_watcher_who_was_cut_off_goes_on_after_what_it_saw(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(letters::workflow()).launch().await?;
    let run = engine.start(letters::workflow(), "hello".to_owned()).await?;
    lab.advance(Duration::from_secs(1)).await;
    let all = seen(run.watch()).await?;
    assert_eq!(all.len(), 2);
    assert_eq!(seen(run.watch_after(all[0].1)).await?, all[1..]);
    assert_eq!(seen(run.watch_after(all[1].1)).await?, []);
    // What is no longer recorded cannot be gone on after.
    let unknown: Mark = "0123456789abcdef".parse()?;
    assert_eq!(seen(run.watch_after(unknown)).await?, all);
    assert_eq!(all[0].1.to_string().parse::<Mark>()?, all[0].1);
    assert!("+123456789abcdef".parse::<Mark>().is_err());
    Ok(())
}

#[windlass::test]
async fn a_handler_that_moves_between_threads_may_hold_a_run(lab: Lab) -> Result<()> {
    let engine = lab.engine().workflow(letters::workflow()).launch().await?;
    let run = engine.start(letters::workflow(), "hello".to_owned()).await?;
    let asked = tokio::spawn(async move { run.status().await.map(|status| status.state) });
    assert!(asked.await?.is_ok());
    Ok(())
}
