//! What can be asked, and where.

mod audit;
mod bulk;
mod health;
mod hooks;
mod keys;
pub(crate) mod live;
mod logs;
mod metrics;
mod nodes;
mod overview;
mod queues;
mod runs;
mod schedules;
mod session;
mod statistics;
mod steering;
mod triggers;
mod watch;
mod workflows;

use std::sync::LazyLock;

use axum::{
    Json, Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use utoipa::{
    OpenApi,
    openapi::{Info, OpenApi as Document},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{Problem, api::Desk, page::page, way};

#[derive(OpenApi)]
#[openapi(components(schemas(Problem)))]
struct Described;

/// All that is answered, by whatever stands behind.
pub(crate) fn router() -> Router<Desk> {
    let (router, _) = described().split_for_parts();
    router.route("/api/v1/openapi.json", get(document)).fallback(page).method_not_allowed_fallback(not_so)
}

/// What can be asked, as an OpenAPI document in JSON.
#[must_use]
pub fn openapi() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
        let mut document: Document = described().into_openapi();
        document.info = Info::new("Windlass", env!("CARGO_PKG_VERSION"));
        document.info.description = Some("Sees and steers the runs of a Windlass database.".to_owned());
        way::describe(&mut document);
        let json = document.to_pretty_json().expect("a document without maps of other keys is JSON");
        json + "\n"
    });
    &DOCUMENT
}

fn described() -> OpenApiRouter<Desk> {
    OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(runs::list, runs::start))
        .routes(routes!(runs::counts))
        .routes(routes!(bulk::bulk))
        .routes(routes!(runs::show))
        .routes(routes!(runs::document))
        .routes(routes!(runs::events, steering::send))
        .routes(routes!(logs::logs))
        .routes(routes!(watch::watch))
        .routes(routes!(live::live))
        .routes(routes!(steering::cancel))
        .routes(routes!(steering::terminate))
        .routes(routes!(steering::pause))
        .routes(routes!(steering::resume))
        .routes(routes!(steering::retry))
        .routes(routes!(steering::fork))
        .routes(routes!(steering::discard))
        .routes(routes!(workflows::list))
        .routes(routes!(workflows::show))
        .routes(routes!(statistics::statistics))
        .routes(routes!(statistics::grid))
        .routes(routes!(nodes::list))
        .routes(routes!(queues::list))
        .routes(routes!(queues::show, queues::declare, queues::remove))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::show, schedules::remove))
        .routes(routes!(schedules::trigger))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(schedules::reset))
        .routes(routes!(schedules::backfill))
        .routes(routes!(triggers::list))
        .routes(routes!(triggers::show))
        .routes(routes!(triggers::ask))
        .routes(routes!(triggers::pause))
        .routes(routes!(triggers::resume))
        .routes(routes!(triggers::reset))
        .routes(routes!(overview::overview))
        .routes(routes!(health::health))
        .routes(routes!(session::show, session::log_in, session::log_out))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(audit::list))
        .routes(routes!(hooks::list, hooks::create))
        .routes(routes!(hooks::call, hooks::remove))
        .routes(routes!(hooks::rotate))
        .routes(routes!(metrics::metrics))
}

async fn document() -> Response {
    ([(axum::http::header::CONTENT_TYPE, "application/json")], openapi()).into_response()
}

async fn not_so() -> Problem {
    let detail = "nothing is done here in this way: /api/v1/openapi.json says what can be asked";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// An answer, or why there is none.
type Answer<T> = Result<Json<T>, Problem>;
