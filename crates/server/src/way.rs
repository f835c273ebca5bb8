//! The ways of asking, and which role each needs.
//!
//! Looking needs a viewer and changing an operator, unless the description of a way says otherwise: `security(("key" =
//! ["admin"]))` beside it asks for an admin, and `security(())` for nobody.

use std::{collections::HashMap, sync::LazyLock};

use axum::{extract::MatchedPath, extract::Request, http::Method};
use serde_json::Value;
use utoipa::openapi::{
    Content, OpenApi as Document, Ref, ResponseBuilder,
    path::{Operation, PathItem},
    security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};

use crate::{Role, door::COOKIE};

/// What the paths of all ways begin with.
pub(crate) const ROOT: &str = "/api/v1";

/// A way of asking, as the document describes it.
#[derive(Debug)]
pub(crate) struct Way {
    /// The id of the operation.
    pub(crate) id: String,
    /// Who may ask; `None` is everybody.
    pub(crate) needs: Option<Role>,
    /// Whether its path names something.
    pub(crate) is_named: bool,
}

impl Way {
    /// The way that this request goes, if there is one.
    pub(crate) fn of(request: &Request) -> Option<&'static Self> {
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        // Whoever mounts the router has a path before ours, and it may even look like ours.
        let matched = request.extensions().get::<MatchedPath>()?.as_str();
        TABLE.get(&matched[matched.rfind(ROOT)?..])?.get(method.as_str())
    }
}

/// The role that this request needs. What is not described is of nobody's business without a key either.
pub(crate) fn needs(request: &Request) -> Option<Role> {
    match Way::of(request) {
        Some(way) => way.needs,
        None => request.uri().path().starts_with("/api").then(|| by_method(request.method().is_safe())),
    }
}

/// By path and method.
static TABLE: LazyLock<HashMap<String, HashMap<String, Way>>> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(crate::openapi()).expect("the document is JSON");
    let paths = document["paths"].as_object().into_iter().flatten();
    let way = |path: &str, way: &Value| Way {
        id: way["operationId"].as_str().unwrap_or_default().to_owned(),
        needs: read(&way["security"]),
        is_named: path.contains('{'),
    };
    let ways = |path: &str, ways: &Value| {
        let ways = ways.as_object().into_iter().flatten();
        ways.map(|(method, said)| (method.to_uppercase(), way(path, said))).collect()
    };
    paths.map(|(path, item)| (path.clone(), ways(path, item))).collect()
});

/// Whatever is not understood needs the most.
fn read(security: &Value) -> Option<Role> {
    match &security[0] {
        Value::Object(nobody) if nobody.is_empty() => None,
        needed => {
            let role = needed["key"][0].as_str().and_then(|role| role.parse().ok());
            Some(role.unwrap_or(Role::Admin))
        }
    }
}

const fn by_method(is_look: bool) -> Role {
    if is_look { Role::Viewer } else { Role::Operator }
}

/// Says of every way in the document what it needs.
pub(crate) fn describe(document: &mut Document) {
    for item in document.paths.paths.values_mut() {
        let PathItem { get, put, post, delete, patch, .. } = item;
        get.iter_mut().for_each(|way| demand(way, by_method(true)));
        [put, post, delete, patch].into_iter().flatten().for_each(|way| demand(way, by_method(false)));
    }
    let components = document.components.get_or_insert_default();
    let cookie = ApiKeyValue::with_description(
        COOKIE,
        "What `POST /session` sets. Changes need the header `x-windlass-csrf: 1` too",
    );
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    components.add_security_scheme("key", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
}

/// Whatever is asked may be refused, or not be carried out for now.
fn promise_problems(way: &mut Operation) {
    for (family, words) in [("4XX", "It is refused"), ("5XX", "It cannot be carried out now")] {
        let problem = Content::new(Some(Ref::from_schema_name("Problem")));
        let response = ResponseBuilder::new().description(words).content("application/problem+json", problem);
        way.responses.responses.entry(family.to_owned()).or_insert_with(|| response.build().into());
    }
}

fn demand(way: &mut Operation, role: Role) {
    promise_problems(way);
    let said = way.security.get_or_insert_with(|| vec![SecurityRequirement::new("key", [role.name()])]);
    let needs = said.first().and_then(|said| read(&serde_json::json!([said])));
    if let Some(role) = needs {
        said.push(SecurityRequirement::new("session", [role.name()]));
    }
}
