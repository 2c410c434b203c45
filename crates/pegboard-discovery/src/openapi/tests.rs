use pegboard_core::RawTool;
use serde_json::{json, value::to_raw_value};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "the tables below read better without marks")]
fn tool(server: &str, name: &str, schema: serde_json::Value) -> RawTool {
    RawTool {
        name: name.into(),
        description: format!("Do {name}. It is long."),
        server: (!server.is_empty()).then(|| server.into()),
        input_schema: to_raw_value(&schema).ok(),
        ..RawTool::default()
    }
}

fn catalog(tools: Vec<RawTool>) -> Catalog {
    Catalog::from_tools(tools).0
}

fn all(catalog: &Catalog) -> Api<'_> {
    Api::new(catalog, &Selection::everything())
}

#[test]
fn a_spec_from_top_to_bottom() {
    let schema = json!({
        "type": "object",
        "properties": {"title": {"type": "string"}, "labels": {"$ref": "#/$defs/Labels"}},
        "required": ["title"],
        "$defs": {"Labels": {"type": "array", "items": {"type": "string"}}}
    });
    let output = to_raw_value(&json!({"type": "object", "properties": {"number": {"type": "integer"}}})).ok();
    let catalog = catalog(vec![RawTool { output_schema: output, ..tool("git hub", "create/issue", schema) }]);
    let api = all(&catalog);
    let server = api.server("Git-Hub").expect("a server");
    let expected = r##"openapi: 3.0.3
info:
  title: git hub
  version: "1"
  description: Paths are relative to the value of the environment variable MCP_API_URL. Send the value of MCP_API_TOKEN as the bearer token, and the arguments of the tool as the JSON object of a POST.
servers:
  - url: /
    description: Placeholder for the value of MCP_API_URL.
security:
  - token: []
paths:
  /tools/mcp/git%20hub/create%2Fissue:
    post:
      operationId: create_issue
      summary: Do create/issue.
      description: Do create/issue. It is long.
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required:
                - title
              properties:
                title:
                  type: string
                labels:
                  "$ref": "#/components/schemas/create_issue_Labels"
      responses:
        "200":
          description: "The tool was called; `success` is true if the call succeeded."
          content:
            application/json:
              schema:
                allOf:
                  - "$ref": "#/components/schemas/Reply"
                  - type: object
                    properties:
                      result:
                        type: object
                        properties:
                          number:
                            type: integer
        "401":
          "$ref": "#/components/responses/Denied"
components:
  securitySchemes:
    token:
      type: http
      scheme: bearer
  responses:
    Done:
      description: "The tool was called; `success` is true if the call succeeded."
      content:
        application/json:
          schema:
            "$ref": "#/components/schemas/Reply"
    Denied:
      description: The token is missing or wrong.
      content:
        application/json:
          schema:
            "$ref": "#/components/schemas/Reply"
  schemas:
    Reply:
      type: object
      required:
        - success
        - result
        - error
      properties:
        success:
          type: boolean
        result:
          nullable: true
          description: "Result of the tool: any JSON value, or a string if the tool returned plain text."
        error:
          type: string
          nullable: true
          description: Error message, or null if the call succeeded.
    create_issue_Labels:
      type: array
      items:
        type: string
"##;
    assert_eq!(server.spec(None, 20_000), expected);
    let only = server.tool("CreateIssue").expect("a tool");
    assert_eq!(server.spec(Some(only), 20_000), expected);
}

#[test]
fn names_are_told_apart_and_stay() {
    let names = ["send mail", "send-mail", "送信", "削除", "2fa"];
    let catalog = catalog(names.iter().map(|name| tool("s", name, json!({}))).collect());
    let api = all(&catalog);
    let server = api.server("s").expect("a server");
    let text = server.spec(None, 20_000);
    for id in ["send_mail", "send_mail_2", "tool", "tool_2", "_2fa"] {
        assert_eq!(
            text.matches(&format!("operationId: {id}\n")).count() + text.matches(&format!("\"{id}\"\n")).count(),
            1,
            "{id}"
        );
    }
    let only = server.tool("send-mail").expect("a tool");
    assert!(server.spec(Some(only), 20_000).contains("operationId: send_mail_2\n"));
    // In this spelling it could be either.
    let error = server.tool("SendMail").expect_err("two of them");
    assert_eq!(error, "no tool `SendMail` on `s`; nearest names: send mail, send-mail");
}

#[test]
fn a_large_server_is_told_in_short() {
    let schema = json!({"properties": {"a_parameter": {"type": "string", "description": "word ".repeat(50)}}});
    let many = |count: usize| catalog((0..count).map(|at| tool("s", &format!("do_{at}"), schema.clone())).collect());
    let spec = |catalog: &Catalog, tokens: usize| all(catalog).server("s").expect("a server").spec(None, tokens);
    let few = many(5);
    assert!(spec(&few, 20_000).contains("a_parameter"));
    let text = spec(&few, 1000);
    assert!(!text.contains("a_parameter") && text.contains("`tool_name`") && text.contains("do_4:"), "{text}");
    let text = spec(&many(3000), 20_000);
    let tokens = crate::estimate_tokens(&text);
    assert!(tokens <= 20_000 && text.contains("Other tools: do_") && text.contains(" more"), "{tokens}");

    // One tool is told as far as there is room.
    let wide: serde_json::Map<String, serde_json::Value> =
        (0..2000).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    let wide = catalog(vec![tool("s", "wide", json!({"properties": wide, "additionalProperties": false}))]);
    let api = all(&wide);
    let server = api.server("s").expect("a server");
    let text = server.spec(Some(server.tools()[0]), 5000);
    assert!(text.contains("p3:") && !text.contains("p1900") && !text.contains("additionalProperties"), "{text}");
    let text = server.spec(Some(server.tools()[0]), 100);
    assert!(text.contains("/tools/mcp/s/wide") && text.contains("because there are too many"), "{text}");
}

#[test]
fn what_programs_cannot_use_is_left_out() {
    let own = |host: HostTool| host.to_raw();
    let category =
        |category: &str, name: &str| RawTool { category: Some(category.into()), ..tool("", name, json!({})) };
    let mut tools: Vec<RawTool> = HostTool::ALL.map(own).into();
    tools.extend([
        category("human", "confirm"),
        category("structured_output", "answer"),
        category("other", "add"),
        tool("evil", "ask_human", json!({})),
        tool("evil", "..", json!({})),
    ]);
    let catalog = catalog(tools);
    let api = all(&catalog);
    let names = |server: &str| -> Vec<&str> {
        api.server(server).expect("a server").tools().iter().map(|tool| tool.name()).collect()
    };
    assert_eq!(names("custom"), ["get_prompt", "get_resource", "add"]);
    assert_eq!(names("evil"), ["ask_human"]);
}

#[test]
fn tools_are_found_where_paths_lead() {
    let catalog = catalog(vec![
        tool("custom", "add", json!({})),
        tool("", "add_all", json!({})),
        tool("git-hub", "create_issue", json!({})),
        tool("vault", "open", json!({})),
    ]);
    let selection = Selection::everything().deny(["vault"]);
    let check = |server: Option<&str>, name: &str, expected: Result<&str, &[&str]>| {
        let found = find(&catalog, &selection, server, name);
        let found = found.as_ref().map(|tool| tool.id()).map_err(Vec::as_slice);
        assert_eq!(
            found.map_err(|near| near.iter().map(String::as_str).collect::<Vec<_>>()),
            expected.map_err(<[_]>::to_vec),
            "{server:?} {name}"
        );
    };
    check(Some("git-hub"), "create_issue", Ok("git-hub/create_issue"));
    check(Some("GitHub"), "createIssue", Ok("git-hub/create_issue"));
    check(Some("git-hub"), "create_isue", Err(&["create_issue"]));
    check(Some("custom"), "add", Ok("custom/add"));
    check(Some("custom"), "add_all", Err(&[]));
    check(Some("custom"), "ad", Err(&["add"]));
    check(None, "add", Err(&["add_all"]));
    check(None, "AddAll", Ok("add_all"));
    check(Some("vault"), "open", Err(&[]));
    check(Some("nowhere"), &"x".repeat(5000), Err(&[]));
}
