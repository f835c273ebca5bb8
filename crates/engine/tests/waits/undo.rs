//! Tasks that are undone when their run does not complete.

use windlass::{Retry, RunState, Task, TaskState, Workflow, prelude::*, testing::Lab};

use crate::{Tally, hours, secs};

const GO: Event<String> = Event::new("go");

/// Books a flight and rooms, and then waits for word.
#[workflow(output = end)]
mod trip {
    use super::*;

    #[task]
    pub async fn flight(input: u32, cx: &Cx, tally: Res<Tally>) -> Result<String> {
        tally.add(format!("flight {}", suffix(&cx.key())));
        Ok(format!("seat {input}"))
    }

    #[undo(flight, retry(attempts = 3, delay = "1h", backoff = fixed, jitter = 0.0))]
    pub async fn cancel_flight(flight: &str, input: u32, cx: &Cx, tally: Res<Tally>) -> Result<()> {
        assert_eq!(flight, format!("seat {input}"));
        tally.add(format!("no {flight}"));
        tally.add(format!("undo {}", suffix(&cx.key())));
        Ok(())
    }

    #[task(after = [flight])]
    pub async fn list() -> Result<Vec<u32>> {
        Ok(vec![1, 2, 3])
    }

    #[task(for_each = list, limit = 1)]
    pub async fn room(item: u32, cx: &Cx, tally: Res<Tally>) -> Result<u32> {
        cx.sleep(secs(60)).await?;
        tally.add(format!("room {item}"));
        Ok(item * 10)
    }

    #[undo(room)]
    pub async fn cancel_room(room: u32, tally: Res<Tally>) -> Result<()> {
        tally.add(format!("no room {room}"));
        Ok(())
    }

    // Nobody undoes this one.
    #[task(after = [room])]
    pub async fn note(tally: Res<Tally>) -> Result<()> {
        tally.add("note");
        Ok(())
    }

    #[task(after = [note], retry(attempts = 1))]
    pub async fn end(cx: &Cx, tally: Res<Tally>) -> Result<String> {
        let word = cx.event(GO).await?;
        tally.add(format!("heard {word}"));
        if word == "fail" { Err("no seats".into()) } else { Ok(word) }
    }
}

/// What follows the run's id in a key.
fn suffix(key: &str) -> &str {
    key.split_once(':').map_or(key, |(_, rest)| rest)
}

/// What was undone, in the order in which that was done.
fn undone(tally: &Tally) -> Vec<String> {
    tally.all().into_iter().filter(|what| what.starts_with("no ")).collect()
}

const NEWEST_FIRST: [&str; 4] = ["no room 30", "no room 20", "no room 10", "no seat 7"];

#[windlass::test]
async fn a_run_that_fails_is_undone_newest_first_and_says_so(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(trip::workflow()).launch().await?;
    let mut run = engine.start(trip::workflow(), 7).await?;
    run.send(GO, &"fail".to_owned()).await?;
    let error = (&mut run).await.unwrap_err().to_string();
    assert!(error.contains("end") && error.contains("no seats"), "{error}");
    assert_eq!(undone(&tally), NEWEST_FIRST);
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Failed);
    let undo = |task: &str| status.task(task).and_then(|task| task.undo);
    assert_eq!(
        (undo("flight"), undo("room"), undo("note")),
        (Some(TaskState::Completed), Some(TaskState::Completed), None)
    );
    lab.assert_undone("flight");
    assert_eq!((lab.undos("room[1]"), lab.undos("note")), (1, 0));
    Ok(())
}

#[windlass::test]
async fn a_run_that_is_cancelled_or_times_out_while_it_is_parked_is_undone(lab: Lab) -> Result<()> {
    for cancels in [true, false] {
        let tally = Tally::default();
        let engine = lab.engine().resource(tally.clone()).workflow(trip::workflow()).launch().await?;
        let mut run = engine.start(trip::workflow(), 7).timeout(hours(5)).await?;
        lab.advance(hours(1)).await;
        assert_eq!(run.status().await?.state, RunState::Suspended);
        if cancels {
            run.cancel("no money").await?;
        }
        assert!((&mut run).await.is_err());
        assert_eq!(undone(&tally), NEWEST_FIRST);
        let expected = if cancels { RunState::Cancelled } else { RunState::Failed };
        assert_eq!(run.status().await?.state, expected);
        engine.stop().await?;
    }
    Ok(())
}

#[windlass::test]
async fn a_run_that_completes_is_not_undone_and_neither_is_one_that_is_terminated(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(trip::workflow()).launch().await?;
    let run = engine.start(trip::workflow(), 7).await?;
    run.send(GO, &"well".to_owned()).await?;
    assert_eq!(run.await?, "well");
    let mut run = engine.start(trip::workflow(), 7).await?;
    lab.advance(hours(1)).await;
    run.terminate("now").await?;
    assert!((&mut run).await.is_err());
    assert!(undone(&tally).is_empty());
    Ok(())
}

#[windlass::test]
async fn every_undo_is_recorded_once_and_in_order_wherever_it_is_crashed(lab: Lab) -> Result<()> {
    for word in ["fail", "cancel"] {
        let boundaries = lab
            .crash_everywhere(|builder| async {
                let tally = Tally::default();
                let engine = builder.resource(tally.clone()).workflow(trip::workflow()).launch().await?;
                let run = engine.start(trip::workflow(), 7).key("one").await?;
                let id = run.id();
                if word == "fail" {
                    run.send(GO, &"fail".to_owned()).key("once").await.ok();
                } else {
                    tokio::time::sleep(secs(400)).await;
                    run.cancel("no money").await?;
                }
                let error = run.await.unwrap_err().to_string();
                let expected = if word == "fail" { "no seats" } else { "no money" };
                assert!(error.contains(expected), "{error}");
                // What is recorded is not undone again: what this boot did is the end of the whole list.
                let done = undone(&tally);
                assert!(
                    NEWEST_FIRST.ends_with(&done.iter().map(String::as_str).collect::<Vec<_>>()),
                    "{done:?}"
                );
                let status = engine.run(&trip::workflow(), id).status().await?;
                let undo = |task: &str| status.task(task).and_then(|task| task.undo);
                assert_eq!(
                    (undo("flight"), undo("room")),
                    (Some(TaskState::Completed), Some(TaskState::Completed))
                );
                engine.stop().await?;
                Ok::<_, Failure>(())
            })
            .await?;
        assert!(boundaries >= 30, "{boundaries}");
    }
    Ok(())
}

#[windlass::test]
async fn an_undo_has_its_own_retry_and_one_that_fails_for_good_does_not_stop_the_others(
    lab: Lab,
) -> Result<()> {
    lab.fail("room[1]/undo", .., Failure::permanent("the hotel is closed"));
    lab.fail("flight/undo", 1..=2, "the line is busy");
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(trip::workflow()).launch().await?;
    let mut run = engine.start(trip::workflow(), 7).await?;
    run.send(GO, &"fail".to_owned()).await?;
    lab.advance(secs(600)).await;
    let status = run.status().await?;
    assert_eq!(status.state, RunState::Undoing);
    assert_eq!(status.task("flight").and_then(|task| task.undo), Some(TaskState::Ready));
    // Its verdict is final.
    run.cancel("too late").await?;
    let error = (&mut run).await.unwrap_err().to_string();
    assert!(error.contains("no seats"), "{error}");
    assert_eq!(undone(&tally), ["no room 30", "no room 10", "no seat 7"]);
    assert_eq!((lab.undos("flight"), lab.undos("room[1]")), (3, 1));
    let status = run.status().await?;
    let room = status.task("room").expect("it is there");
    assert_eq!(room.undo, Some(TaskState::Failed));
    assert!(room.undo_failure.as_ref().is_some_and(|failure| failure.message.contains("closed")));
    Ok(())
}

#[windlass::test]
async fn a_stop_hands_the_rest_of_the_undos_over(lab: Lab) -> Result<()> {
    lab.fail("flight/undo", 1..=1, "the line is busy");
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(trip::workflow()).launch().await?;
    let run = engine.start(trip::workflow(), 7).await?;
    run.send(GO, &"fail".to_owned()).await?;
    lab.advance(secs(600)).await;
    assert_eq!(undone(&tally), NEWEST_FIRST[..3]);
    let begun = lab.now();
    engine.stop().await?;
    assert!(lab.now().since(begun) < secs(1));
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(trip::workflow()).launch().await?;
    assert!(engine.run(&trip::workflow(), run.id()).await.is_err());
    assert_eq!(undone(&tally), NEWEST_FIRST[3..]);
    assert_eq!(lab.undos("flight"), 2);
    Ok(())
}

#[windlass::test]
async fn terminate_ends_a_run_that_is_being_undone(lab: Lab) -> Result<()> {
    lab.fail("flight/undo", .., "the line is busy");
    let engine = lab.engine().resource(Tally::default()).workflow(trip::workflow()).launch().await?;
    let mut run = engine.start(trip::workflow(), 7).await?;
    run.send(GO, &"fail".to_owned()).await?;
    lab.advance(secs(600)).await;
    run.terminate("enough").await?;
    let begun = lab.now();
    let error = (&mut run).await.unwrap_err().to_string();
    assert!(error.contains("enough"), "{error}");
    assert!(lab.now().since(begun) < secs(1));
    lab.advance(hours(5)).await;
    assert_eq!(lab.undos("flight"), 1);
    Ok(())
}

#[windlass::test]
async fn a_retry_does_again_what_was_undone_under_another_key_and_keeps_the_rest(lab: Lab) -> Result<()> {
    lab.fail("room[1]/undo", 1..=3, "the hotel is closed");
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(trip::workflow()).launch().await?;
    let mut run = engine.start(trip::workflow(), 7).await?;
    run.send(GO, &"fail".to_owned()).await?;
    assert!((&mut run).await.is_err());
    lab.forgive();
    run.retry().await?;
    // What the first generation heard is kept: it fails again.
    assert!((&mut run).await.is_err());
    let rooms = ["room 1", "room 2", "room 3"].map(|room| tally.of(room));
    assert_eq!(rooms, [2, 1, 2], "the one that could not be undone is kept");
    assert_eq!((tally.of("flight flight"), tally.of("flight flight:2"), tally.of("note")), (1, 1, 1));
    assert_eq!((tally.of("undo flight/undo"), tally.of("undo flight/undo:2")), (1, 1));
    let all = undone(&tally);
    assert_eq!(all.len(), 3 + 4, "{all:?}");
    Ok(())
}

#[windlass::test]
async fn a_fork_undoes_nothing_that_it_inherited_and_refuses_what_was_undone(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(trip::workflow()).launch().await?;
    let mut run = engine.start(trip::workflow(), 7).await?;
    lab.advance(hours(1)).await;
    let mut fork = run.fork_from("end").await?;
    fork.send(GO, &"fail".to_owned()).await?;
    assert!((&mut fork).await.is_err());
    assert!(undone(&tally).is_empty());
    assert_eq!((tally.of("room 1"), tally.of("note")), (1, 1));
    run.cancel("no money").await?;
    assert!((&mut run).await.is_err());
    let refused = run.fork_from("end").await.unwrap_err().to_string();
    assert!(refused.contains("was undone"), "{refused}");
    // What was done again is there to be copied.
    run.retry().await?;
    run.send(GO, &"well".to_owned()).await?;
    assert_eq!((&mut run).await?, "well");
    let fork = run.fork_from("end").await?;
    fork.send(GO, &"very well".to_owned()).await?;
    assert_eq!(fork.await?, "very well");
    assert_eq!(tally.of("room 1"), 2);
    Ok(())
}

#[windlass::test]
async fn fail_fast_undoes_what_had_completed_and_not_what_was_cut_off(lab: Lab) -> Result<()> {
    #[workflow(fail_fast)]
    mod race {
        use super::*;

        #[task]
        pub async fn quick(tally: Res<Tally>) -> Result<()> {
            tally.add("quick");
            Ok(())
        }

        #[undo(quick)]
        pub async fn not_quick(tally: Res<Tally>) -> Result<()> {
            tally.add("no quick");
            Ok(())
        }

        #[task]
        pub async fn slow(cx: &Cx) -> Result<()> {
            cx.cancelled().await;
            Err("cut off".into())
        }

        #[undo(slow)]
        pub async fn not_slow(tally: Res<Tally>) -> Result<()> {
            tally.add("no slow");
            Ok(())
        }

        #[task(retry(attempts = 1))]
        pub async fn broken() -> Result<()> {
            tokio::time::sleep(secs(1)).await;
            Err("broken".into())
        }

        #[task(after = [quick, slow, broken])]
        pub async fn end() -> Result<()> {
            Ok(())
        }
    }
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(race::workflow()).launch().await?;
    assert!(engine.start(race::workflow(), ()).await?.await.is_err());
    assert_eq!(undone(&tally), ["no quick"]);
    Ok(())
}

#[windlass::test]
async fn spread_tasks_are_undone_where_their_run_is_and_done_again_under_another_key(lab: Lab) -> Result<()> {
    #[workflow(spread)]
    mod far {
        use super::*;

        #[task]
        pub async fn book(cx: &Cx, tally: Res<Tally>) -> Result<u32> {
            tally.add(suffix(&cx.key()));
            Ok(5)
        }

        #[undo(book)]
        pub async fn unbook(book: u32, tally: Res<Tally>) -> Result<()> {
            tally.add(format!("no {book}"));
            Ok(())
        }

        #[task(after = [book], retry(attempts = 1))]
        pub async fn end() -> Result<()> {
            Err("no".into())
        }
    }
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(far::workflow()).launch().await?;
    let mut run = engine.start(far::workflow(), ()).await?;
    assert!((&mut run).await.is_err());
    run.retry().await?;
    assert!((&mut run).await.is_err());
    assert_eq!(tally.all(), ["book", "no 5", "book:2", "no 5"]);
    Ok(())
}

#[windlass::test]
async fn tasks_that_are_made_at_run_time_are_undone_too(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let noted = tally.clone();
    let charge = Task::new("charge", |cx| async move { Ok(cx.input::<u32>()? * 2) });
    let charge = charge.undo_with(Retry::attempts(1), move |cx| {
        let noted = noted.clone();
        async move {
            noted.add(format!("no {}", cx.result::<u32>("charge")?));
            Ok(())
        }
    });
    let end = Task::new("end", |_| async move { Err::<(), _>(Failure::permanent("no")) }).after(["charge"]);
    let workflow = Workflow::builder("made").task(charge).task(end).build().expect("it holds together");
    let engine = lab.engine().workflow(&workflow).launch().await?;
    assert!(engine.start(workflow, 21.into()).await?.await.is_err());
    assert_eq!(undone(&tally), ["no 42"]);
    Ok(())
}

#[workflow]
mod parcel {
    use super::*;

    #[task]
    pub async fn hand_over(input: u32, tally: Res<Tally>) -> Result<u32> {
        tally.add("handed over");
        Ok(input)
    }
}

#[workflow(output = pay)]
mod shop {
    use super::*;

    #[task]
    pub async fn ship(input: u32, cx: &Cx) -> Result<u32> {
        cx.run(parcel::workflow(), input).await
    }

    #[undo(ship)]
    pub async fn recall(ship: u32, tally: Res<Tally>) -> Result<()> {
        tally.add(format!("recalled {ship}"));
        Ok(())
    }

    #[task(after = [ship], retry(attempts = 1))]
    pub async fn pay(tally: Res<Tally>) -> Result<u32> {
        tally.add("pay");
        if tally.of("pay") == 1 { Err("no money".into()) } else { Ok(1) }
    }
}

#[windlass::test]
async fn what_a_task_ran_is_run_again_when_the_task_was_undone(lab: Lab) -> Result<()> {
    let tally = Tally::default();
    let engine = lab.engine().resource(tally.clone()).workflow(parcel::workflow());
    let engine = engine.workflow(shop::workflow()).launch().await?;
    let mut run = engine.start(shop::workflow(), 7).await?;
    (&mut run).await.unwrap_err();
    assert_eq!((tally.of("handed over"), tally.of("recalled 7")), (1, 1));
    run.retry().await?;
    assert_eq!(engine.run(&shop::workflow(), run.id()).await?, 1);
    assert_eq!((tally.of("handed over"), tally.of("recalled 7")), (2, 1));
    Ok(())
}
