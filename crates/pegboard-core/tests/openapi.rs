//! An OpenAPI 3 description as a catalog, through the public API.

use pegboard_core::{Annotations, Catalog, LoadLimits, load};
use serde_json::{Value, json};

const LIBRARY: &[u8] = include_bytes!("data/library.openapi.json");

fn library() -> Catalog {
    let loaded =
        load::parse("library.openapi.json", LIBRARY, &LoadLimits::default()).expect("the description is usable");
    assert_eq!(loaded.warnings, []);
    let (catalog, warnings) = Catalog::from_tools(loaded.tools);
    assert_eq!(warnings, []);
    catalog
}

fn schema(catalog: &Catalog, id: &str) -> Value {
    let tool = catalog.find(id).unwrap_or_else(|| panic!("no tool `{id}`"));
    serde_json::from_str(tool.input_schema().expect("every operation has a schema")).expect("JSON")
}

#[test]
fn every_operation_is_a_tool_in_the_order_of_the_document() {
    let catalog = library();
    let tools: Vec<(&str, &str)> = catalog.iter().map(|tool| (tool.name(), tool.description())).collect();
    assert_eq!(
        tools,
        [
            ("searchBooks", "Search books by title, author or ISBN.\nResults are sorted by relevance."),
            ("books_add", "Add a book. Needs the role of a librarian."),
            ("post_books_by_bookId_loans", "Lend a book"),
            ("delete_member", "Deprecated. Remove a member"),
            ("searchBooks_caa40a54", "Replace a member"),
        ]
    );
}

#[test]
fn the_title_names_the_server() {
    let catalog = library();
    let server = catalog.servers()[0];
    assert_eq!(
        (server.name.as_str(), server.description.as_str()),
        ("town-library", "Lend, return and reserve books.")
    );
    assert!(catalog.iter().all(|tool| tool.server_name() == Some("town-library")));
    assert_eq!(catalog.find("town-library/books_add").and_then(|tool| tool.category()), Some("Books"));
}

#[test]
fn methods_say_what_a_call_does() {
    let hints: Vec<Annotations> = library().iter().map(|tool| tool.annotations()).collect();
    let none = Annotations::default();
    assert_eq!(
        hints,
        [
            Annotations { read_only: Some(true), ..none },
            none,
            none,
            Annotations { destructive: Some(true), ..none },
            Annotations { idempotent: Some(true), ..none },
        ]
    );
}

#[test]
fn parameters_of_the_operation_replace_those_of_the_path() {
    assert_eq!(
        schema(&library(), "town-library/searchBooks"),
        json!({
            "type": "object",
            "properties": {
                "language": {"type": "string", "description": "Overrides the one of the path"},
                "q": {"type": "string", "description": "Words of the title"},
            },
            "required": ["q"],
        })
    );
}

#[test]
fn a_body_is_merged_beside_the_parameters() {
    assert_eq!(
        schema(&library(), "town-library/books_add"),
        json!({
            "type": "object",
            "properties": {
                "language": {"type": "string", "enum": ["de", "en"]},
                "title": {"type": "string"},
                "authors": {"type": "array", "items": {"type": "string"}},
                "sequelOf": {"description": "A book on the shelf"},
                "binding": {"oneOf": [{"type": "string", "enum": ["hard", "soft"]}, {"type": "integer"}]},
            },
            "required": ["title", "authors"],
        })
    );
}

#[test]
fn a_body_whose_names_clash_is_one_argument() {
    assert_eq!(
        schema(&library(), "town-library/post_books_by_bookId_loans"),
        json!({
            "type": "object",
            "properties": {
                "bookId": {"type": "integer", "exclusiveMinimum": 0},
                "body": {
                    "type": "object",
                    "required": ["bookId"],
                    "properties": {"bookId": {"type": "integer"}, "days": {"type": ["integer", "null"]}},
                    "description": "The loan",
                },
            },
            "required": ["bookId", "body"],
        })
    );
}

#[test]
fn the_same_bytes_give_the_same_tools() {
    let texts = |catalog: &Catalog| -> Vec<String> {
        catalog.iter().map(|tool| format!("{} {:?} {:?}", tool.id(), tool.description(), tool.input_schema())).collect()
    };
    assert_eq!(texts(&library()), texts(&library()));
}
