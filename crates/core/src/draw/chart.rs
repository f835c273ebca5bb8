//! State machines as pictures.

use std::fmt::Write as _;

use super::dot;
use crate::Chart;

/// The states as a Mermaid state diagram. Their names are Rust's, and need no escapes.
pub(super) fn to_mermaid(chart: &Chart) -> String {
    let mut text = format!("stateDiagram-v2\n    [*] --> {}\n", chart.initial);
    for state in &chart.states {
        for to in &state.to {
            writeln!(text, "    {} --> {to}", state.name).expect("writing to a string succeeds");
        }
        if state.is_terminal {
            writeln!(text, "    {} --> [*]", state.name).expect("writing to a string succeeds");
        }
    }
    text
}

/// The states as a DOT graph.
pub(super) fn to_dot(name: &str, chart: &Chart) -> String {
    let mut text = format!("digraph \"{}\" {{\n    rankdir=TB;\n", dot(name));
    for state in &chart.states {
        let style = match (state.name == chart.initial, state.is_terminal) {
            (_, true) => "peripheries=2",
            (true, false) => "style=bold",
            (false, false) => "shape=ellipse",
        };
        writeln!(text, "    \"{}\" [{style}];", dot(&state.name)).expect("writing to a string succeeds");
    }
    for state in &chart.states {
        for to in &state.to {
            writeln!(text, "    \"{}\" -> \"{}\";", dot(&state.name), dot(to))
                .expect("writing to a string succeeds");
        }
    }
    text + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChartState;

    fn order() -> Chart {
        let state = |name: &str, to: &[&str]| ChartState {
            name: name.into(),
            to: to.iter().map(|to| (*to).into()).collect(),
            is_terminal: to.is_empty(),
        };
        Chart {
            initial: "New".into(),
            states: vec![
                state("New", &["Paid", "Rejected"]),
                state("Paid", &["New"]),
                state("Rejected", &[]),
            ],
        }
    }

    #[test]
    fn mermaid_draws_states_with_their_beginning_and_their_ends() {
        let expected = "stateDiagram-v2
    [*] --> New
    New --> Paid
    New --> Rejected
    Paid --> New
    Rejected --> [*]
";
        assert_eq!(to_mermaid(&order()), expected);
    }

    #[test]
    fn dot_draws_states_with_their_beginning_and_their_ends() {
        let expected = r#"digraph "order" {
    rankdir=TB;
    "New" [style=bold];
    "Paid" [shape=ellipse];
    "Rejected" [peripheries=2];
    "New" -> "Paid";
    "New" -> "Rejected";
    "Paid" -> "New";
}
"#;
        assert_eq!(to_dot("order", &order()), expected);
    }
}
