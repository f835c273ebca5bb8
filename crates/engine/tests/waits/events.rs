//! Tasks that wait for events.

use windlass::{RunState, prelude::*, testing::Lab};

use crate::{Tally, hours, secs};

const APPROVED: Event<String> = Event::new("approved");

#[workflow]
mod approval {
    use super::*;

    #[task]
    pub async fn ask(cx: &Cx, tally: Res<Tally>) -> Result<Option<String>> {
        tally.add("asked");
        let answer = cx.event(APPROVED).timeout(hours(48)).await?;
        tally.add("answered");
        Ok(answer)
    }

    #[task]
    pub async fn done(ask: Option<String>) -> Result<String> {
        Ok(ask.unwrap_or_else(|| "nobody".to_owned()))
    }
}

#[windlass::test]
async fn an_event_reaches_a_task_whose_run_is_parked(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(approval::workflow()).launch().await?;
    let run = engine.start(approval::workflow(), ()).await?;
    lab.advance(hours(30)).await;
    assert_eq!(run.status().await?.state, RunState::Suspended);
    run.send(APPROVED, &"Ada".to_owned()).await?;
    assert_eq!(run.await?, "Ada");
    assert_eq!((tally.of("asked"), tally.of("answered")), (2, 1));
    Ok(())
}

#[windlass::test]
async fn an_event_that_comes_before_its_task_waits_is_kept(lab: Lab) -> Result<()> {
    let engine = lab.engine().resource(Tally::default()).workflow(approval::workflow()).launch().await?;
    let begun = lab.now();
    let run = engine.start(approval::workflow(), ()).delay(hours(1)).await?;
    run.send(APPROVED, &"Ada".to_owned()).await?;
    assert_eq!(run.await?, "Ada");
    assert_eq!(lab.now().since(begun).as_secs(), 3600);
    Ok(())
}

#[windlass::test]
async fn a_wait_for_an_event_that_never_comes_ends_in_time_wherever_it_is_crashed(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let engine = builder.resource(Tally::default()).workflow(approval::workflow()).launch().await?;
            let run = engine.start(approval::workflow(), ()).key("one").await?;
            let id = run.id();
            assert_eq!(run.await?, "nobody");
            let status = engine.run(&approval::workflow(), id).status().await?;
            let took = status.ended_at.expect("it has ended").since(status.created_at);
            assert_eq!(took.as_secs(), hours(48).as_secs());
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 12, "{boundaries}");
    Ok(())
}

#[workflow(output = both)]
mod two {
    use super::*;

    #[task]
    pub async fn first(cx: &Cx) -> Result<Vec<String>> {
        Ok(vec![cx.event(APPROVED).await?, cx.event(APPROVED).await?])
    }

    #[task(retry(attempts = 2, delay = "1s"))]
    pub async fn second(cx: &Cx) -> Result<Vec<String>> {
        let got = vec![cx.event(APPROVED).await?, cx.event(APPROVED).await?];
        if cx.attempt() == 1 { Err("once more".into()) } else { Ok(got) }
    }

    #[task]
    pub async fn both(first: Vec<String>, second: Vec<String>) -> Result<Vec<String>> {
        let mut all = [first, second].concat();
        all.sort();
        Ok(all)
    }
}

#[windlass::test]
async fn every_event_is_received_once_by_one_task_wherever_it_is_crashed(lab: Lab) -> Result<()> {
    let boundaries = lab
        .crash_everywhere(|builder| async {
            let engine = builder.workflow(two::workflow()).launch().await?;
            let run = engine.start(two::workflow(), ()).key("one").await?;
            for event in ["a", "b", "c", "d"] {
                let sent = run.send(APPROVED, &event.to_owned()).key(event).await;
                assert!(sent.is_ok() || sent.is_err_and(|error| error.code() == "already_ended"));
            }
            assert_eq!(run.await?, ["a", "b", "c", "d"]);
            engine.stop().await?;
            Ok::<_, Failure>(())
        })
        .await?;
    assert!(boundaries >= 20, "{boundaries}");
    Ok(())
}

#[windlass::test]
async fn what_came_first_wins_and_a_losing_event_stays_in_the_mailbox(lab: Lab) -> Result<()> {
    #[workflow]
    mod race {
        use super::*;

        #[task]
        pub async fn pick(cx: &Cx) -> Result<String> {
            let first = windlass::select! {
                by = cx.event(APPROVED) => by?,
                slept = cx.sleep(hours(1)) => slept.map(|()| "too late".to_owned())?,
            };
            cx.sleep(hours(1)).await?;
            Ok(format!("{first}, {}", cx.event(APPROVED).await?))
        }
    }
    let engine = lab.engine().workflow(race::workflow()).launch().await?;
    let run = engine.start(race::workflow(), ()).await?;
    lab.advance(secs(4000)).await;
    run.send(APPROVED, &"Ada".to_owned()).await?;
    lab.crash(&engine);
    let engine = lab.engine().workflow(race::workflow()).launch().await?;
    assert_eq!(engine.run(&race::workflow(), run.id()).await?, "too late, Ada");
    Ok(())
}

#[windlass::test]
async fn a_person_who_retries_a_run_does_not_have_to_approve_it_again(lab: Lab) -> Result<()> {
    #[workflow]
    mod shaky {
        use super::*;

        #[task(retry(attempts = 1))]
        pub async fn go(cx: &Cx) -> Result<String> {
            let by = cx.event(APPROVED).await?;
            if cx.generation() == 1 { Err("the printer is on fire".into()) } else { Ok(by) }
        }
    }
    let engine = lab.engine().workflow(shaky::workflow()).launch().await?;
    let mut run = engine.start(shaky::workflow(), ()).await?;
    run.send(APPROVED, &"Ada".to_owned()).await?;
    assert!((&mut run).await.is_err());
    run.retry().await?;
    assert_eq!(run.await?, "Ada");
    Ok(())
}

#[workflow]
mod hasty {
    use super::*;

    #[task]
    pub async fn ask(cx: &Cx, tally: Res<Tally>) -> Result<String> {
        // Called here, and awaited when something else is done.
        let answer = cx.event(APPROVED);
        tokio::time::sleep(secs(60)).await;
        tally.add("asked");
        answer.await
    }
}

#[windlass::test]
async fn a_wait_that_is_called_before_it_is_awaited_does_not_park_what_is_done_meanwhile(
    lab: Lab,
) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(hasty::workflow()).launch().await?;
    let run = engine.start(hasty::workflow(), ()).await?;
    lab.advance(secs(30)).await;
    assert_eq!(run.status().await?.state, RunState::Running);
    run.send(APPROVED, &"Ada".to_owned()).await?;
    assert_eq!(run.await?, "Ada");
    assert_eq!(tally.of("asked"), 1);
    Ok(())
}
