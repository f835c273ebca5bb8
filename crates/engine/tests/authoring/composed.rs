use serde::{Deserialize, Serialize};
use windlass::prelude::*;

use super::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
    words: Vec<String>,
}

mod sources {
    use super::*;

    #[task(retry(attempts = 2))]
    pub async fn fetch(input: &str, context: &mut Context) -> Result<Page> {
        context.set("length", input.len())?;
        Ok(Page { words: input.split(' ').map(str::to_owned).collect() })
    }

    #[task]
    pub async fn words(fetch: Page) -> Result<Vec<String>> {
        Ok(fetch.words)
    }
}

#[task(for_each = words, limit = 2)]
async fn count(item: &str, input: &str) -> Result<usize> {
    Ok(item.len() + input.len())
}

#[task(after = [fetch])]
fn score(count: &[usize], fetch: &Page) -> Result<usize> {
    Ok(count.iter().sum::<usize>() + fetch.words.len())
}

#[task(when = failed(score))]
async fn alarm(score: Option<usize>, fetch: Outcome<Page>) -> Result<()> {
    if score.is_some() && fetch.is_completed() { Ok(()) } else { Err("alarm".into()) }
}

fn scoring() -> Workflow<String, usize> {
    compose! {
        name: "scoring",
        description: "Counts words.",
        tasks: [sources::fetch, sources::words, count, score, alarm],
        output: score,
        version: "3",
        fail_fast,
        timeout: "10m",
    }
}

#[test]
fn tasks_of_several_modules_are_composed_with_their_types() {
    let workflow = scoring();
    let definition = workflow.definition();
    assert_eq!((workflow.name(), workflow.version()), ("scoring", "3"));
    let names: Vec<&str> = definition.tasks.iter().map(|task| &*task.name).collect();
    assert_eq!(names, ["fetch", "words", "count", "score", "alarm"]);
    assert_eq!(definition.output, definition.find("score"));
    assert_eq!(definition.task(definition.find("fetch").unwrap()).retry.attempts, 2);
}

#[test]
fn a_composed_task_is_handed_what_it_asks_for() {
    let page = Page { words: vec!["a".into(), "bc".into()] };
    let done = run(scoring(), "fetch", call(slot("a bc"), [])).unwrap();
    assert_eq!(done.output.decode::<Page>().unwrap(), page);
    assert_eq!(done.changes.set["length"], 4);
    let count = call(slot("x"), []).with_item(slot(page.words.clone()), 1);
    assert_eq!(result::<usize>(scoring(), "count", count).unwrap(), 3);
    // The order is that of the attribute first, and then of the parameters.
    let score = call(slot("x"), [slot(page.clone()), slot(vec![1_usize, 2])]);
    assert_eq!(result::<usize>(scoring(), "score", score).unwrap(), 5);
}

#[test]
fn without_a_name_the_last_task_without_a_rule_gives_the_output() {
    let workflow: Workflow<String, usize> =
        compose! { name: "short", tasks: [sources::fetch, sources::words, count, score] };
    assert_eq!(workflow.definition().output, workflow.definition().find("score"));
}

#[test]
fn the_same_task_serves_several_workflows() {
    use sources::{fetch, words};
    let small: Workflow<String, Page> = compose! { name: "small", tasks: [fetch, words], output: fetch };
    assert_eq!(small.definition().tasks.len(), 2);
    assert_eq!(small.definition().output, small.definition().find("fetch"));
}

#[test]
fn a_composed_function_can_still_be_called() {
    assert_eq!(score(&[1, 2], &Page { words: vec![] }).unwrap(), 3);
}

#[task]
async fn lonely() -> Result<u8> {
    Ok(1)
}

#[test]
fn a_workflow_whose_tasks_take_no_input_takes_nothing() {
    let workflow: Workflow<(), u8> = compose! { name: "lonely", tasks: [lonely], durability: "pipelined" };
    assert_eq!(result::<u8>(workflow, "lonely", call(slot(()), [])).unwrap(), 1);
}
