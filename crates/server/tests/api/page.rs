//! The page: wherever it stands, it finds its files, and it may do no more than it must.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, Response},
};
use tower::ServiceExt;
use windlass::{prelude::*, testing::Lab};

use crate::app::App;

async fn ask(router: &Router, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
    let request =
        headers.iter().fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> &'a str {
    response.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

/// What the page refers to, as a browser that has it from this path looks for it.
fn references(html: &str, path: &str) -> Vec<String> {
    let above = &path[..=path.rfind('/').unwrap()];
    let quoted = html.split('"').filter(|text| text.starts_with('.') && text.len() > 3);
    quoted.map(|text| resolve(above, text)).filter(|path| !path.ends_with('/')).collect()
}

fn resolve(above: &str, reference: &str) -> String {
    let mut parts: Vec<&str> = above.trim_end_matches('/').split('/').collect();
    for part in reference.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[windlass::test]
async fn the_page_finds_its_files_under_the_path_of_every_view(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let nested = Router::new().nest("/tenants/{name}/windlass", app.router.clone());
    let service = Router::new().nest_service("/w", app.router.clone());
    for (router, prefix, root) in
        [(&app.router, "", "/"), (&nested, "/tenants/acme/windlass", ""), (&service, "/w", "/")]
    {
        for view in
            [root, "/runs", "/runs/0198c2f4-7c1e-7cc0-8f4f-5d2c7b9f1a11", "/workflows/etl", "/a/b/c/d"]
        {
            let path = format!("{prefix}{view}");
            let page = ask(router, &path, &[]).await;
            assert_eq!((page.status().as_u16(), header(&page, "cache-control")), (200, "no-store"), "{path}");
            let references = references(&text(page).await, &path);
            assert!(references.len() > 2, "{path}: {references:?}");
            for file in references {
                assert!(file.starts_with(&format!("{prefix}/assets/")), "{path}: {file}");
                assert_eq!(ask(router, &file, &[]).await.status(), 200, "{path}: {file}");
            }
        }
    }
    Ok(())
}

#[windlass::test]
async fn files_are_kept_for_ever_and_packed_for_whoever_takes_that(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let html = text(ask(&app.router, "/", &[]).await).await;
    let script = references(&html, "/").into_iter().find(|file| file.ends_with(".js")).unwrap();
    let plain = ask(&app.router, &script, &[]).await;
    assert!(header(&plain, "cache-control").ends_with("immutable"), "{plain:?}");
    assert_eq!(header(&plain, "content-type"), "text/javascript; charset=utf-8");
    let packed = ask(&app.router, &script, &[("accept-encoding", "gzip, br")]).await;
    assert_eq!((header(&packed, "content-encoding"), header(&packed, "vary")), ("gzip", "accept-encoding"));
    let packed = to_bytes(packed.into_body(), usize::MAX).await?;
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() * 2 < text(plain).await.len());
    Ok(())
}

#[windlass::test]
async fn the_page_may_load_and_ask_nothing_from_elsewhere(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    let page = ask(&app.router, "/runs", &[]).await;
    let policy = header(&page, "content-security-policy").to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    let html = text(page).await;
    assert!(!html.contains("://") && !html.contains("<style") && !html.contains("style="), "{html}");
    Ok(())
}

#[windlass::test]
async fn what_is_no_view_is_a_problem(lab: Lab) -> Result<()> {
    let app = App::new(&lab).await;
    assert_eq!(ask(&app.router, "/assets/old-1234.js", &[]).await.status(), 404);
    let request =
        Request::builder().method(Method::POST).uri("/runs").header("content-type", "application/json");
    app.ask(request.body(Body::empty()).unwrap()).await.is_problem(404, "not_found");
    Ok(())
}
