//! The rule language: `any(failed(load), context("dry_run") == true)`.

use syn::{
    Ident, LitStr, Token,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    token,
};

use crate::{
    json::{self, quoted},
    spelling::did_you_mean,
};

/// When a task runs, once its dependencies have ended.
pub(crate) enum Rule {
    Always,
    All(Vec<Rule>),
    Any(Vec<Rule>),
    None(Vec<Rule>),
    Not(Box<Rule>),
    Task { ended: Ended, task: Ident },
    Context { key: String, op: &'static str, value: Option<String> },
}

/// How a task that a rule asks about has ended.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Ended {
    Succeeded,
    Failed,
    Skipped,
    Done,
}

/// The ways in which a dependency may have ended without leaving a value.
const WITHOUT_VALUE: [Option<Ended>; 3] = [Some(Ended::Failed), Some(Ended::Skipped), None];

const WORDS: [&str; 10] =
    ["always", "succeeded", "failed", "skipped", "done", "context", "all", "any", "none", "not"];
const OPS: [(&str, &str); 6] = [
    ("contains", "Contains"),
    ("not_contains", "NotContains"),
    ("in", "In"),
    ("matches", "Matches"),
    ("exists", "Exists"),
    ("not_exists", "NotExists"),
];

impl Parse for Rule {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error(format!("a rule begins with one of {}", WORDS.join(", "))));
        }
        let word = input.call(Ident::parse_any)?;
        match word.to_string().as_str() {
            "always" => Ok(Self::Always),
            "succeeded" => Self::about_a_task(&word, Ended::Succeeded, input),
            "failed" => Self::about_a_task(&word, Ended::Failed, input),
            "skipped" => Self::about_a_task(&word, Ended::Skipped, input),
            "done" => Self::about_a_task(&word, Ended::Done, input),
            "all" => Ok(Self::All(several(&word, input)?)),
            "any" => Ok(Self::Any(several(&word, input)?)),
            "none" => Ok(Self::None(several(&word, input)?)),
            "not" => {
                let mut rules = several(&word, input)?;
                match (rules.pop(), rules.is_empty()) {
                    (Some(rule), true) => Ok(Self::Not(Box::new(rule))),
                    _ => Err(syn::Error::new(
                        word.span(),
                        "`not(…)` takes one condition\nhelp: for \"none of these\", write `none(…, …)`",
                    )),
                }
            }
            "context" => Self::about_the_context(&word, input),
            other => Err(syn::Error::new(
                word.span(),
                format!(
                    "`{other}` is not part of the rule language{}\nnote: a rule is made of {}",
                    did_you_mean(other, WORDS),
                    "always, succeeded(t), failed(t), skipped(t), done(t), context(\"key\") == value, all(…), any(…), none(…), not(…)",
                ),
            )),
        }
    }
}

impl Rule {
    fn about_a_task(word: &Ident, ended: Ended, input: ParseStream) -> syn::Result<Self> {
        let content = arguments(word, "(t)", input)?;
        let task = content.call(Ident::parse_any).map_err(|error| {
            syn::Error::new(error.span(), format!("`{word}(…)` takes the name of a task: `{word}(load)`"))
        })?;
        end(&content)?;
        Ok(Self::Task { ended, task })
    }

    fn about_the_context(word: &Ident, input: ParseStream) -> syn::Result<Self> {
        let content = arguments(word, "(\"key\")", input)?;
        let key: LitStr = content.parse().map_err(|error| {
            syn::Error::new(
                error.span(),
                "`context(…)` takes a key in quotes: `context(\"dry_run\") == true`",
            )
        })?;
        end(&content)?;
        let op = operator(word, input)?;
        let value = match op {
            "Exists" | "NotExists" => None,
            "In" if !input.is_empty() && !input.peek(token::Bracket) => {
                return Err(input.error("`in` takes a list: `context(\"region\") in [\"eu\", \"us\"]`"));
            }
            _ if input.is_empty() => {
                return Err(syn::Error::new(word.span(), "a value is missing after the comparison"));
            }
            _ => Some(json::read(input)?),
        };
        Ok(Self::Context { key: key.value(), op, value })
    }

    /// The tasks that the rule names, as written.
    pub(crate) fn tasks(&self) -> Vec<&Ident> {
        match self {
            Self::Always | Self::Context { .. } => Vec::new(),
            Self::All(rules) | Self::Any(rules) | Self::None(rules) => {
                rules.iter().flat_map(Self::tasks).collect()
            }
            Self::Not(rule) => rule.tasks(),
            Self::Task { task, .. } => vec![task],
        }
    }

    /// Whether the rule may hold although this dependency left no value.
    ///
    /// It may say yes where a closer look at the whole rule would say no, never the other way.
    pub(crate) fn may_run_without(&self, dependency: &Ident) -> bool {
        WITHOUT_VALUE.iter().any(|ended| self.may_be(true, dependency, *ended))
    }

    /// Whether the rule may come out like this when the dependency has ended so, whatever else is the case.
    /// `None` is a dependency that was cancelled.
    fn may_be(&self, truth: bool, dependency: &Ident, ended: Option<Ended>) -> bool {
        let all = |rules: &[Self], truth| rules.iter().all(|rule| rule.may_be(truth, dependency, ended));
        let any = |rules: &[Self], truth| rules.iter().any(|rule| rule.may_be(truth, dependency, ended));
        match (self, truth) {
            (Self::Always, truth) => truth,
            (Self::All(rules), true) => all(rules, true),
            (Self::All(rules), false) => any(rules, false),
            (Self::Any(rules), true) => any(rules, true),
            (Self::Any(rules), false) => all(rules, false),
            (Self::None(rules), true) => all(rules, false),
            (Self::None(rules), false) => any(rules, true),
            (Self::Not(rule), truth) => rule.may_be(!truth, dependency, ended),
            (Self::Task { ended: asked, task }, truth) if task.unraw() == dependency.unraw() => {
                (*asked == Ended::Done || Some(*asked) == ended) == truth
            }
            (Self::Task { ended: Ended::Done, .. }, truth) => truth,
            (Self::Task { .. } | Self::Context { .. }, _) => true,
        }
    }

    /// Whether the rule always holds.
    pub(crate) fn is_always(&self) -> bool {
        matches!(self, Self::Always)
    }

    /// The rule in its JSON form, with each task under the name that `name` gives it.
    pub(crate) fn to_json(&self, name: &impl Fn(&Ident) -> String) -> String {
        let list = |kind: &str, rules: &[Self]| {
            let rules: Vec<String> = rules.iter().map(|rule| rule.to_json(name)).collect();
            format!(r#"{{"type":"{kind}","conditions":[{}]}}"#, rules.join(","))
        };
        match self {
            Self::Always => r#"{"type":"Always"}"#.to_owned(),
            Self::All(rules) => list("All", rules),
            Self::Any(rules) => list("Any", rules),
            Self::None(rules) => list("None", rules),
            Self::Not(rule) => list("Not", std::slice::from_ref(rule)),
            Self::Task { ended, task } => {
                let kind = match ended {
                    Ended::Succeeded => "TaskSuccess",
                    Ended::Failed => "TaskFailed",
                    Ended::Skipped => "TaskSkipped",
                    Ended::Done => "TaskDone",
                };
                format!(r#"{{"type":"{kind}","task_name":{}}}"#, quoted(&name(task)))
            }
            Self::Context { key, op, value } => {
                let value = value.as_ref().map(|value| format!(r#","value":{value}"#)).unwrap_or_default();
                format!(r#"{{"type":"ContextValue","key":{},"operator":"{op}"{value}}}"#, quoted(key))
            }
        }
    }
}

fn arguments<'a>(
    word: &Ident,
    shape: &str,
    input: ParseStream<'a>,
) -> syn::Result<syn::parse::ParseBuffer<'a>> {
    if !input.peek(token::Paren) {
        return Err(syn::Error::new(word.span(), format!("`{word}` needs parentheses: `{word}{shape}`")));
    }
    let content;
    parenthesized!(content in input);
    Ok(content)
}

fn several(word: &Ident, input: ParseStream) -> syn::Result<Vec<Rule>> {
    let content = arguments(word, "(…)", input)?;
    Ok(Punctuated::<Rule, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

fn end(content: ParseStream) -> syn::Result<()> {
    if content.is_empty() { Ok(()) } else { Err(content.error("nothing more is expected here")) }
}

fn operator(word: &Ident, input: ParseStream) -> syn::Result<&'static str> {
    macro_rules! symbol {
        ($($token:tt => $name:literal),*) => {
            $(if input.peek(Token![$token]) {
                input.parse::<Token![$token]>()?;
                return Ok($name);
            })*
        };
    }
    symbol!(== => "Equals", != => "NotEquals", >= => "GreaterOrEqual", <= => "LessOrEqual", > => "GreaterThan", < => "LessThan");
    let hint =
        "note: compare with ==, !=, >, >=, <, <=, contains, not_contains, in, matches, exists or not_exists";
    if input.peek(Token![=]) {
        return Err(input.error(format!("a comparison is written `==`\n{hint}")));
    }
    if !input.peek(Ident::peek_any) {
        let place = if input.is_empty() { word.span() } else { input.span() };
        return Err(syn::Error::new(place, format!("`context(…)` must be compared with something\n{hint}")));
    }
    let op = input.call(Ident::parse_any)?;
    let text = op.to_string();
    OPS.iter().find(|(name, _)| *name == text).map(|(_, op)| *op).ok_or_else(|| {
        let near = did_you_mean(&text, OPS.map(|(name, _)| name));
        syn::Error::new(op.span(), format!("`{text}` is not a comparison{near}\n{hint}"))
    })
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;

    fn rule(text: &str) -> Rule {
        syn::parse_str(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        syn::parse_str::<Rule>(text).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn every_word_of_the_language_has_its_json_form() {
        let name = |task: &Ident| format!("the-{task}");
        for (text, json) in [
            ("always", r#"{"type":"Always"}"#),
            ("succeeded(a)", r#"{"type":"TaskSuccess","task_name":"the-a"}"#),
            ("done(a)", r#"{"type":"TaskDone","task_name":"the-a"}"#),
            (
                "not(skipped(a))",
                r#"{"type":"Not","conditions":[{"type":"TaskSkipped","task_name":"the-a"}]}"#,
            ),
            ("all()", r#"{"type":"All","conditions":[]}"#),
            (
                r#"any(failed(a), context("dry_run") == true,)"#,
                r#"{"type":"Any","conditions":[{"type":"TaskFailed","task_name":"the-a"},{"type":"ContextValue","key":"dry_run","operator":"Equals","value":true}]}"#,
            ),
            (
                r#"context("a\"b") in ["x", -2, 1.5, null, [true]]"#,
                r#"{"type":"ContextValue","key":"a\"b","operator":"In","value":["x",-2,1.5,null,[true]]}"#,
            ),
            (r#"context("k") not_exists"#, r#"{"type":"ContextValue","key":"k","operator":"NotExists"}"#),
            (
                r#"context("k") >= 1e3"#,
                r#"{"type":"ContextValue","key":"k","operator":"GreaterOrEqual","value":1000.0}"#,
            ),
        ] {
            assert_eq!(rule(text).to_json(&name), json);
        }
    }

    #[test]
    fn a_rule_that_may_hold_without_a_value_is_found() {
        let load = Ident::new("load", Span::call_site());
        for text in [
            "always",
            "failed(load)",
            "done(load)",
            "any(succeeded(load), failed(other))",
            "not(succeeded(load))",
            r#"context("x") == 1"#,
            "all()",
            "all(done(load), succeeded(other))",
            "none(failed(load))",
        ] {
            assert!(rule(text).may_run_without(&load), "{text}");
        }
    }

    #[test]
    fn a_rule_that_needs_the_value_is_known_to() {
        let load = Ident::new("load", Span::call_site());
        for text in [
            "succeeded(load)",
            r#"all(succeeded(load), context("x") == 1)"#,
            "any(succeeded(load), all(succeeded(load), failed(other)))",
            "not(not(succeeded(load)))",
            "none(not(succeeded(load)))",
            "any()",
            "not(always)",
        ] {
            assert!(!rule(text).may_run_without(&load), "{text}");
        }
    }

    #[test]
    fn mistakes_are_answered_with_what_to_type() {
        for (text, part) in [
            ("sucess(a)", "`sucess` is not part of the rule language"),
            ("faild(a)", "did you mean `failed`?"),
            ("failed", "`failed` needs parentheses: `failed(t)`"),
            ("failed(\"a\")", "takes the name of a task"),
            ("context(k) == 1", "takes a key in quotes"),
            (r#"context("k")"#, "must be compared with something"),
            (r#"context("k") = 1"#, "written `==`"),
            (r#"context("k") contain 1"#, "did you mean `contains`?"),
            (r#"context("k") == yes"#, "not a value"),
            (r#"context("k") in 3"#, "`in` takes a list"),
            ("not(failed(a), failed(b))", "takes one condition"),
            (r#"context("k") == 99999999999999999999"#, "too large"),
        ] {
            let said = refusal(text);
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
