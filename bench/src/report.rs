//! One line for each workload and store: as a table for people, as JSON for programs.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    options::Store,
    slices::{self, Slice},
    workload::Workload,
};

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    workload: &'static str,
    store: &'static str,
    concurrency: usize,
    tasks_per_s: Option<f64>,
    limit_tasks_per_s: Option<f64>,
    of_limit: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    commits_per_task: Option<f64>,
    bytes_per_task: Option<f64>,
    budget: String,
    within_budget: bool,
    /// Another crate, if it is not Windlass.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    /// What only this workload has to say.
    #[serde(flatten)]
    more: Map<String, Value>,
    /// How it went from slice to slice, where that matters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    slices: Vec<Slice>,
}

impl Line {
    /// A line that says nothing yet, with its budget in words.
    pub(crate) fn new(
        workload: Workload,
        store: Store,
        concurrency: usize,
        budget: impl Into<String>,
    ) -> Self {
        Self {
            workload: workload.name(),
            store: store.name(),
            concurrency,
            tasks_per_s: None,
            limit_tasks_per_s: None,
            of_limit: None,
            p50_ms: None,
            p99_ms: None,
            commits_per_task: None,
            bytes_per_task: None,
            budget: budget.into(),
            within_budget: true,
            peer: None,
            more: Map::new(),
            slices: Vec::new(),
        }
    }

    /// Ours and the limit, as rates: `of_limit` is ours ÷ the limit.
    pub(crate) fn rates(mut self, ours: f64, limit: f64) -> Self {
        self.tasks_per_s = Some(round(ours));
        self.limit_tasks_per_s = Some(round(limit));
        self.of_limit = Some(round(ours / limit));
        self
    }

    /// Ours and the limit, as times: `of_limit` is the limit ÷ ours, so that 1.0 is the limit here too.
    pub(crate) fn times(mut self, ours: f64, limit: f64) -> Self {
        self.of_limit = Some(round(limit / ours));
        self
    }

    /// How long one run took.
    pub(crate) fn latencies(mut self, p50_ms: Option<f64>, p99_ms: Option<f64>) -> Self {
        self.p50_ms = p50_ms.map(round);
        self.p99_ms = p99_ms.map(round);
        self
    }

    /// What a task costs in the database.
    pub(crate) fn costs(mut self, commits_per_task: Option<f64>, bytes_per_task: Option<f64>) -> Self {
        self.commits_per_task = commits_per_task.map(round);
        self.bytes_per_task = bytes_per_task.map(round);
        self
    }

    /// A figure that only this workload has.
    pub(crate) fn also(mut self, name: &str, value: f64) -> Self {
        self.more.insert(name.to_string(), Value::from(round(value)));
        self
    }

    /// How it went from slice to slice.
    pub(crate) fn sliced(mut self, slices: Vec<Slice>) -> Self {
        self.slices = slices;
        self
    }

    /// The same line, measured on another crate. It has no budget.
    pub(crate) fn of_peer(mut self, peer: &str, tasks_per_s: f64) -> Self {
        self.peer = Some(peer.to_string());
        self.tasks_per_s = Some(round(tasks_per_s));
        self
    }

    /// Compares with another crate in the same run, which must not be quicker: rates where both have one, times
    /// otherwise.
    pub(crate) fn beside(mut self, peer: &Self) -> Self {
        let rates = self.tasks_per_s.zip(peer.tasks_per_s).map(|(ours, theirs)| ours / theirs);
        let times = self.p50_ms.zip(peer.p50_ms).map(|(ours, theirs)| theirs / ours);
        let (Some(ratio), Some(name)) = (rates.or(times), &peer.peer) else { return self };
        let field = format!("of_{}", name.split(' ').next().unwrap_or_default());
        self.budget.push_str(&format!(", {field} >= 1"));
        self.also(&field, ratio).holds(ratio >= 1.0)
    }

    /// A part of the budget: the line is within it only if every part holds.
    pub(crate) fn holds(mut self, part: bool) -> Self {
        self.within_budget &= part;
        self
    }

    /// What came out, for budgets that are a part of the limit.
    pub(crate) fn of_limit(&self) -> f64 {
        self.of_limit.unwrap_or(f64::NAN)
    }

    /// What was measured, and on which crate if it is not Windlass.
    fn name(&self) -> String {
        match &self.peer {
            Some(peer) => format!("{} ({peer})", self.workload),
            None => self.workload.to_string(),
        }
    }

    /// The line for programs.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

/// Four significant digits: more would be noise.
pub(crate) fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        return value.round();
    }
    let factor = 10_f64.powi(digits);
    (value * factor).round() / factor
}

const TITLES: [&str; 10] = [
    "workload",
    "store",
    "concurrency",
    "tasks/s",
    "limit",
    "of limit",
    "p50 ms",
    "p99 ms",
    "bytes/task",
    "within budget",
];

/// The lines for people. What only one workload has to say follows below the table.
pub(crate) fn table(lines: &[Line]) -> String {
    let mut rows = vec![TITLES.map(String::from)];
    rows.extend(lines.iter().map(row));
    let widths: Vec<usize> = (0..TITLES.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                // Words begin together, numbers end together.
                if (2..9).contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    for line in lines.iter().filter(|line| !line.more.is_empty()) {
        let figures: Vec<String> = line.more.iter().map(|(name, value)| format!("{name} {value}")).collect();
        text.push_str(&format!("{} on {}: {}\n", line.name(), line.store, figures.join(", ")));
    }
    for line in lines.iter().filter(|line| !line.slices.is_empty()) {
        text.push_str(&format!("\n{} on {}:\n{}", line.name(), line.store, slices::chart(&line.slices)));
    }
    text
}

fn row(line: &Line) -> [String; TITLES.len()] {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_string(), |value| value.to_string());
    let verdict = match (&line.peer, line.within_budget) {
        (Some(_), _) => "-".to_string(),
        (None, true) => format!("yes ({})", line.budget),
        (None, false) => format!("NO ({})", line.budget),
    };
    [
        line.name(),
        line.store.to_string(),
        line.concurrency.to_string(),
        number(line.tasks_per_s),
        number(line.limit_tasks_per_s),
        number(line.of_limit),
        number(line.p50_ms),
        number(line.p99_ms),
        number(line.bytes_per_task),
        verdict,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_line_has_the_documented_fields_in_order() {
        let line = Line::new(Workload::Chain3, Store::Sqlite, 1000, "of_limit >= 0.5")
            .rates(123_456.7, 246_913.4)
            .latencies(Some(1.23456), None)
            .costs(Some(0.001), None);
        let within = line.of_limit() >= 0.5;
        assert_eq!(
            line.holds(within).json().expect("it is plain data"),
            r#"{"workload":"chain3","store":"sqlite","concurrency":1000,"tasks_per_s":123457.0,"limit_tasks_per_s":246913.0,"of_limit":0.5,"p50_ms":1.235,"p99_ms":null,"commits_per_task":0.001,"bytes_per_task":null,"budget":"of_limit >= 0.5","within_budget":true}"#
        );
    }

    #[test]
    fn of_limit_is_below_one_when_we_are_slower_for_times_too() {
        let line = Line::new(Workload::Chain3Latency, Store::Sqlite, 1, "").times(2.0, 1.0);
        assert_eq!(line.of_limit(), 0.5);
    }

    #[test]
    fn a_peer_that_is_quicker_is_out_of_budget() {
        let line = |workload| Line::new(workload, Store::Postgres, 1, "of_limit >= 0.5");
        let peer = line(Workload::Burndown).of_peer("other_crate 1.2", 200.0).latencies(Some(3.0), None);
        let ours = line(Workload::Burndown).rates(100.0, 100.0).beside(&peer);
        assert!(!ours.within_budget && ours.budget.ends_with("of_other_crate >= 1"), "{ours:?}");
        let ours = line(Workload::Chain3Latency).latencies(Some(2.0), None).beside(&peer);
        assert!(ours.within_budget && ours.more["of_other_crate"] == 1.5, "{ours:?}");
        let table = table(&[ours, peer]);
        assert!(table.contains("burndown (other_crate 1.2)"), "{table}");
    }

    #[test]
    fn one_part_of_a_budget_that_does_not_hold_is_enough() {
        let line = Line::new(Workload::Burndown, Store::Sqlite, 1, "")
            .holds(false)
            .holds(true)
            .also("enqueued_per_s", 3.0);
        let table = table(&[line]);
        assert!(table.contains("NO ()") && table.contains("enqueued_per_s 3"), "{table}");
    }
}
