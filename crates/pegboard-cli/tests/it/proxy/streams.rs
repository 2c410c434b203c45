//! One public lifecycle for each stream.

use pegboard_testkit::provider::{
    Noise, Output, Part, Provider, Quirk, Script, ScriptedTurn, Sending, Stall, Stop, Wire,
};
use serde_json::{Value, json};

use super::{
    RunningProxy,
    client::{HEADERS, send},
    conversation::{Conversation, WIRES, play, query, reach, turns},
};

/// Returns how many of the events satisfy `is_it`.
fn count(events: &[Value], is_it: impl Fn(&Value) -> bool) -> usize {
    events.iter().filter(|event| is_it(event)).count()
}

/// Checks the order and the numbers of the events of a wire.
#[track_caller]
fn assert_one_lifecycle(wire: Wire, events: &[Value], text: &str) {
    let of = |kind: &str| count(events, |event| event["type"] == kind);
    match wire {
        Wire::Messages => {
            for kind in ["message_start", "message_delta", "message_stop"] {
                assert_eq!(of(kind), 1, "{kind} in {text}");
            }
            let starts = events.iter().filter(|event| event["type"] == "content_block_start");
            let indices: Vec<u64> = starts.filter_map(|event| event["index"].as_u64()).collect();
            assert_eq!(indices, (0..indices.len() as u64).collect::<Vec<_>>(), "{text}");
            assert_eq!(of("content_block_start"), of("content_block_stop"), "{text}");
        }
        Wire::Chat => {
            assert_eq!(text.matches("data: [DONE]").count(), 1, "{text}");
            assert_eq!(count(events, |event| event["choices"][0]["delta"]["role"].is_string()), 1, "{text}");
            assert_eq!(count(events, |event| event["choices"][0]["finish_reason"].is_string()), 1, "{text}");
            assert_eq!(count(events, |event| event["usage"].is_object()), 1, "{text}");
            let ids: Vec<&Value> = events.iter().map(|event| &event["id"]).filter(|id| id.is_string()).collect();
            assert!(ids.iter().all(|id| *id == ids[0]), "one id: {ids:?}");
        }
        Wire::Responses => {
            for kind in ["response.created", "response.in_progress", "response.completed"] {
                assert_eq!(of(kind), 1, "{kind} in {text}");
            }
            let numbers: Vec<u64> = events.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
            let added = events.iter().filter(|event| event["type"] == "response.output_item.added");
            let indices: Vec<u64> = added.filter_map(|event| event["output_index"].as_u64()).collect();
            assert_eq!(indices, (0..indices.len() as u64).collect::<Vec<_>>(), "{text}");
            let ids: Vec<&Value> =
                events.iter().map(|event| &event["response"]["id"]).filter(|id| id.is_string()).collect();
            assert!(ids.iter().all(|id| *id == ids[0]), "one public id: {ids:?}");
            let last = events.last().expect("an event");
            assert_eq!(last["response"]["output"].as_array().map(Vec::len), Some(indices.len()), "{text}");
        }
        Wire::Gemini => {
            let ends = count(events, |event| event["candidates"][0]["finishReason"].is_string());
            assert_eq!(ends, 1, "{text}");
        }
    }
}

#[test]
fn a_stream_with_hidden_rounds_is_one_stream() {
    for wire in WIRES {
        for sending in [Sending::default(), Sending::chunks_of(1), Sending::noisy()] {
            let looking = [Part::text("Let me look.")];
            let provider = Provider::start(Script::new([reach(3).before_search(looking)]).sending(sending));
            let proxy = RunningProxy::start("lifecycle", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, true);
            let answer = conversation.say("Go").send();
            assert_eq!(provider.requests().len(), 2, "{wire:?}: one hidden round");
            assert_one_lifecycle(wire, &answer.events(), &answer.text());
            for hidden in ["search_tools", "call_tool"] {
                assert!(!answer.text().contains(hidden), "{wire:?}: `{hidden}` is shown in {}", answer.text());
            }
            assert!(conversation.take(&answer).text.contains("Let me look."), "{wire:?}");
        }
    }
}

#[test]
fn pings_pass_while_a_search_is_held() {
    let sending = Sending { noise: [Noise::Ping].into(), ..Sending::default() };
    let looking = [Part::text("Let me look.")];
    let provider = Provider::start(Script::new([reach(3).before_search(looking)]).sending(sending));
    let proxy = RunningProxy::start("pings", &provider);
    let events = Conversation::new(Wire::Messages, &proxy.url, 200, true).say("Go").send().events();
    let starts = |kind: &str| events.iter().position(|event| event["content_block"]["type"] == kind);
    let (text, call) = (starts("text").expect("the text"), starts("tool_use").expect("the call"));
    let stop = text + events[text..].iter().position(|event| event["type"] == "content_block_stop").expect("its end");
    let pings = count(&events[stop..call], |event| event["type"] == "ping");
    // There is one behind each event of the search, and behind those at the end and the beginning of the rounds.
    assert!(pings >= 5, "{pings} pings in {events:#?}");
}

#[test]
fn streams_of_compatible_servers_end_in_the_same_calls() {
    for (wire, quirk) in [
        (Wire::Chat, Quirk::EmptyNames),
        (Wire::Chat, Quirk::UsageInChoice),
        (Wire::Chat, Quirk::EmptyReason),
        (Wire::Responses, Quirk::BareItems),
        (Wire::Messages, Quirk::SplitEnd),
        (Wire::Gemini, Quirk::OneEvent),
    ] {
        let sending = Sending { quirks: [quirk].into(), ..Sending::default() };
        let provider = Provider::start(Script::new(turns(wire, 3)).sending(sending.clone()));
        let mut alone = Conversation::direct(wire, provider.url(), 200, true);
        let expected = play(&mut alone, 3);
        // What the client has not seen is restored, or the prefix would change.
        let script = Script::new(turns(wire, 3)).sending(sending).bind_thinking().stable_prefix();
        let provider = Provider::start(script);
        let proxy = RunningProxy::start("quirks", &provider);
        let mut conversation = Conversation::new(wire, &proxy.url, 200, true);
        let answer = conversation.say("Question 0").send();
        if wire == Wire::Chat {
            let counts = count(&answer.events(), |event| event["usage"].is_object());
            assert_eq!(counts, 1, "{quirk:?}: {}", answer.text());
        }
        assert!(!answer.text().contains("search_tools"), "{quirk:?}: {}", answer.text());
        let mut seen = vec![conversation.take(&answer)];
        seen.push(conversation.answer_calls().ask());
        for question in 1..3 {
            seen.push(conversation.say(&format!("Question {question}")).ask());
            seen.push(conversation.answer_calls().ask());
        }
        assert_eq!(seen, expected, "{quirk:?}");
        provider.assert_clean();
    }
}

#[test]
fn text_before_a_hidden_search_flows_at_once() {
    for wire in WIRES {
        let search = Part::call("search_tools", json!({"query": query(3)}));
        let turn = || ScriptedTurn::say([Part::text("Let me look."), search.clone()]);
        // Where the search begins in the provider's stream.
        let provider = Provider::start(Script::new([turn()]));
        let mut direct = Conversation::direct(wire, provider.url(), 1, true);
        let text = direct.say("Go").send().text();
        let after = text.find("search_tools").expect("the search");
        let stall = Stall { after, time: None };
        let provider =
            Provider::start(Script::new([turn().sending(Sending { stall: Some(stall), ..Sending::default() })]));
        let proxy = RunningProxy::start("flow", &provider);
        let mut conversation = Conversation::new(wire, &proxy.url, 200, true);
        conversation.say("Go");
        let body = conversation.body.to_string();
        let mut answer = send(&proxy.url, "POST", &conversation.path, &HEADERS, body.as_bytes());
        let mut seen = String::new();
        // The provider is silent from the search on: what comes until then has come at once.
        while !seen.contains("look.") {
            seen.push_str(&answer.next_event().expect("an event"));
        }
    }
}

#[test]
fn refusals_and_length_stops_are_the_last_word() {
    for wire in WIRES {
        for is_streamed in [false, true] {
            for stop in [Stop::MaxTokens, Stop::Refusal] {
                let search = ScriptedTurn::say([Part::call("search_tools", json!({"query": query(3)}))]);
                let end =
                    Output { parts: vec![Part::text("It ends he")], stop: Some(stop.clone()), ..Output::default() };
                let direct = Provider::start(Script::new([ScriptedTurn::Say(end.clone())]));
                let mut alone = Conversation::direct(wire, direct.url(), 3, is_streamed);
                let expected = alone.say("Go").ask();
                let provider = Provider::start(Script::new([search, ScriptedTurn::Say(end)]));
                let proxy = RunningProxy::start("stops", &provider);
                let seen = Conversation::new(wire, &proxy.url, 200, is_streamed).say("Go").ask();
                assert_eq!(seen, expected, "{wire:?} {stop:?} {is_streamed}");
                assert_eq!(provider.requests().len(), 2);
            }
        }
    }
}

#[test]
fn a_search_that_was_cut_off_by_the_limit_is_not_invented() {
    for wire in WIRES {
        for is_streamed in [false, true] {
            let cut = Output {
                parts: vec![Part::text("Looking"), Part::call("search_tools", json!("{\"query\": \"inv"))],
                stop: Some(Stop::MaxTokens),
                ..Output::default()
            };
            let provider = Provider::start(Script::new([ScriptedTurn::Say(cut)]));
            let proxy = RunningProxy::start("cut_search", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, is_streamed);
            let answer = conversation.say("Go").send();
            assert_eq!(answer.status, 200, "{wire:?}: {}", answer.text());
            assert!(!answer.text().contains("search_tools"), "{wire:?}: {}", answer.text());
            assert_eq!(provider.requests().len(), 1, "{wire:?}: nothing was searched for");
        }
    }
}

#[test]
fn invalid_calls_through_the_bridge_are_answered_inside() {
    for wire in WIRES {
        for is_streamed in [false, true] {
            let wrong = ScriptedTurn::say([Part::call("call_tool", json!({"name": "no_such_tool", "arguments": {}}))]);
            let provider = Provider::start(Script::new([wrong, ScriptedTurn::say([Part::text("Sorry.")])]));
            let proxy = RunningProxy::start("invalid", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, is_streamed);
            let answer = conversation.say("Go").send();
            let tools = provider.requests()[0].body["tools"].to_string();
            if !tools.contains("\"call_tool\"") {
                continue;
            }
            let seen = conversation.take(&answer);
            assert_eq!((seen.calls.len(), seen.text.as_str()), (0, "Sorry."), "{wire:?} {is_streamed}");
            assert_eq!(provider.requests().len(), 2);
            provider.assert_clean();
        }
    }
}
