//! Colours, where somebody sees them and wants them.

use std::ffi::OsStr;

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Colours,
    Plain,
}

impl Paint {
    /// Colours are for terminals, and for people who have not said `NO_COLOR`.
    pub(crate) fn chosen(is_terminal: bool, no_color: Option<&OsStr>) -> Self {
        match is_terminal && no_color.is_none_or(OsStr::is_empty) {
            true => Self::Colours,
            false => Self::Plain,
        }
    }

    /// The kind of what a doctor found, in its colour.
    pub(crate) fn finding(self, kind: &str) -> String {
        match (self, kind) {
            (Self::Colours, "wrong") => format!("\x1b[31m{kind:6}\x1b[0m"),
            (Self::Colours, _) => format!("\x1b[33m{kind:6}\x1b[0m"),
            (Self::Plain, _) => format!("{kind:6}"),
        }
    }

    /// The name of a state, in its colour.
    pub(crate) fn state(self, state: &str) -> String {
        let colour = match state {
            "completed" | "alive" => 32,
            "failed" | "abandoned" | "dead" | "tripped" => 31,
            "running" | "undoing" => 36,
            "suspended" | "paused" | "blocked" | "stale" | "backoff" => 33,
            _ => return state.to_owned(),
        };
        match self {
            Self::Colours => format!("\x1b[{colour}m{state}\x1b[0m"),
            Self::Plain => state.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_colours_in_a_terminal_unless_somebody_wants_none() {
        assert_eq!(Paint::chosen(true, None), Paint::Colours);
        assert_eq!(Paint::chosen(true, Some(OsStr::new(""))), Paint::Colours);
        assert_eq!(Paint::chosen(true, Some(OsStr::new("1"))), Paint::Plain);
        assert_eq!(Paint::chosen(false, None), Paint::Plain);
        assert_eq!(Paint::Plain.state("failed"), "failed");
        assert_eq!(Paint::Colours.state("failed"), "\x1b[31mfailed\x1b[0m");
    }
}
