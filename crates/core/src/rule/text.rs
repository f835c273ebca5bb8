//! Rules as people write them.

use std::fmt;

use super::{Op, Rule};

impl Op {
    /// The operator as the rule language writes it.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Contains => "contains",
            Self::NotContains => "not_contains",
            Self::In => "in",
            Self::Matches => "matches",
            Self::Exists => "exists",
            Self::NotExists => "not_exists",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

impl fmt::Display for Rule {
    /// The rule in the rule language: `any(failed(load), context("dry_run") == true)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::All(rules) => group(f, "all", rules),
            Self::Any(rules) => group(f, "any", rules),
            Self::None(rules) => group(f, "none", rules),
            Self::Not(rule) => write!(f, "not({rule})"),
            Self::Succeeded(task) => write!(f, "succeeded({task})"),
            Self::Failed(task) => write!(f, "failed({task})"),
            Self::Skipped(task) => write!(f, "skipped({task})"),
            Self::Done(task) => write!(f, "done({task})"),
            Self::Context { key, op: op @ (Op::Exists | Op::NotExists), .. } => {
                write!(f, "context({key:?}) {op}")
            }
            Self::Context { key, op, value } => write!(f, "context({key:?}) {op} {value}"),
        }
    }
}

fn group(f: &mut fmt::Formatter<'_>, name: &str, rules: &[Rule]) -> fmt::Result {
    write!(f, "{name}(")?;
    for (at, rule) in rules.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(f, "{comma}{rule}")?;
    }
    f.write_str(")")
}
