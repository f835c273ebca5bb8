//! Following a run until its end.

use std::{future::poll_fn, pin::Pin};

use axum::body::Body;
use futures_core::Stream;
use serde_json::{Value, json};

use crate::{Output, api::Api, show::text, trouble::Trouble};

/// How what is found is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    ForPeople,
    Json,
}

/// Prints what happens to a run, and fails if it ends without completing.
pub(crate) async fn watch(api: &Api, run: &str, form: Form, output: &mut Output) -> Result<(), Trouble> {
    let mut events = Events::of(api.stream(&format!("/runs/{}/watch", crate::api::escape(run))).await?);
    while let Some((name, data)) = events.next().await? {
        let line = match form {
            Form::Json => json!({"event": name, "data": data}).to_string(),
            Form::ForPeople => words(&name, &data, output),
        };
        output.line(&line)?;
        match (&*name, data["state"].as_str()) {
            ("ended", Some("completed")) => return Ok(()),
            ("ended", state) => return Err(Trouble::Ended(state.unwrap_or_default().to_owned())),
            ("problem", _) => return Err(Trouble::Database(text(&data["detail"]))),
            _ => {}
        }
    }
    Err(Trouble::Database("the run can be followed no longer".to_owned()))
}

fn words(name: &str, data: &Value, output: &Output) -> String {
    let why =
        data["failure"]["message"].as_str().map(|why| format!(": {}", text(&why.into()))).unwrap_or_default();
    match name {
        "step" => {
            let outcome = output.paint.state(&text(&data["outcome"]));
            format!(
                "{} {} {outcome}, attempt {}{why}",
                text(&data["ended_at"]),
                text(&data["name"]),
                data["attempt"]
            )
        }
        "ended" => {
            format!("{} the run is {}", text(&data["ended_at"]), output.paint.state(&text(&data["state"])))
        }
        _ => format!("the run is {}", output.paint.state(&text(&data["state"]))),
    }
}

/// Server-sent events, one after the other.
struct Events {
    body: axum::body::BodyDataStream,
    read: Vec<u8>,
}

impl Events {
    fn of(body: Body) -> Self {
        Self { body: body.into_data_stream(), read: Vec::new() }
    }

    /// The next event that has data: its name, and that.
    async fn next(&mut self) -> Result<Option<(String, Value)>, Trouble> {
        loop {
            while let Some(end) = self.read.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.read.drain(..end + 2).collect();
                if let Some(event) = parse(&String::from_utf8_lossy(&block)) {
                    return Ok(Some(event));
                }
            }
            match poll_fn(|cx| Pin::new(&mut self.body).poll_next(cx)).await {
                Some(Ok(bytes)) => self.read.extend_from_slice(&bytes),
                Some(Err(why)) => return Err(Trouble::Database(why.to_string())),
                None => return Ok(None),
            }
        }
    }
}

fn parse(block: &str) -> Option<(String, Value)> {
    let field =
        |name: &str| block.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start().to_owned()));
    Some((field("event:")?, serde_json::from_str(&field("data:")?).ok()?))
}
