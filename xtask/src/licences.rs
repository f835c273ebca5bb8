//! The licences of everything that is built in, without cargo-deny.

use crate::workspace::Workspace;

/// Compares the licence of every crate in the tree with the list in `deny.toml`.
pub(crate) fn check(workspace: &Workspace) -> Result<(), String> {
    let allowed = allowed(&workspace.text("deny.toml")?)?;
    let arguments = [
        "tree",
        "--workspace",
        "--all-features",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--no-dedupe",
        "--format",
        "{p}|{l}",
    ];
    let printed = workspace.read(&mut workspace.cargo(&arguments))?;
    let mut crates: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    crates.sort_unstable();
    crates.dedup();
    let mut wrong = Vec::new();
    for line in &crates {
        let (package, licence) = line.split_once('|').unwrap_or((line, ""));
        match permits(licence, &allowed) {
            Ok(true) => {}
            Ok(false) => wrong.push(format!("{package} is under `{licence}`")),
            Err(why) => wrong.push(format!("{package}: `{licence}` cannot be read: {why}")),
        }
    }
    if wrong.is_empty() {
        println!("{} crates are under licences that deny.toml allows", crates.len());
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
}

/// The `allow` list of deny.toml, so that there is only one list.
fn allowed(deny: &str) -> Result<Vec<String>, String> {
    let lines = deny.lines().map(str::trim);
    let list: Vec<&str> =
        lines.skip_while(|line| *line != "allow = [").skip(1).take_while(|line| *line != "]").collect();
    if list.is_empty() {
        return Err("deny.toml has no `allow = [` with one licence on each line".into());
    }
    Ok(list.iter().filter_map(|line| line.split('"').nth(1)).map(String::from).collect())
}

/// Whether a licence expression can be met with allowed licences alone.
fn permits(expression: &str, allowed: &[String]) -> Result<bool, String> {
    // Crates from before the standard write `MIT/Apache-2.0`.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    let met = reader.any()?;
    if reader.words.is_empty() { Ok(met) } else { Err(format!("`{}` is one word too many", reader.words[0])) }
}

/// Reads `A OR B AND (C OR D WITH E)`.
struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl Reader<'_> {
    fn any(&mut self) -> Result<bool, String> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Ok(met)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Ok(met)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let met = self.any()?;
            return if self.take(")") { Ok(met) } else { Err("a bracket is not closed".into()) };
        }
        let (name, rest) = self.words.split_first().ok_or("it ends too early")?;
        self.words = rest;
        if self.take("WITH") {
            let (exception, rest) = self.words.split_first().ok_or("it ends too early")?;
            self.words = rest;
            return Ok(self.allows(&format!("{name} WITH {exception}")) || self.allows(name));
        }
        Ok(self.allows(name))
    }

    fn allows(&self, name: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed == name)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_met_when_one_of_its_alternatives_is() {
        let allowed = ["MIT".to_string(), "Apache-2.0".to_string()];
        let met = |expression| permits(expression, &allowed);
        assert_eq!(met("MIT"), Ok(true));
        assert_eq!(met("GPL-3.0 OR MIT"), Ok(true));
        assert_eq!(met("GPL-3.0/MIT"), Ok(true));
        assert_eq!(met("GPL-3.0 AND MIT"), Ok(false));
        assert_eq!(met("(MIT OR GPL-3.0) AND (Apache-2.0 WITH LLVM-exception OR GPL-3.0)"), Ok(true));
        assert_eq!(met("(MIT OR GPL-3.0) AND MPL-2.0"), Ok(false));
        assert_eq!(met("MPL-2.0"), Ok(false));
    }

    #[test]
    fn a_missing_or_broken_expression_is_an_error_and_not_a_licence() {
        assert!(permits("", &[]).is_err());
        assert!(permits("(MIT", &["MIT".into()]).is_err());
        assert!(permits("MIT MIT", &["MIT".into()]).is_err());
    }

    #[test]
    fn the_list_is_read_from_deny_toml() {
        let deny = "[licenses]\n# why\nallow = [\n    \"MIT\", # ours\n    \"ISC\",\n]\nother = 1\n";
        assert_eq!(allowed(deny), Ok(vec!["MIT".to_string(), "ISC".to_string()]));
        assert!(allowed("[licenses]").is_err());
    }
}
