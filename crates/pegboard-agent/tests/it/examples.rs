//! The examples, against the scripted provider.
#![allow(clippy::duplicate_mod, reason = "each example is a program of its own, with the same helpers")]

#[path = "../../examples/custom_tools.rs"]
mod custom_tools;
#[path = "../../examples/tool_search.rs"]
mod tool_search;

#[tokio::test]
async fn documentation_is_found() {
    let (agent, text) = tool_search::run().await.expect("it runs");
    assert!(text.contains("components"), "{text}");
    let visible = agent.visible_tools();
    let expected =
        ["search_tools", "add_tool", "show_all_tools", "remove_tool", "counter_1", "find_library", "read_docs"];
    assert_eq!(visible, expected);
}

#[tokio::test]
async fn functions_are_tools() {
    let report = custom_tools::run().await.expect("it runs");
    assert_eq!(report.notes, 2);
    assert!(report.summary.contains("Milk"), "{report:?}");
}
