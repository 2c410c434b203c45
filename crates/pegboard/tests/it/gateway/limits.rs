//! Limits in the configuration. How calls are refused and wait is tested in `pegboard-gateway`.

use serde_json::json;

use super::{Served, fixture, names, text};

#[tokio::test]
async fn limits_of_the_configuration_hold() {
    let mut small = fixture(&["--extras"]);
    small["maxResultBytes"] = json!(2000);
    small["maxArgumentBytes"] = json!(1000);
    let mut lenient = fixture(&["--extras"]);
    lenient["validateArguments"] = json!(false);
    let config = json!({
        "mcpServers": {"small": small, "lenient": lenient},
        "pegboard": {"exposure": "never", "pageSize": 3, "limits": {"callsPerMinute": 4}}
    });
    let served = Served::start("limits", &config).await;
    let session = served.legacy().await;
    let page = session.request("tools/list", json!({})).await;
    assert_eq!((names(&page, "tools").len(), &page.result()["nextCursor"]), (3, &json!("3")));
    let wrong = json!({"ms": "soon"});
    let refused = text(&session.call("small___slow", wrong.clone()).await);
    assert!(refused.contains("was not called: /ms must be an integer"), "{refused}");
    let checked_there = session.call("lenient___slow", wrong).await;
    assert!(!checked_there.response.to_string().contains("was not called"), "{checked_there:?}");
    let large = text(&session.call("small___large", json!({"bytes": 5000})).await);
    assert!(large.ends_with("2000 are the most that is passed on"), "{large}");
    let long = text(&session.call("small___echo", json!({"message": "x".repeat(2000)})).await);
    assert!(long.ends_with("1000 are the most that it is sent"), "{long}");
    assert_eq!(text(&session.call("small___echo", json!({})).await), "{}");
    let refused = text(&session.call("small___echo", json!({})).await);
    assert!(refused.contains("4 calls a minute are the most"), "{refused}");
}
