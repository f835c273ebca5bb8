//! What of payloads is not shown.

use serde_json::{Map, Value};

/// What stands where something is not shown.
const HIDDEN: &str = "•••";

/// What the names of fields end with that are not shown.
const NAMES: [&str; 15] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "secretkey",
    "token",
    "authorization",
    "auth",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "credentials",
    "cookie",
];

/// The parts of the document of a run that hold payloads, or errors with their values.
const OF_RUN: [&str; 4] = ["input", "context", "output", "failure"];

/// The same of its steps.
const OF_STEP: [&str; 2] = ["output", "detail"];

/// Hides secrets in payloads, or payloads altogether.
#[derive(Clone, Debug)]
pub(crate) struct Redaction {
    names: Vec<String>,
    all: bool,
}

impl Default for Redaction {
    fn default() -> Self {
        Self { names: NAMES.map(str::to_owned).to_vec(), all: false }
    }
}

impl Redaction {
    /// Hides fields of these names too.
    pub(crate) fn add<N: AsRef<str>>(&mut self, names: impl IntoIterator<Item = N>) {
        // One that is empty would be the end of every name.
        self.names.extend(names.into_iter().map(|name| bare(name.as_ref())).filter(|name| !name.is_empty()));
    }

    /// Hides all payloads.
    pub(crate) const fn all(&mut self) {
        self.all = true;
    }

    /// What is shown of a payload.
    pub(crate) fn shown(&self, payload: Value) -> Value {
        match payload {
            Value::Null => Value::Null,
            _ if self.all => HIDDEN.into(),
            Value::Object(mut fields) => {
                self.fields(&mut fields);
                Value::Object(fields)
            }
            Value::Array(elements) => elements.into_iter().map(|element| self.shown(element)).collect(),
            other => other,
        }
    }

    /// Leaves of these fields what is shown.
    pub(crate) fn fields(&self, fields: &mut Map<String, Value>) {
        for (name, value) in fields.iter_mut().filter(|(_, value)| !value.is_null()) {
            *value = if self.hides(name) { HIDDEN.into() } else { self.shown(value.take()) };
        }
    }

    /// What is shown of the document of a run.
    pub(crate) fn document(&self, mut document: Value) -> Value {
        self.parts(&mut document, &OF_RUN);
        let steps = document["steps"].as_array_mut().into_iter().flatten();
        steps.for_each(|step| self.parts(step, &OF_STEP));
        document
    }

    fn parts(&self, of: &mut Value, parts: &[&str]) {
        for part in parts {
            if let Some(payload) = of.get_mut(part) {
                *payload = self.shown(payload.take());
            }
        }
    }

    fn hides(&self, name: &str) -> bool {
        let name = bare(name);
        self.names.iter().any(|end| name.ends_with(&**end))
    }
}

/// A name without what differs between `api_key`, `apiKey` and `X-API-Key`.
fn bare(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_are_secret_by_their_names_are_hidden_wherever_they_are() {
        let mut redaction = Redaction::default();
        redaction.add(["IBAN", "", "--"]);
        let payload = json!({
            "user": "ann", "db_password": "x", "X-API-Key": 7, "tokens": 3, "token": null,
            "orders": [{"iban": "DE1", "accessToken": {"value": "y"}, "author": "bob"}],
        });
        let shown = json!({
            "user": "ann", "db_password": HIDDEN, "X-API-Key": HIDDEN, "tokens": 3, "token": null,
            "orders": [{"iban": HIDDEN, "accessToken": HIDDEN, "author": "bob"}],
        });
        assert_eq!(redaction.shown(payload), shown);
        assert_eq!(redaction.shown(json!("password")), json!("password"), "a value is no name");
    }

    #[test]
    fn all_payloads_of_a_run_may_be_hidden() {
        let mut redaction = Redaction::default();
        redaction.all();
        let document = json!({
            "id": "7", "input": {"a": 1}, "context": null, "output": 3, "failure": {"message": "x"},
            "steps": [{"name": "pay", "output": "y", "detail": [1]}],
        });
        let shown = json!({
            "id": "7", "input": HIDDEN, "context": null, "output": HIDDEN, "failure": HIDDEN,
            "steps": [{"name": "pay", "output": HIDDEN, "detail": HIDDEN}],
        });
        assert_eq!(redaction.document(document), shown);
    }
}
