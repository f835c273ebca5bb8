//! The SQL that the documentation shows does what it says.

use crate::Schema;

const PAGE: &str = include_str!("../../../../docs/your-transaction.md");

#[tokio::test]
async fn every_block_of_the_page_runs() {
    let schema = Schema::new().await;
    let role = format!("shop_{}", uuid::Uuid::now_v7().simple());
    schema.execute("CREATE TEMP TABLE orders (id integer PRIMARY KEY, total integer NOT NULL)").await;
    let blocks: Vec<&str> =
        PAGE.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        let sql = block.replace("windlass.notify", "{notify}").replace("SCHEMA windlass", "SCHEMA {s}");
        let sql = sql.replace("windlass.", "{s}.").replace("{notify}", "windlass.notify");
        schema.execute(&sql.replace(" shop", &format!(" {role}"))).await;
    }
    let topics = "(SELECT string_agg(topic, ' ' ORDER BY seq) FROM {s}.inbox)";
    assert_eq!(schema.one(topics).await, "paid !cancel");
    let runs = "(SELECT string_agg(workflow || coalesce(' ' || key, ''), ', ' ORDER BY id) FROM {s}.run)";
    assert_eq!(schema.one(runs).await, "order order-17, report report-17, report");
    schema.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}
