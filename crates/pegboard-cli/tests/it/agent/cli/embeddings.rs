//! An agent whose searches use the vectors of an endpoint, available and unavailable.

use std::time::Instant;

use pegboard_testkit::embedder::{Behavior, Endpoint, EndpointLimits};

use super::*;

/// Returns a place whose configuration names `endpoint`.
fn place(test: &str, endpoint: &Endpoint) -> Place {
    let place = Place::new(test, []);
    let embeddings = json!({"url": endpoint.url(), "model": "test-model", "queryTimeout": "60s"});
    let server = fixture(&["--tools", "40"]);
    place.file("pegboard.json", &json!({"mcpServers": {"one": server}, "pegboard": {"embeddings": embeddings}}));
    place
}

/// Lets the model search for `query` and answer, run after run until the outcome satisfies `is_it`:
/// tools are embedded while the model thinks. The outcome is the search result for the model, and
/// standard error.
fn run_until(place: &Place, query: &str, is_it: impl Fn(&str, &str) -> bool) -> (String, String) {
    let start = Instant::now();
    loop {
        place.provider.go_on([turn([Part::call("search_tools", json!({"query": query}))]), say("Done.")]);
        let output = place.ask(&["pegboard.json", "Do it.", "--dialect", "bridge"]);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "Done.\n"), "{}", show(&output));
        let requests = place.provider.requests();
        let messages = &requests.last().expect("a request").body["messages"];
        let (told, said) = (messages.to_string(), stderr(&output));
        if is_it(&told, &said) {
            return (told, said);
        }
        assert!(start.elapsed() < PATIENCE, "{told}\n{said}");
    }
}

#[test]
fn an_agent_finds_what_the_endpoint_understands() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    endpoint.means(&["зв", "audio"], "audio");
    let place = place("embeddings", &endpoint);
    let (_, said) = run_until(&place, "зв", |told, _| told.contains("test_audio_content"));
    assert!(!said.contains("embeddings"), "{said}");
    place.provider.assert_clean();
}

#[test]
fn an_agent_goes_on_without_the_endpoint_and_says_so() {
    for (test, conduct, reason) in [
        ("embeddings-refuses", Behavior::Refuses(500, Some(60)), "500"),
        ("embeddings-garbage", Behavior::Garbage, "invalid response"),
    ] {
        let endpoint = Endpoint::start(EndpointLimits::default());
        endpoint.set_behavior(conduct);
        let place = place(test, &endpoint);
        let (told, said) = run_until(&place, "audio", |_, said| said.contains("embeddings endpoint failed"));
        assert!(told.contains("test_audio_content"), "{told}");
        assert!(said.contains(reason), "{said}");
        place.provider.assert_clean();
    }
}

#[test]
fn an_agent_does_not_wait_for_an_endpoint_that_is_gone() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let place = place("embeddings-gone", &endpoint);
    // The tools are on disk then, so that it is the query which fails.
    run_until(&place, "audio", |_, _| endpoint.requests().iter().any(|texts| texts == &["audio"]));
    drop(endpoint);
    let (told, said) = run_until(&place, "image", |_, said| said.contains("embeddings endpoint failed"));
    assert!(told.contains("test_image_content"), "{told}");
    assert!(said.contains("cannot reach the endpoint"), "{said}");
}
