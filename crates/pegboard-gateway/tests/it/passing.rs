//! What passes through keeps its bytes.

use pegboard_mcp::era::Era;
use serde_json::json;

use super::world::{Server, VENDOR, World, plain, whole};

#[tokio::test]
async fn unknown_fields_numbers_and_key_order_survive() {
    for era in [Era::Legacy, Era::Modern] {
        let definition = json!({"name": "vendor", "inputSchema": {"type": "object"}, "x-vendor": {"z": 1, "a": 2}});
        let server = Server::made(era, vec![definition]);
        let world = World::new(vec![server.config("one")], plain()).await;
        let session = world.legacy().await;
        let listed = session.request("tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"][0]["x-vendor"], json!({"z": 1, "a": 2}), "{era:?}");
        // Written by hand, since a JSON library would tidy it up.
        let arguments = r#"{"z":1.0,"a":[1e2,123456789012345678901234567890],"m":{"y":null,"x":0.10}}"#;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"name":"vendor","arguments":{arguments}}}}}"#
        );
        let response = world.send_text(None, &[("mcp-session-id", session.id())], &body).await;
        let text = whole(response.into_body()).await;
        assert_eq!(text, format!(r#"{{"jsonrpc":"2.0","id":9,"result":{VENDOR}}}"#), "{era:?}");
        assert_eq!(server.calls(), [("vendor".to_owned(), arguments.to_owned())], "{era:?}");
    }
}
