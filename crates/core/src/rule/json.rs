//! Rules as JSON, for graphs made from data.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};
use serde_json::Value;

use super::{Op, Rule, RuleError};

/// How deeply rules may be nested. Each level is two levels of JSON, of which readers allow 128.
const DEEPEST: usize = 32;

impl Rule {
    /// Reads a rule from its JSON form.
    ///
    /// ```
    /// use windlass_core::Rule;
    ///
    /// let json = serde_json::json!({"type": "All", "conditions": [{"type": "TaskSucess", "task_name": "a"}]});
    /// let error = Rule::from_json(&json).unwrap_err();
    /// assert_eq!(error.path, "$.conditions[0].type");
    /// ```
    ///
    /// # Errors
    ///
    /// When the JSON is anything but a rule; the error says where and what.
    pub fn from_json(json: &Value) -> Result<Self, RuleError> {
        read(json, &mut Path::default())
    }

    /// Reads a rule from the text of its JSON form.
    ///
    /// # Errors
    ///
    /// When the text is anything but a rule.
    pub fn from_text(json: &str) -> Result<Self, serde_json::Error> {
        // By its bytes: everything else is read so, and shares that code.
        serde_json::from_slice(json.as_bytes())
    }

    /// The rule in its JSON form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("a rule is made of text and JSON values")
    }
}

/// The way from the root to the place that is being read.
#[derive(Default)]
struct Path {
    steps: Vec<String>,
    depth: usize,
}

impl Path {
    fn within<T>(
        &mut self,
        step: String,
        read: impl FnOnce(&mut Self) -> Result<T, RuleError>,
    ) -> Result<T, RuleError> {
        self.steps.push(step);
        let result = read(self);
        self.steps.pop();
        result
    }

    fn error(&self, message: impl Into<String>) -> RuleError {
        RuleError { path: format!("${}", self.steps.concat()), message: message.into() }
    }

    fn error_at(&self, field: &str, message: impl Into<String>) -> RuleError {
        RuleError { path: format!("${}.{field}", self.steps.concat()), message: message.into() }
    }
}

/// The JSON object at a path, with its fields checked off.
struct Fields<'a> {
    map: &'a serde_json::Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn of(json: &'a Value, path: &Path) -> Result<Self, RuleError> {
        let map = json.as_object().ok_or_else(|| path.error("expected an object"))?;
        Ok(Self { map })
    }

    /// Refuses fields that mean nothing here: a misspelt one must not be ignored.
    fn only(&self, known: &[&str], path: &Path) -> Result<(), RuleError> {
        match self.map.keys().find(|field| !known.contains(&field.as_str())) {
            None => Ok(()),
            Some(field) => {
                let hint = hint(field, known);
                Err(path.error_at(field, format!("the field `{field}` is not known here{hint}")))
            }
        }
    }

    fn get(&self, field: &str, path: &Path) -> Result<&'a Value, RuleError> {
        self.map.get(field).ok_or_else(|| path.error(format!("the field `{field}` is missing")))
    }

    fn text(&self, field: &str, path: &Path) -> Result<&'a str, RuleError> {
        self.get(field, path)?.as_str().ok_or_else(|| path.error_at(field, "expected a string"))
    }
}

const TYPES: [&str; 11] = [
    "Always",
    "All",
    "Any",
    "None",
    "Not",
    "TaskSuccess",
    "TaskFailed",
    "TaskSkipped",
    "TaskDone",
    "ContextValue",
    "Conditional",
];

fn read(json: &Value, path: &mut Path) -> Result<Rule, RuleError> {
    if path.depth == DEEPEST {
        return Err(path.error(format!("rules are nested more than {DEEPEST} deep")));
    }
    path.depth += 1;
    let rule = read_one(json, path);
    path.depth -= 1;
    rule
}

fn read_one(json: &Value, path: &mut Path) -> Result<Rule, RuleError> {
    let fields = Fields::of(json, path)?;
    let task = |make: fn(String) -> Rule, path: &Path| {
        fields.only(&["type", "task_name"], path)?;
        fields.text("task_name", path).map(|name| make(name.to_owned()))
    };
    match fields.text("type", path)? {
        "Always" => fields.only(&["type"], path).map(|()| Rule::Always),
        "All" => conditions(&fields, path).map(Rule::All),
        "Any" => conditions(&fields, path).map(Rule::Any),
        "None" => conditions(&fields, path).map(Rule::None),
        "Not" => {
            let mut conditions = conditions(&fields, path)?;
            match (conditions.pop(), conditions.is_empty()) {
                (Some(only), true) => Ok(Rule::Not(Box::new(only))),
                _ => {
                    Err(path
                        .error_at("conditions", "`Not` takes exactly one condition; `None` takes several"))
                }
            }
        }
        "TaskSuccess" => task(Rule::Succeeded, path),
        "TaskFailed" => task(Rule::Failed, path),
        "TaskSkipped" => task(Rule::Skipped, path),
        "TaskDone" => task(Rule::Done, path),
        "ContextValue" => {
            fields.only(&["type", "key", "operator", "value"], path)?;
            comparison(&fields, "key", path)
        }
        "Conditional" => {
            fields.only(&["type", "condition"], path)?;
            let condition = fields.get("condition", path)?;
            path.within(".condition".to_owned(), |path| {
                let fields = Fields::of(condition, path)?;
                fields.only(&["field", "operator", "value"], path)?;
                comparison(&fields, "field", path)
            })
        }
        other => {
            let hint = hint(other, &TYPES);
            Err(path.error_at("type", format!("`{other}` is not a type of rule{hint}")))
        }
    }
}

fn conditions(fields: &Fields<'_>, path: &mut Path) -> Result<Vec<Rule>, RuleError> {
    fields.only(&["type", "conditions"], path)?;
    let list = fields
        .get("conditions", path)?
        .as_array()
        .ok_or_else(|| path.error_at("conditions", "expected an array"))?;
    list.iter()
        .enumerate()
        .map(|(at, json)| path.within(format!(".conditions[{at}]"), |path| read(json, path)))
        .collect()
}

fn comparison(fields: &Fields<'_>, key: &str, path: &Path) -> Result<Rule, RuleError> {
    let named = fields.text("operator", path)?;
    let op = Op::ALL.into_iter().find(|op| op.json_name() == named).ok_or_else(|| {
        let hint = hint(named, &Op::ALL.map(Op::json_name));
        path.error_at("operator", format!("`{named}` is not an operator{hint}"))
    })?;
    let key = fields.text(key, path)?.to_owned();
    let value = match op {
        // What is written beside these two means nothing, so it is not kept.
        Op::Exists | Op::NotExists => Value::Null,
        _ => fields.get("value", path)?.clone(),
    };
    match op {
        Op::In if !value.is_array() => Err(path.error_at("value", "`In` takes an array")),
        Op::Matches if !value.is_string() => Err(path.error_at("value", "`Matches` takes a string")),
        _ => Ok(Rule::Context { key, op, value }),
    }
}

fn hint(word: &str, known: &[&str]) -> String {
    match crate::nearest(word, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; expected one of {}", known.join(", ")),
    }
}

impl Op {
    /// Every operator.
    pub const ALL: [Self; 12] = [
        Self::Eq,
        Self::Ne,
        Self::Gt,
        Self::Ge,
        Self::Lt,
        Self::Le,
        Self::Contains,
        Self::NotContains,
        Self::In,
        Self::Matches,
        Self::Exists,
        Self::NotExists,
    ];

    /// The operator's name in the JSON form.
    #[must_use]
    pub const fn json_name(self) -> &'static str {
        match self {
            Self::Eq => "Equals",
            Self::Ne => "NotEquals",
            Self::Gt => "GreaterThan",
            Self::Ge => "GreaterOrEqual",
            Self::Lt => "LessThan",
            Self::Le => "LessOrEqual",
            Self::Contains => "Contains",
            Self::NotContains => "NotContains",
            Self::In => "In",
            Self::Matches => "Matches",
            Self::Exists => "Exists",
            Self::NotExists => "NotExists",
        }
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut entry = |kind: &str| map.serialize_entry("type", kind);
        match self {
            Self::Always => entry("Always")?,
            Self::All(rules) => {
                entry("All")?;
                map.serialize_entry("conditions", rules)?;
            }
            Self::Any(rules) => {
                entry("Any")?;
                map.serialize_entry("conditions", rules)?;
            }
            Self::None(rules) => {
                entry("None")?;
                map.serialize_entry("conditions", rules)?;
            }
            Self::Not(rule) => {
                entry("Not")?;
                map.serialize_entry("conditions", &[&**rule])?;
            }
            Self::Succeeded(task) => {
                entry("TaskSuccess")?;
                map.serialize_entry("task_name", task)?;
            }
            Self::Failed(task) => {
                entry("TaskFailed")?;
                map.serialize_entry("task_name", task)?;
            }
            Self::Skipped(task) => {
                entry("TaskSkipped")?;
                map.serialize_entry("task_name", task)?;
            }
            Self::Done(task) => {
                entry("TaskDone")?;
                map.serialize_entry("task_name", task)?;
            }
            Self::Context { key, op, value } => {
                entry("ContextValue")?;
                map.serialize_entry("key", key)?;
                map.serialize_entry("operator", op.json_name())?;
                if !matches!(op, Op::Exists | Op::NotExists) {
                    map.serialize_entry("value", value)?;
                }
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Value::deserialize(deserializer)?;
        Self::from_json(&json).map_err(de::Error::custom)
    }
}
