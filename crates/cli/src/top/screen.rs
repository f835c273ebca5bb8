//! What is on the screen, and what keys do to it.

use ratatui::{
    Frame,
    crossterm::event::KeyCode,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, TableState},
};
use serde_json::Value;

use crate::{
    api::escape,
    show::{each, text},
};

const KEYS: [&str; 9] = [
    "Tab, 1–5   runs, queues, schedules, triggers, processes",
    "↑ ↓ j k    choose",
    "Enter      show a run",
    "s          only runs in one state: the next one",
    "c, t       cancel the run, retry it",
    "p          pause or resume what is chosen",
    "Space      hold the screen, or let it go on",
    "?          these keys",
    "q, Esc     leave",
];

/// The states that runs may be narrowed to.
const STATES: [&str; 11] = [
    "",
    "pending",
    "running",
    "suspended",
    "paused",
    "blocked",
    "undoing",
    "completed",
    "failed",
    "cancelled",
    "abandoned",
];

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Runs,
    Queues,
    Schedules,
    Triggers,
    Nodes,
}

impl View {
    const ALL: [Self; 5] = [Self::Runs, Self::Queues, Self::Schedules, Self::Triggers, Self::Nodes];

    /// What it is called by the API.
    const fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Queues => "queues",
            Self::Schedules => "schedules",
            Self::Triggers => "triggers",
            Self::Nodes => "nodes",
        }
    }

    /// What is shown of each, and how much room that has.
    const fn columns(self) -> &'static [(&'static str, &'static str, Constraint)] {
        use Constraint::{Fill, Length};
        match self {
            Self::Runs => &[
                ("run", "id", Length(36)),
                ("workflow", "workflow", Fill(2)),
                ("state", "state", Length(10)),
                ("key", "key", Fill(2)),
                ("waits for", "waits_for", Fill(3)),
            ],
            Self::Queues => &[
                ("queue", "name", Fill(2)),
                ("waiting", "depth", Length(9)),
                ("running", "running", Length(9)),
                ("per minute", "ended_per_minute", Length(11)),
                ("paused", "paused", Length(7)),
            ],
            Self::Schedules => &[
                ("schedule", "name", Fill(2)),
                ("workflow", "workflow", Fill(2)),
                ("when", "words", Fill(3)),
                ("state", "state", Length(10)),
                ("next run", "next_run", Length(30)),
            ],
            Self::Triggers => &[
                ("trigger", "name", Fill(2)),
                ("workflow", "workflow", Fill(2)),
                ("when", "words", Fill(3)),
                ("state", "state", Length(10)),
                ("fired", "fired", Length(8)),
            ],
            Self::Nodes => &[
                ("process", "name", Fill(2)),
                ("host", "host", Fill(2)),
                ("pid", "pid", Length(8)),
                ("state", "health", Length(8)),
                ("running", "running", Length(8)),
                ("heard of", "heartbeat_at", Length(30)),
            ],
        }
    }
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Nothing,
    Quit,
    Look,
    Show(String),
    Steer { path: String, words: String },
}

/// What is on the screen.
pub(super) struct Screen {
    has_colours: bool,
    view: View,
    state: usize,
    overview: Value,
    listed: Value,
    chosen: TableState,
    /// What lies over the list.
    detail: Option<(String, Vec<String>)>,
    /// What was asked for, and waits for a yes.
    asked: Option<(String, Deed)>,
    note: String,
    is_held: bool,
}

impl Screen {
    pub(super) fn new(has_colours: bool) -> Self {
        let chosen = TableState::default().with_selected(0);
        let (overview, listed) = (Value::Null, Value::Null);
        let (detail, asked, note) = (None, None, String::new());
        Self {
            has_colours,
            view: View::Runs,
            state: 0,
            overview,
            listed,
            chosen,
            detail,
            asked,
            note,
            is_held: false,
        }
    }

    /// Where what is listed is asked for.
    pub(super) fn path(&self) -> String {
        match (self.view, STATES[self.state]) {
            (View::Runs, "") => "/runs?limit=200".to_owned(),
            (View::Runs, state) => format!("/runs?limit=200&state={state}"),
            (view, _) => format!("/{}", view.name()),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(super) fn update(&mut self, overview: Value, listed: Value) {
        // Whoever has chosen a run keeps it, wherever it stands now.
        let chosen = self.chosen_name();
        (self.overview, self.listed) = (overview, listed);
        let rows = self.rows();
        let place = chosen.and_then(|name| rows.iter().position(|row| name_of(row) == name));
        let last = rows.len().saturating_sub(1);
        let place = place.or_else(|| self.chosen.selected()).unwrap_or(0).min(last);
        self.chosen.select(Some(place));
    }

    pub(super) fn show(&mut self, lines: Vec<String>) {
        self.detail = Some((" run ".to_owned(), lines));
    }

    pub(super) fn say(&mut self, note: impl Into<String>) {
        self.note = note.into();
    }

    fn rows(&self) -> Vec<&Value> {
        each(&self.listed, self.view.name()).collect()
    }

    fn chosen_row(&self) -> Option<&Value> {
        self.rows().get(self.chosen.selected()?).copied()
    }

    fn chosen_name(&self) -> Option<String> {
        self.chosen_row().map(name_of)
    }

    pub(super) fn press(&mut self, key: KeyCode) -> Deed {
        if key == KeyCode::Null {
            return Deed::Nothing;
        }
        self.note.clear();
        if let Some((_, deed)) = self.asked.take() {
            return if key == KeyCode::Char('y') { deed } else { Deed::Nothing };
        }
        if self.detail.take().is_some() {
            return Deed::Nothing;
        }
        match key {
            KeyCode::Char('q') | KeyCode::Esc => Deed::Quit,
            KeyCode::Char('?') => {
                self.detail = Some((" keys ".to_owned(), KEYS.map(str::to_owned).into()));
                Deed::Nothing
            }
            KeyCode::Tab => self.turn_to(self.view as usize + 1),
            KeyCode::BackTab => self.turn_to(self.view as usize + View::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => self.turn_to(digit as usize - '1' as usize),
            KeyCode::Down | KeyCode::Char('j') => self.choose(1),
            KeyCode::Up | KeyCode::Char('k') => self.choose(-1),
            KeyCode::PageDown => self.choose(10),
            KeyCode::PageUp => self.choose(-10),
            KeyCode::Char(' ') => {
                self.is_held = !self.is_held;
                Deed::Nothing
            }
            KeyCode::Char('s') if self.view == View::Runs => {
                self.state = (self.state + 1) % STATES.len();
                Deed::Look
            }
            KeyCode::Enter if self.view == View::Runs => self.chosen_name().map_or(Deed::Nothing, Deed::Show),
            KeyCode::Char('c') if self.view == View::Runs => self.ask("cancel", "it is to be cancelled"),
            KeyCode::Char('t') if self.view == View::Runs => self.ask("retry", "it runs again"),
            KeyCode::Char('p') if self.view != View::Nodes => {
                match self.chosen_row().is_some_and(is_paused) {
                    true => self.ask("resume", "it goes on"),
                    false => self.ask("pause", "it is paused"),
                }
            }
            _ => Deed::Nothing,
        }
    }

    fn turn_to(&mut self, view: usize) -> Deed {
        self.view = View::ALL[view % View::ALL.len()];
        (self.listed, self.chosen) = (Value::Null, TableState::default().with_selected(0));
        Deed::Look
    }

    fn choose(&mut self, by: isize) -> Deed {
        let last = self.rows().len().saturating_sub(1);
        let place = self.chosen.selected().unwrap_or(0).saturating_add_signed(by).min(last);
        self.chosen.select(Some(place));
        Deed::Nothing
    }

    /// Asks whether it is meant.
    fn ask(&mut self, what: &str, words: &str) -> Deed {
        if let Some(name) = self.chosen_name() {
            let path = format!("/{}/{}/{what}", self.view.name(), escape(&name));
            let deed = Deed::Steer { path, words: format!("{name}: {words}") };
            self.asked = Some((format!("{what} {name}? y for yes"), deed));
        }
        Deed::Nothing
    }

    pub(super) fn draw(&mut self, frame: &mut Frame) {
        let parts = [Constraint::Length(2), Constraint::Length(4), Constraint::Min(3), Constraint::Length(1)];
        let [head, chart, list, foot] = Layout::vertical(parts).areas(frame.area());
        frame.render_widget(self.head(), head);
        self.draw_chart(frame, chart);
        self.draw_list(frame, list);
        frame.render_widget(Paragraph::new(self.foot()), foot);
        if let Some((title, lines)) = &self.detail {
            let lines: Vec<Line> = lines.iter().map(|line| Line::raw(line.as_str())).collect();
            let block = Block::bordered().title(title.as_str());
            frame.render_widget(Clear, list);
            frame.render_widget(Paragraph::new(lines).block(block), list);
        }
    }

    fn head(&self) -> Paragraph<'_> {
        let counts = each(&self.overview, "states").filter(|one| one["count"] != 0);
        let mut spans = vec![Span::raw("windlass  ")];
        for one in counts {
            let (state, count) = (text(&one["state"]), text(&one["count"]));
            let about = if one["estimated"] == true { "≥" } else { "" };
            spans.push(Span::styled(format!("{state} {about}{count}"), self.colour(&state)));
            spans.push(Span::raw("  "));
        }
        let nodes = &self.overview["nodes"];
        let late = self.overview["lateness_s"].as_f64().unwrap_or(0.0);
        let second = format!(
            "processes: {} alive, {} stale, {} dead   late: {late:.1} s",
            text(&nodes["alive"]),
            text(&nodes["stale"]),
            text(&nodes["dead"])
        );
        Paragraph::new(vec![Line::from(spans), Line::raw(second)])
    }

    fn draw_chart(&self, frame: &mut Frame, place: Rect) {
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(place);
        for (place, title, field, state) in [
            (left, " completed, minute by minute ", "completed", "completed"),
            (right, " failed, minute by minute ", "failed", "failed"),
        ] {
            let points =
                each(&self.overview["series"], "points").map(|point| point[field].as_u64().unwrap_or(0));
            let points: Vec<u64> = points.collect();
            let room = usize::from(place.width.saturating_sub(2));
            let shown = &points[points.len().saturating_sub(room)..];
            let chart = Sparkline::default().data(shown).style(self.colour(state));
            frame.render_widget(chart.block(Block::bordered().title(title)), place);
        }
    }

    fn draw_list(&mut self, frame: &mut Frame, place: Rect) {
        let columns = self.view.columns();
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let titles = Row::new(columns.iter().map(|(title, ..)| title.to_uppercase())).style(bold);
        let row = |row: &&Value| {
            Row::new(columns.iter().map(|(_, field, _)| {
                let shown = cell(row, field);
                let style =
                    if *field == "state" || *field == "health" { self.colour(&shown) } else { Style::new() };
                Cell::from(Span::styled(shown, style))
            }))
        };
        let rows: Vec<Row> = self.rows().iter().map(row).collect();
        let empty = rows.is_empty();
        let widths = columns.iter().map(|(.., width)| *width);
        let chosen = Style::new().add_modifier(Modifier::REVERSED);
        let table = Table::new(rows, widths).header(titles).row_highlight_style(chosen);
        let table = table.block(Block::bordered().title(self.title()));
        frame.render_stateful_widget(table, place, &mut self.chosen);
        if empty {
            let inner =
                Rect { x: place.x + 2, y: place.y + 2, width: place.width.saturating_sub(4), height: 1 };
            frame.render_widget(Paragraph::new("nothing to show"), inner.intersection(place));
        }
    }

    fn title(&self) -> Line<'static> {
        let tab = |view: View| {
            let style =
                if view == self.view { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            Span::styled(format!(" {} {} ", view as usize + 1, view.name()), style)
        };
        let mut spans: Vec<Span> = View::ALL.map(tab).into();
        if self.view == View::Runs && self.state > 0 {
            spans.push(Span::raw(format!(" only {} ", STATES[self.state])));
        }
        spans.into()
    }

    fn foot(&self) -> String {
        match &self.asked {
            Some((question, _)) => question.clone(),
            None if !self.note.is_empty() => self.note.clone(),
            None if self.is_held => "held: Space goes on".to_owned(),
            None => "? keys   q leave".to_owned(),
        }
    }

    fn colour(&self, state: &str) -> Style {
        let colour = match state {
            _ if !self.has_colours => return Style::new(),
            "completed" | "alive" => Color::Green,
            "failed" | "abandoned" | "dead" | "tripped" => Color::Red,
            "running" | "undoing" => Color::Cyan,
            "suspended" | "paused" | "blocked" | "stale" | "backoff" => Color::Yellow,
            _ => return Style::new(),
        };
        Style::new().fg(colour)
    }
}

/// What something is steered by.
fn name_of(row: &Value) -> String {
    text(if row["id"].is_null() { &row["name"] } else { &row["id"] })
}

fn is_paused(row: &Value) -> bool {
    row["state"] == "paused" || row["paused"] == true || row["paused"].is_string()
}

fn cell(row: &Value, field: &str) -> String {
    match (field, &row[field]) {
        ("state", Value::Object(_)) if row["paused"].is_string() => "paused".to_owned(),
        ("state", Value::Object(state)) => state.get("kind").map(text).unwrap_or_default(),
        ("name", Value::Null) => text(&row["id"]),
        (_, value) => text(value),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};
    use serde_json::json;

    use super::*;

    fn overview() -> Value {
        json!({
            "states": [{"state": "failed", "count": 3, "estimated": false}, {"state": "completed", "count": 41, "estimated": true}],
            "series": {"points": [{"completed": 1, "failed": 0}, {"completed": 4, "failed": 2}]},
            "nodes": {"alive": 2, "stale": 0, "dead": 1},
            "lateness_s": 1.25,
        })
    }

    fn runs() -> Value {
        json!({"runs": [
            {"id": "run-1", "workflow": "etl", "state": "failed", "key": "k1", "waits_for": null},
            {"id": "run-2", "workflow": "mail", "state": "suspended", "key": null, "waits_for": "the event `approved`"},
        ]})
    }

    fn drawn(screen: &mut Screen) -> String {
        let mut terminal = Terminal::new(TestBackend::new(120, 16)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn screen() -> Screen {
        let mut screen = Screen::new(true);
        screen.update(overview(), runs());
        screen
    }

    #[test]
    fn runs_and_figures_are_on_the_screen() {
        let seen = drawn(&mut screen());
        for part in [
            "failed 3",
            "completed ≥41",
            "2 alive, 0 stale, 1 dead",
            "late: 1.2 s",
            "1 runs",
            "run-2",
            "the event `approved`",
            "? keys",
        ] {
            assert!(seen.contains(part), "{part} is missing:\n{seen}");
        }
    }

    #[test]
    fn nothing_is_done_without_a_yes() {
        let mut screen = screen();
        assert_eq!(screen.press(KeyCode::Char('j')), Deed::Nothing);
        assert_eq!(screen.press(KeyCode::Char('c')), Deed::Nothing);
        assert!(drawn(&mut screen).contains("cancel run-2? y for yes"));
        assert_eq!(screen.press(KeyCode::Char('n')), Deed::Nothing);
        assert_eq!(screen.press(KeyCode::Char('y')), Deed::Nothing, "nobody is asked any more");
        screen.press(KeyCode::Char('c'));
        let deed = screen.press(KeyCode::Char('y'));
        assert!(matches!(deed, Deed::Steer { path, .. } if path == "/runs/run-2/cancel"));
    }

    #[test]
    fn who_has_chosen_a_run_keeps_it_when_others_come() {
        let mut screen = screen();
        screen.press(KeyCode::Down);
        let mut more = runs();
        more["runs"]
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"id": "run-3", "workflow": "etl", "state": "running"}));
        screen.update(overview(), more);
        assert_eq!(screen.press(KeyCode::Enter), Deed::Show("run-2".to_owned()));
        screen.show(vec!["etl run-2 suspended".to_owned()]);
        assert!(drawn(&mut screen).contains("etl run-2 suspended"));
        assert_eq!(screen.press(KeyCode::Esc), Deed::Nothing, "it closes what lies above");
        assert_eq!(screen.press(KeyCode::Esc), Deed::Quit);
    }

    #[test]
    fn each_key_leads_to_its_list() {
        let mut screen = screen();
        assert_eq!(
            (screen.press(KeyCode::Char('s')), screen.path()),
            (Deed::Look, "/runs?limit=200&state=pending".to_owned())
        );
        for path in ["/queues", "/schedules", "/triggers", "/nodes"] {
            assert_eq!((screen.press(KeyCode::Tab), &*screen.path()), (Deed::Look, path));
            assert!(drawn(&mut screen).contains("nothing to show"));
        }
        screen.press(KeyCode::Char('2'));
        screen.update(
            overview(),
            json!({"queues": [{"name": "mail", "depth": 7, "running": 2, "paused": true}]}),
        );
        assert!(drawn(&mut screen).contains("mail"));
        screen.press(KeyCode::Char('p'));
        let deed = screen.press(KeyCode::Char('y'));
        assert!(matches!(deed, Deed::Steer { path, .. } if path == "/queues/mail/resume"));
        screen.press(KeyCode::Char('?'));
        assert!(drawn(&mut screen).contains("only runs in one state"));
    }
}
