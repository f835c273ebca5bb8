//! Whether an answer is what the API's own description promises.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::app::Answer;

pub static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(windlass_server::openapi()).unwrap());

/// Says in what an answer is not what is promised of this way of asking.
pub fn check(method: &str, path: &str, answer: &Answer) -> Result<(), String> {
    let way = &DOCUMENT["paths"][path][method.to_lowercase()];
    let family = format!("{}XX", answer.status / 100);
    let promised =
        [answer.status.to_string(), family].into_iter().find_map(|status| way["responses"].get(status));
    let promised = promised.ok_or_else(|| format!("the status {} is not described", answer.status))?;
    let essence = answer.kind.split(';').next().unwrap_or_default();
    let Some(contents) = promised["content"].as_object().filter(|contents| !contents.is_empty()) else {
        return answer
            .body
            .is_null()
            .then_some(())
            .ok_or_else(|| format!("a body is not described: {}", answer.body));
    };
    let content = contents.get(essence).ok_or_else(|| format!("the kind `{essence}` is not described"))?;
    if answer.status >= 400 && !answer.body["code"].is_string() {
        return Err(format!("a problem without a code: {}", answer.body));
    }
    match essence.ends_with("json") {
        true => {
            fits(&content["schema"], &answer.body).map_err(|why| format!("the body{why}: {}", answer.body))
        }
        false => Ok(()),
    }
}

/// Says where a value does not fit a schema.
fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.trim_start_matches("#/components/schemas/");
        return fits(&DOCUMENT["components"]["schemas"][name], value);
    }
    if let Some(ways) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let wrong: Vec<String> = ways.iter().filter_map(|way| fits(way, value).err()).collect();
        return if wrong.len() < ways.len() { Ok(()) } else { Err(wrong.join(", or")) };
    }
    if let Some(parts) = schema["allOf"].as_array() {
        // What is flattened is one object, whose parts know each other's fields.
        return fits(&parts.iter().fold(json!({"type": "object"}), merged), value);
    }
    if let Some(known) = schema["enum"].as_array()
        && !known.contains(value)
    {
        return Err(format!(" is none of {known:?}"));
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => return Ok(()),
        one => vec![one.clone()],
    };
    if !types.iter().any(|kind| is_of(kind.as_str().unwrap(), value)) {
        return Err(format!(" is no {types:?}"));
    }
    match value {
        Value::Object(fields) => object(schema, fields),
        Value::Array(items) => items.iter().enumerate().try_for_each(|(place, item)| {
            fits(&schema["items"], item).map_err(|why| format!("[{place}]{why}"))
        }),
        Value::String(text) => format_of(schema["format"].as_str().unwrap_or_default(), text),
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            let low = schema["minimum"].as_f64().is_some_and(|least| number < least);
            let high = schema["maximum"].as_f64().is_some_and(|most| number > most);
            if low || high { Err(" is out of range".to_owned()) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

fn merged(mut whole: Value, part: &Value) -> Value {
    let part = match part["$ref"].as_str() {
        Some(name) => &DOCUMENT["components"]["schemas"][name.trim_start_matches("#/components/schemas/")],
        None => part,
    };
    for (name, schema) in part["properties"].as_object().into_iter().flatten() {
        whole["properties"][name] = schema.clone();
    }
    let required = whole["required"].as_array().into_iter().chain(part["required"].as_array()).flatten();
    whole["required"] = required.cloned().collect();
    whole
}

fn object(schema: &Value, fields: &Map<String, Value>) -> Result<(), String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|name| !fields.contains_key(*name)) {
        return Err(format!(" has no `{missing}`"));
    }
    let Some(known) = schema["properties"].as_object() else {
        let others = &schema["additionalProperties"];
        let rest = fields.iter().filter(|_| others.is_object());
        return rest.into_iter().try_for_each(|(name, value)| within(name, others, value));
    };
    fields.iter().try_for_each(|(name, value)| match known.get(name) {
        Some(schema) => within(name, schema, value),
        None => Err(format!(" has `{name}`, which is not described")),
    })
}

fn within(name: &str, schema: &Value, value: &Value) -> Result<(), String> {
    fits(schema, value).map_err(|why| format!(".{name}{why}"))
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn format_of(format: &str, text: &str) -> Result<(), String> {
    let is_so = match format {
        "uuid" => text.parse::<windlass::RunId>().is_ok(),
        "date-time" => text.parse::<windlass::jiff::Timestamp>().is_ok(),
        _ => true,
    };
    is_so.then_some(()).ok_or_else(|| format!(" is no {format}"))
}

#[test]
fn an_answer_that_was_not_promised_is_found() {
    let answer = |status, body: Value| {
        let kind = if status < 400 { "application/json" } else { "application/problem+json" };
        Answer { status, kind: kind.to_owned(), body }
    };
    let check = |status, body| check("get", "/api/v1/queues/{name}", &answer(status, body)).unwrap_err();
    assert!(check(302, Value::Null).contains("302"));
    assert!(check(200, json!({"name": 7})).contains("name"));
    let problem = json!({"type": "about:blank", "title": "No", "status": 404, "detail": "no"});
    assert!(check(404, problem).contains("without a code"));
}
