//! Tasks that cannot wait, and are told so.

use windlass::{prelude::*, testing::Lab};

use crate::secs;

async fn refusal(lab: &Lab, workflow: Workflow<(), ()>) -> Result<String> {
    let engine = lab.engine().workflow(&workflow).launch().await?;
    let error = engine.start(workflow, ()).await?.await.expect_err("it is refused").to_string();
    engine.stop().await?;
    Ok(error)
}

#[windlass::test]
async fn a_task_that_any_process_may_execute_cannot_wait(lab: Lab) -> Result<()> {
    #[workflow(spread)]
    mod far {
        use super::*;

        #[task]
        pub async fn wait(cx: &Cx) -> Result<()> {
            cx.sleep(secs(1)).await
        }
    }
    let error = refusal(&lab, far::workflow()).await?;
    assert!(error.contains("`cx.sleep` is not for a task that any process may execute"), "{error}");
    Ok(())
}

#[windlass::test]
async fn a_task_that_blocks_its_thread_cannot_wait(lab: Lab) -> Result<()> {
    #[workflow]
    mod blocking {
        use super::*;

        #[task]
        pub fn wait(cx: &Cx) -> Result<()> {
            let mut waiting = std::pin::pin!(cx.event(Event::<()>::new("go")));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            match std::future::Future::poll(waiting.as_mut(), &mut context) {
                std::task::Poll::Ready(answer) => answer,
                std::task::Poll::Pending => Ok(()),
            }
        }
    }
    let error = refusal(&lab, blocking::workflow()).await?;
    assert!(error.contains("`cx.event` is not for a task that blocks its thread"), "{error}");
    Ok(())
}

#[windlass::test]
async fn what_a_task_has_spawned_cannot_wait_in_its_name(lab: Lab) -> Result<()> {
    #[workflow]
    mod spawning {
        use super::*;

        #[task]
        pub async fn wait(cx: &Cx) -> Result<()> {
            let cx = cx.clone();
            tokio::spawn(async move { cx.sleep(secs(1)).await }).await?
        }
    }
    let error = refusal(&lab, spawning::workflow()).await?;
    assert!(error.contains("`cx.sleep` is not for what a task has spawned"), "{error}");
    Ok(())
}

#[windlass::test]
async fn a_step_of_a_durable_function_cannot_wait_by_its_own_cx(lab: Lab) -> Result<()> {
    #[flow]
    async fn steps(cx: &Flow) -> Result<()> {
        cx.step("inner", |s: Cx| async move { s.sleep(secs(1)).await }).await
    }
    let error = refusal(&lab, steps::workflow()).await?;
    assert!(error.contains("`cx.sleep` is not for a step or an undo, such as `inner`"), "{error}");
    Ok(())
}
