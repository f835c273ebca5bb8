//! Why a text is not a cron expression, in words that say what to write.

use std::{error::Error, fmt};

use super::CronField;

/// Why a text is not a cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    /// The whole text.
    pub text: String,
    /// The field that is wrong, where it is one.
    pub field: Option<CronField>,
    /// The character at which it is wrong, counted from 1, where it is one.
    pub character: Option<usize>,
    /// What is wrong there.
    pub fault: CronFault,
}

/// What is wrong with a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronFault {
    /// There is nothing to read.
    #[error("it is empty: write five fields, such as `0 2 * * *` for every day at 02:00")]
    Empty,
    /// It has too few or too many fields.
    #[error(
        "it has {found} field{}: write 5 (minutes, hours, days of the month, months, days of the week), or 6 with seconds first",
        if *found == 1 { "" } else { "s" }
    )]
    Fields {
        /// How many it has.
        found: usize,
    },
    /// A field or a part between two commas is missing.
    #[error("something is missing{}", before(next))]
    Missing {
        /// The character before which it is missing; `None` at the end of the field.
        next: Option<char>,
    },
    /// A character has no meaning where it stands.
    #[error("`{found}` has no meaning here: write {allowed}")]
    Character {
        /// The character.
        found: char,
        /// What may be written.
        allowed: String,
    },
    /// A number is too low or too high.
    #[error("`{found}` is not between {low} and {high}")]
    Number {
        /// The number as written.
        found: String,
        /// The lowest.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// A word is none of the names of the field.
    #[error("`{found}` is not a name: {}", names(hint, allowed))]
    Name {
        /// The word.
        found: String,
        /// A name that is spelled nearly the same.
        hint: Option<String>,
        /// What may be written.
        allowed: String,
    },
    /// A range ends before it begins.
    #[error("the range `{found}` ends before it begins: write `{instead}`")]
    Backwards {
        /// The range as written.
        found: String,
        /// The same in two parts.
        instead: String,
    },
    /// A step makes no sense.
    #[error("a step of {found} is not between 1 and {most}: the field has {size} values")]
    Step {
        /// The step as written.
        found: String,
        /// The largest that makes sense.
        most: u32,
        /// How many values the field has.
        size: u32,
    },
    /// A sign is used in a field that does not have it.
    #[error("`{sign}` may be written in the {} only", listed(fields))]
    Elsewhere {
        /// The sign.
        sign: char,
        /// Where it may be written.
        fields: &'static [CronField],
    },
    /// A sign stands with something it cannot stand with.
    #[error("{what}")]
    Together {
        /// What is wrong, and what to write instead.
        what: &'static str,
    },
    /// A word that begins with `@` is not known.
    #[error("`{found}` is not known{}: {NICKNAMES}", meant(hint))]
    Nickname {
        /// The word.
        found: String,
        /// One that is spelled nearly the same.
        hint: Option<&'static str>,
    },
    /// A word that begins with `@` means something else in other programs, and nothing here.
    #[error("{what}")]
    NotATime {
        /// Why not, and what to do instead.
        what: &'static str,
    },
    /// No day is ever like this.
    #[error("it never fires: no year has such a day")]
    Never,
}

const NICKNAMES: &str = "there are @yearly, @monthly, @weekly, @daily and @hourly";

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a cron expression: ", self.text)?;
        match (self.field, self.character) {
            (Some(field), Some(character)) => write!(f, "in the {field}, at character {character}, ")?,
            (None, Some(character)) => write!(f, "at character {character}, ")?,
            (Some(field), None) => write!(f, "in the {field}, ")?,
            (None, None) => {}
        }
        self.fault.fmt(f)
    }
}

impl Error for CronError {}

fn before(next: &Option<char>) -> String {
    next.map_or_else(|| " at the end of the field".to_owned(), |next| format!(" before `{next}`"))
}

fn meant<S: AsRef<str>>(hint: &Option<S>) -> String {
    hint.as_ref().map(|near| format!(", did you mean `{}`?", near.as_ref())).unwrap_or_default()
}

fn names(hint: &Option<String>, allowed: &str) -> String {
    match hint {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write {allowed}"),
    }
}

fn listed(fields: &[CronField]) -> String {
    fields.iter().map(CronField::to_string).collect::<Vec<_>>().join(" and in the ")
}
