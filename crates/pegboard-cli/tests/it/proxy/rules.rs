//! What the provider is sent: the rules of conversations with hidden turns.

use std::collections::BTreeSet;

use pegboard_testkit::provider::{Part, Provider, Recorded, Script, ScriptedTurn, Sending, Wire};
use serde_json::{Value, json};

use super::{
    RunningProxy,
    client::{Answer, send},
    conversation::{Conversation, Seen, WIRES, arguments, history_key, play, query, reach, tool_name, tools, turns},
};

/// As many questions as make twenty turns of the model.
const QUESTIONS: usize = 10;

fn script(wire: Wire, questions: usize) -> Script {
    Script::new(turns(wire, questions))
}

/// Plays without a proxy.
fn alone(wire: Wire, is_streamed: bool) -> Vec<Seen> {
    let provider = Provider::start(script(wire, QUESTIONS));
    let seen = play(&mut Conversation::direct(wire, provider.url(), 200, is_streamed), QUESTIONS);
    provider.assert_clean();
    seen
}

/// Returns the names of the tools in a request.
fn declared(recorded: &Recorded) -> Vec<String> {
    let functions = recorded.body["tools"][0].get("functionDeclarations");
    let tools = functions.unwrap_or(&recorded.body["tools"]).as_array().cloned().unwrap_or_default();
    let name = |tool: &Value| tool["name"].as_str().or(tool["function"]["name"].as_str()).map(str::to_owned);
    tools
        .iter()
        .map(|tool| name(tool).unwrap_or_else(|| tool["type"].as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// Checks that each request continues the one before it, byte for byte.
#[track_caller]
fn assert_prefixes(requests: &[Recorded]) {
    for pair in requests.windows(2) {
        let before = pair[0].raw.strip_suffix(b"]}").expect("the history is the last field");
        let same = before.iter().zip(&pair[1].raw).take_while(|(then, now)| then == now).count();
        let rest = String::from_utf8_lossy(&before[same..]).into_owned();
        assert!(
            same == before.len(),
            "this part of a request changed: {rest}\nit became: {}",
            String::from_utf8_lossy(&pair[1].raw[same..])
        );
    }
}

#[test]
fn twenty_turns_end_in_the_same_calls() {
    for wire in WIRES {
        for (is_streamed, sending) in [
            (false, Sending::default()),
            (true, Sending::default()),
            (true, Sending::chunks_of(7)),
            (true, Sending { noise: [pegboard_testkit::provider::Noise::Ping].into(), ..Sending::default() }),
        ] {
            let about = format!("{wire:?} {is_streamed} {sending:?}");
            let expected = alone(wire, is_streamed);
            let script = script(wire, QUESTIONS).sending(sending).bind_thinking().stable_prefix();
            let provider = Provider::start(script);
            let proxy = RunningProxy::start("twenty_turns", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, is_streamed);
            let seen = play(&mut conversation, QUESTIONS);
            assert_eq!(seen, expected, "{about}");
            provider.assert_clean();
            assert!(provider.requests().len() > 2 * QUESTIONS, "{about}: there were no hidden rounds");
        }
    }
}

#[test]
fn prefixes_are_the_same_bytes() {
    for wire in WIRES {
        let provider = Provider::start(script(wire, QUESTIONS).bind_thinking());
        let proxy = RunningProxy::start("prefixes", &provider);
        play(&mut Conversation::new(wire, &proxy.url, 200, wire != Wire::Chat), QUESTIONS);
        provider.assert_clean();
        let requests = provider.requests();
        // On Messages found definitions are appended to the tools, where the provider does not read them up front.
        if declared(&requests[0]).iter().any(|name| name == "call_tool") {
            assert_prefixes(&requests);
        }
        let shares: Vec<f64> = requests.iter().filter_map(|recorded| recorded.prefix_share).collect();
        assert!(shares.iter().all(|share| *share == 1.0), "{wire:?}: {shares:?}");
    }
}

#[test]
fn definitions_stay_behind() {
    for wire in WIRES {
        let provider = Provider::start(Script { repeat: false, ..script(wire, QUESTIONS) });
        let proxy = RunningProxy::start("definitions", &provider);
        play(&mut Conversation::new(wire, &proxy.url, 200, false), QUESTIONS);
        let original = tools(wire, 200).to_string().len();
        let requests = provider.requests();
        let sent: Vec<usize> = requests.iter().map(|recorded| recorded.body["tools"].to_string().len()).collect();
        // Where tools are referred to, all that the searches found are among them at the end.
        let largest = if declared(&requests[0]).len() == 2 { original / 20 } else { original / 4 };
        assert!(sent.iter().all(|length| *length < largest), "{wire:?}: {sent:?} of {original}");
    }
}

/// Gemini 2 gives its calls no ids, so that the provider matches answers with calls by their places.
#[test]
fn calls_without_ids_are_answered_at_their_places() {
    for is_streamed in [false, true] {
        for is_search_first in [false, true] {
            let call = Part::call("call_tool", json!({"name": tool_name(3), "arguments": arguments(3)}));
            let invalid = Part::call("call_tool", json!({"name": "no_such_tool", "arguments": {}}));
            let search = Part::call("search_tools", json!({"query": query(11)}));
            let mut mixed = vec![call, invalid, search];
            if is_search_first {
                mixed.reverse();
            }
            let hidden = mixed.iter().filter(|part| **part != mixed[if is_search_first { 2 } else { 0 }]).cloned();
            let turns = [ScriptedTurn::say(hidden), ScriptedTurn::say(mixed.clone()), reach(11)];
            let provider = Provider::start(Script::new(turns).stable_prefix());
            let proxy = RunningProxy::start("no_ids", &provider);
            let mut conversation = Conversation::new(Wire::Gemini, &proxy.url, 200, is_streamed);
            conversation.path = conversation.path.replace("gemini-3-pro", "gemini-2.5-pro");
            let seen = conversation.say("Both").ask();
            assert_eq!(seen.calls, [(tool_name(3), arguments(3))]);
            assert_eq!(conversation.answer_calls().ask().calls, [(tool_name(11), arguments(11))]);
            provider.assert_clean();
        }
    }
}

#[test]
fn a_search_beside_calls_is_answered_with_their_results() {
    for wire in WIRES {
        for is_streamed in [false, true] {
            // The first question finds the tool, so that the second turn may call it beside another search.
            let mixed = |provider: &Provider| {
                let names = declared(&provider.requests()[0]);
                let call = match names.iter().any(|name| name == "call_tool") {
                    true => Part::call("call_tool", json!({"name": tool_name(3), "arguments": arguments(3)})),
                    false => Part::call(tool_name(3), arguments(3)),
                };
                let search = Part::call("search_tools", json!({"query": query(11)}));
                provider.go_on([ScriptedTurn::say([search, call]), reach(11), ScriptedTurn::say([Part::text("done")])]);
            };
            let provider =
                Provider::start(Script::new([reach(3), ScriptedTurn::say([Part::text("ok")])]).stable_prefix());
            let proxy = RunningProxy::start("mixed", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, is_streamed);
            play(&mut conversation, 1);
            mixed(&provider);
            let before = provider.requests().len();
            let seen = conversation.say("Both").ask();
            assert_eq!(seen.calls, [(tool_name(3), arguments(3))], "{wire:?}: only the client's own call is shown");
            assert_eq!(provider.requests().len(), before + 1, "the search waits for the result of the call");
            let seen = conversation.answer_calls().ask();
            assert_eq!(seen.calls, [(tool_name(11), arguments(11))], "{wire:?}: what the search found is known");
            assert_eq!(provider.requests().len(), before + 2, "no second search was needed");
            assert_eq!(conversation.answer_calls().ask().text, "done");
            provider.assert_clean();
        }
    }
}

#[test]
fn hidden_rounds_have_an_end() {
    for wire in WIRES {
        let search = || ScriptedTurn::say([Part::call("search_tools", json!({"query": "anything"}))]);
        let searches = std::iter::repeat_with(search).take(8);
        let provider = Provider::start(Script::new(searches.chain([ScriptedTurn::say([Part::text("I give up.")])])));
        let proxy = RunningProxy::start("endless", &provider);
        let mut conversation = Conversation::new(wire, &proxy.url, 200, false);
        let answer = conversation.say("Find it").send();
        assert_eq!((answer.status, provider.requests().len()), (200, 9), "{wire:?}: {}", answer.text());
        let seen = conversation.take(&answer);
        assert_eq!(seen, Seen { calls: Vec::new(), text: "I give up.".to_owned(), stop: seen.stop.clone() });
        let last = provider.requests().pop().expect("a request");
        let choice = &last.body["tool_choice"];
        let mode = &last.body["toolConfig"]["functionCallingConfig"]["mode"];
        assert!(
            choice == "none" || choice["type"] == "none" || mode == "NONE",
            "{wire:?}: the model must answer now: {choice}"
        );
        provider.assert_clean();
    }
}

#[test]
fn a_model_that_searches_without_end_is_stopped() {
    for wire in WIRES {
        for is_streamed in [false, true] {
            let search = || ScriptedTurn::say([Part::call("search_tools", json!({"query": query(3)}))]);
            // The last one although the request forbids calls.
            let searches = std::iter::repeat_with(search).take(9);
            let done = ScriptedTurn::say([Part::text("done")]);
            let provider = Provider::start(Script::new(searches.chain([reach(3), done])));
            let proxy = RunningProxy::start("stopped", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, is_streamed);
            let answer = conversation.say("Find it").send();
            let seen = conversation.take(&answer);
            let stop = match wire {
                Wire::Messages => "end_turn",
                Wire::Chat => "stop",
                Wire::Responses => "completed",
                Wire::Gemini => "STOP",
            };
            let text = "The search for tools was stopped after 8 rounds.".to_owned();
            let expected = Seen { calls: Vec::new(), text, stop: stop.to_owned() };
            assert_eq!(seen, expected, "{wire:?} {is_streamed}");
            assert_eq!(provider.requests().len(), 9, "{wire:?} {is_streamed}");
            // The last search has its answer in the next request.
            let answer = conversation.say("Go on").send();
            assert_eq!(answer.report("history"), None, "{wire:?} {is_streamed}: {:?}", answer.headers);
            assert_eq!(conversation.take(&answer).calls, [(tool_name(3), arguments(3))], "{wire:?} {is_streamed}");
            assert_eq!(conversation.answer_calls().ask().text, "done", "{wire:?} {is_streamed}");
            provider.assert_clean();
        }
    }
}

#[test]
fn usage_is_summed() {
    for wire in WIRES {
        for is_streamed in [false, true] {
            let provider = Provider::start(Script::new([reach(5)]));
            let proxy = RunningProxy::start("usage", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, is_streamed);
            let answer = conversation.say("Go").send();
            let mut whole = conversation.assemble(&answer);
            let (usage, input, output) = match wire {
                Wire::Chat => (whole["usage"].take(), "prompt_tokens", "completion_tokens"),
                Wire::Gemini => (whole["usageMetadata"].take(), "promptTokenCount", "candidatesTokenCount"),
                _ => (whole["usage"].take(), "input_tokens", "output_tokens"),
            };
            // The search and the call, by the provider's estimate: a quarter of their bytes each, and one.
            let written = |name: &str, value: Value| (name.len() + value.to_string().len()) as u64 / 4 + 1;
            let search = written("search_tools", json!({"query": query(5)}));
            let through = written("call_tool", json!({"name": tool_name(5), "arguments": arguments(5)}));
            let by_name = written(&tool_name(5), arguments(5));
            let told = usage[output].as_u64().expect("a number");
            assert!([search + through, search + by_name].contains(&told), "{wire:?} {is_streamed}: {usage}");
            let bytes: u64 = provider.requests().iter().map(|recorded| recorded.raw.len() as u64).sum();
            let read = usage[input].as_u64().expect("a number");
            assert!(read > bytes / 6 && read < bytes / 3, "{wire:?} {is_streamed}: {usage} for {bytes} bytes");
        }
    }
}

#[test]
fn counting_uses_the_same_tools_and_no_turn() {
    for (wire, path) in [
        (Wire::Messages, "/anthropic/v1/messages/count_tokens"),
        (Wire::Responses, "/openai/v1/responses/input_tokens"),
    ] {
        let provider = Provider::start(script(wire, 1));
        let proxy = RunningProxy::start("counting", &provider);
        let mut conversation = Conversation::new(wire, &proxy.url, 200, false);
        play(&mut conversation, 1);
        conversation.say("And now?");
        let before = provider.requests();
        let mut body = conversation.body.clone();
        for key in ["max_tokens", "store", "include"] {
            body.as_object_mut().expect("a body").shift_remove(key);
        }
        let answer = super::client::post(&proxy.url, path, &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let requests = provider.requests();
        assert_eq!(requests.len(), before.len() + 1, "no hidden rounds");
        let (last, counted) = (&before[before.len() - 1], &requests[before.len()]);
        assert_eq!(declared(counted), declared(last), "{wire:?}");
        let items = |recorded: &Recorded| recorded.body[history_key(wire)].as_array().map_or(0, Vec::len);
        assert_eq!(items(counted), items(last) + 2, "hidden turns count too");
        provider.assert_clean();
    }
}

#[test]
fn a_conversation_goes_on_after_a_restart() {
    for wire in WIRES {
        let provider = Provider::start(script(wire, 4).bind_thinking().stable_prefix());
        let mut proxy = RunningProxy::start("restart", &provider);
        let mut conversation = Conversation::new(wire, &proxy.url, 200, true);
        play(&mut conversation, 2);
        proxy.restart();
        conversation.base.clone_from(&proxy.url);
        let seen = play(&mut conversation, 2);
        assert_eq!(seen.len(), 4, "{wire:?}");
        provider.assert_clean();
    }
}

/// What a client of Responses sends of earlier turns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Past {
    /// Items, with reasoning that is encrypted: the provider keeps nothing.
    Encrypted,
    /// Items that the provider keeps too.
    Stored,
    /// References to items that the provider keeps.
    References,
    /// The id of the response.
    Response,
}

/// A conversation whose turns are sent back in one of the ways of its wire.
struct WithPast {
    conversation: Conversation,
    past: Past,
}

impl WithPast {
    fn new(wire: Wire, url: &str, past: Past, is_streamed: bool) -> Self {
        let mut conversation = Conversation::new(wire, url, 200, is_streamed);
        if wire == Wire::Responses && past != Past::Encrypted {
            for key in ["store", "include"] {
                conversation.body.as_object_mut().expect("a body").shift_remove(key);
            }
        }
        Self { conversation, past }
    }

    /// Takes an answer as the client of this past does.
    #[track_caller]
    fn take(&mut self, answer: &Answer) -> Seen {
        let id = (self.past == Past::Response).then(|| self.conversation.assemble(answer)["id"].clone());
        let seen = self.conversation.take(answer);
        if let Some(id) = id {
            self.conversation.body["previous_response_id"] = id;
            self.conversation.history().clear();
        }
        if self.past == Past::References {
            for item in self.conversation.history().iter_mut().filter(|item| item["id"].is_string()) {
                *item = json!({"type": "item_reference", "id": item["id"]});
            }
        }
        seen
    }

    /// Takes answers until the model calls nothing any more.
    #[track_caller]
    fn finish(&mut self, answer: &Answer) {
        let mut seen = self.take(answer);
        while !seen.calls.is_empty() {
            let answer = self.conversation.answer_calls().send();
            seen = self.take(&answer);
        }
    }
}

/// Returns turns of a model that thinks before its search, before its call, before both, or not at all.
fn thoughtful(wire: Wire, before_search: bool, before_call: bool) -> [ScriptedTurn; 4] {
    let thought = |is_there: bool| match is_there && wire != Wire::Chat {
        true => vec![Part::thinking("Hm.")],
        false => Vec::new(),
    };
    let reach = |number: usize| {
        let parts = thought(before_call).into_iter().chain([Part::call(tool_name(number), arguments(number))]);
        ScriptedTurn::reach(query(number), parts).before_search(thought(before_search))
    };
    let done = || ScriptedTurn::say(thought(before_call).into_iter().chain([Part::text("Done.")]));
    [reach(3), done(), reach(60), done()]
}

/// Plays until a call is open, or until the end of the first turn; forgets all hidden turns, and returns the answer to the
/// next request.
fn answer_after_loss(proxy: &mut RunningProxy, talk: &mut WithPast, is_open: bool) -> Answer {
    let answer = talk.conversation.say("Question 0").send();
    match is_open {
        true => assert_eq!(talk.take(&answer).calls.len(), 1),
        false => talk.finish(&answer),
    }
    proxy.stop();
    std::fs::remove_dir_all(proxy.state()).expect("a state folder");
    proxy.spawn();
    talk.conversation.base.clone_from(&proxy.url);
    match is_open {
        true => talk.conversation.answer_calls().send(),
        false => talk.conversation.say("Question 1").send(),
    }
}

/// Checks that the client got the error of the provider, and that the loss is reported.
#[track_caller]
fn assert_lost_for_good(proxy: &RunningProxy, answer: &Answer, error: &str) {
    assert!(answer.status == 400 && answer.text().contains(error), "{}", answer.text());
    assert_eq!(answer.report("history"), Some("incomplete"), "{:?}", answer.headers);
    let mut status = send(&proxy.url, "GET", "/proxy/status", &[], b"");
    status.finish();
    let numbers = status.json();
    assert_eq!(numbers["openai"]["misses"], 1, "{numbers}");
}

#[test]
fn a_conversation_goes_on_without_its_hidden_turns() {
    let responses = [Past::Encrypted, Past::Stored, Past::References].map(|past| (Wire::Responses, past));
    for (wire, past) in
        [Wire::Chat, Wire::Messages, Wire::Gemini].map(|wire| (wire, Past::Encrypted)).into_iter().chain(responses)
    {
        for thinks in [(true, true), (true, false), (false, true), (false, false)] {
            // A model of Anthropic that thinks does so before its first call.
            if wire == Wire::Messages && thinks == (false, true) {
                continue;
            }
            for is_open in [true, false] {
                let about = format!("{wire:?} {past:?} {thinks:?} {is_open}");
                let provider = Provider::start(Script::new(thoughtful(wire, thinks.0, thinks.1)));
                let mut proxy = RunningProxy::start("lost_turns", &provider);
                let mut talk = WithPast::new(wire, &proxy.url, past, is_open);
                let answer = answer_after_loss(&mut proxy, &mut talk, is_open);
                if past == Past::References && thinks == (true, false) {
                    // Only the provider knows the hidden call that the reasoning of the visible one belongs to.
                    assert_lost_for_good(&proxy, &answer, "required following item");
                    continue;
                }
                assert_eq!(answer.status, 200, "{about}: {}", answer.text());
                assert_eq!(answer.report("history"), Some("incomplete"), "{about}: {:?}", answer.headers);
                talk.finish(&answer);
                if is_open {
                    let answer = talk.conversation.say("Question 1").send();
                    talk.finish(&answer);
                }
                assert_eq!(provider.turns_taken(), 4, "{about}");
                provider.assert_clean();
            }
        }
    }
}

#[test]
fn a_loop_with_lost_turns_goes_on_without_thinking_where_thinking_is_bound() {
    let script = Script::new(thoughtful(Wire::Messages, true, true)).bind_thinking();
    let provider = Provider::start(script);
    let mut proxy = RunningProxy::start("bound_thinking", &provider);
    let mut talk = WithPast::new(Wire::Messages, &proxy.url, Past::Encrypted, true);
    let answer = answer_after_loss(&mut proxy, &mut talk, true);
    assert_eq!((answer.status, answer.report("history")), (200, Some("incomplete")), "{}", answer.text());
    let requests = provider.requests();
    let [refused, repeated] = &requests[requests.len() - 2..] else { panic!("two requests") };
    assert!(!refused.violations.is_empty() && repeated.violations.is_empty());
    assert_eq!(repeated.body["thinking"], json!({"type": "disabled"}));
    assert!(!repeated.body["messages"].to_string().contains("signature"), "{}", repeated.body["messages"]);
    talk.finish(&answer);
    // The program's own setting holds again.
    let answer = talk.conversation.say("Question 1").send();
    talk.finish(&answer);
    let refused = provider.requests().iter().filter(|request| !request.violations.is_empty()).count();
    assert_eq!((refused, provider.turns_taken()), (1, 4));
    assert_eq!(provider.requests().pop().expect("a request").body["thinking"]["type"], "enabled");
}

#[test]
fn a_response_whose_last_round_is_lost_is_the_error_of_the_provider() {
    let search = ScriptedTurn::say([Part::call("search_tools", json!({"query": query(3)}))]);
    let searched = vec![search, ScriptedTurn::say([Part::text("There is none.")])];
    let called = thoughtful(Wire::Responses, true, true).to_vec();
    for (turns, is_open, error) in [
        (called.clone(), true, Some("No tool call found")),
        (searched, false, Some("No tool output found")),
        // The last response has one round, so that its id is the provider's own.
        (called, false, None),
    ] {
        let provider = Provider::start(Script::new(turns));
        let mut proxy = RunningProxy::start("lost_response", &provider);
        let mut talk = WithPast::new(Wire::Responses, &proxy.url, Past::Response, is_open);
        let answer = answer_after_loss(&mut proxy, &mut talk, is_open);
        match error {
            Some(error) => assert_lost_for_good(&proxy, &answer, error),
            None => assert_eq!((answer.status, answer.report("history")), (200, Some("incomplete"))),
        }
    }
    let provider = Provider::start(Script::new([]));
    let proxy = RunningProxy::start("unknown_response", &provider);
    let mut talk = WithPast::new(Wire::Responses, &proxy.url, Past::Response, false);
    talk.conversation.body["previous_response_id"] = "resp_unknown".into();
    let answer = talk.conversation.say("Question 0").send();
    assert_lost_for_good(&proxy, &answer, "previous_response_not_found");
}

#[test]
fn a_response_with_a_lost_search_beside_calls_goes_on() {
    for is_streamed in [false, true] {
        let provider = Provider::start(Script::new([reach(3), ScriptedTurn::say([Part::text("ok")])]));
        let mut proxy = RunningProxy::start("lost_search", &provider);
        let mut talk = WithPast::new(Wire::Responses, &proxy.url, Past::Response, is_streamed);
        let answer = talk.conversation.say("First").send();
        talk.finish(&answer);
        let call = Part::call("call_tool", json!({"name": tool_name(3), "arguments": arguments(3)}));
        let search = Part::call("search_tools", json!({"query": query(11)}));
        let done = ScriptedTurn::say([Part::text("done")]);
        provider.go_on([ScriptedTurn::say([search, call]), reach(11), done]);
        let answer = answer_after_loss(&mut proxy, &mut talk, true);
        assert_eq!((answer.status, answer.report("history")), (200, Some("incomplete")), "{}", answer.text());
        assert_eq!(talk.take(&answer).calls, [(tool_name(11), arguments(11))], "{is_streamed}");
        let answer = talk.conversation.answer_calls().send();
        assert_eq!(talk.take(&answer).text, "done");
        let refused = provider.requests().iter().filter(|request| !request.violations.is_empty()).count();
        assert_eq!(refused, 1, "{is_streamed}: the one without the result of the search");
    }
}

#[test]
fn references_to_earlier_items_are_the_items() {
    for is_streamed in [false, true] {
        let provider = Provider::start(script(Wire::Responses, 3));
        let mut proxy = RunningProxy::start("item_references", &provider);
        let mut conversation = Conversation::new(Wire::Responses, &proxy.url, 200, is_streamed);
        // Only what the provider stores can be referred to.
        for key in ["store", "include"] {
            conversation.body.as_object_mut().expect("a body").shift_remove(key);
        }
        for question in 0..3 {
            conversation.say(&format!("Question {question}"));
            loop {
                let answer = conversation.send();
                assert_eq!((answer.report("mode"), answer.report("history")), (Some("defer"), None), "{question}");
                let is_last = conversation.take(&answer).calls.is_empty();
                for item in conversation.history().iter_mut().filter(|item| item["id"].is_string()) {
                    *item = json!({"type": "item_reference", "id": item["id"]});
                }
                if is_last {
                    break;
                }
                conversation.answer_calls();
            }
            proxy.restart();
            conversation.base.clone_from(&proxy.url);
        }
        provider.assert_clean();
        let last = provider.requests().pop().expect("a request");
        assert!(last.body["input"].to_string().contains("search_tools"), "hidden turns are restored: {}", last.body);
    }
}

#[test]
fn items_with_required_ids_keep_them_in_unknown_turns() {
    let provider = Provider::start(script(Wire::Responses, 1));
    let proxy = RunningProxy::start("required_ids", &provider);
    let mut conversation = Conversation::new(Wire::Responses, &proxy.url, 200, false);
    conversation.say("Question 0").history().extend([
        json!({"type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "x"}),
        json!({"type": "web_search_call", "id": "ws_0", "status": "completed"}),
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Found."}]}),
    ]);
    play(&mut conversation, 1);
    provider.assert_clean();
    let items = provider.requests().pop().expect("a request").body["input"].take();
    assert_eq!((&items[1]["id"], &items[2]["id"]), (&json!("rs_0"), &json!("ws_0")), "{items}");
}

#[test]
fn forks_and_retries_find_their_own_past() {
    for wire in WIRES {
        let done = || ScriptedTurn::say([Part::text("done")]);
        let provider = Provider::start(
            Script::new([reach(1), done(), reach(20), done(), reach(30), done(), reach(20), done()]).bind_thinking(),
        );
        let proxy = RunningProxy::start("forks", &provider);
        let mut first = Conversation::new(wire, &proxy.url, 200, false);
        play(&mut first, 1);
        let past = first.body.clone();
        let end = |conversation: &mut Conversation| {
            let seen = play(conversation, 1);
            seen.iter().flat_map(|seen| seen.calls.clone()).map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(end(&mut first), [tool_name(20)]);
        let mut second = Conversation::new(wire, &proxy.url, 200, false);
        second.body = past.clone();
        assert_eq!(end(&mut second), [tool_name(30)], "{wire:?}: another branch");
        let mut third = Conversation::new(wire, &proxy.url, 200, false);
        third.body = past;
        assert_eq!(end(&mut third), [tool_name(20)], "{wire:?}: the first branch again");
        provider.assert_clean();
    }
}

#[test]
fn a_conversation_from_elsewhere_goes_on_with_what_its_history_names() {
    for wire in WIRES {
        let provider = Provider::start(script(wire, 2));
        let mut conversation = Conversation::direct(wire, provider.url(), 200, false);
        play(&mut conversation, 1);
        let proxy = RunningProxy::start("elsewhere", &provider);
        let mut moved = Conversation::new(wire, &proxy.url, 200, false);
        moved.body = conversation.body;
        let answer = moved.say("Go on").send();
        assert_eq!(answer.status, 200, "{wire:?}: {}", answer.text());
        let seen = moved.take(&answer);
        assert_eq!(seen.calls.len(), 1);
        let names: BTreeSet<String> = declared(provider.requests().last().expect("a request")).into_iter().collect();
        assert!(names.contains(&tool_name(0)) || names.contains("call_tool"), "{wire:?}: {names:?}");
        provider.assert_clean();
    }
}

#[test]
fn prefetch_needs_no_hidden_round() {
    for wire in WIRES {
        let done = ScriptedTurn::say([Part::text("done")]);
        let provider = Provider::start(Script::new([reach(9), done.clone(), reach(9), done]).stable_prefix());
        let proxy = RunningProxy::with_options("prefetch", &provider, &["--mode", "prefetch"]);
        let mut conversation = Conversation::new(wire, &proxy.url, 200, true);
        for _ in 0..2 {
            let answer = conversation.say(&format!("Please {}.", query(9))).send();
            assert_eq!(answer.report("mode"), Some("prefetch"), "{wire:?}: {:?}", answer.headers);
            assert_eq!(conversation.take(&answer).calls, [(tool_name(9), arguments(9))], "{wire:?}");
            assert_eq!(conversation.answer_calls().ask().text, "done");
        }
        assert_eq!(provider.requests().len(), 4, "{wire:?}: one request for each answer");
        provider.assert_clean();
    }
}

#[test]
fn cache_marks_stay_valid_and_the_cache_is_read() {
    let provider = Provider::start(script(Wire::Messages, 4).stable_prefix());
    let proxy = RunningProxy::start("cache_marks", &provider);
    let mut conversation = Conversation::new(Wire::Messages, &proxy.url, 200, false);
    let mark = json!({"type": "ephemeral"});
    conversation.body["tools"][199]["cache_control"] = mark.clone();
    conversation.body["system"] = json!([{"type": "text", "text": "Be brief.", "cache_control": mark}]);
    for question in 0..8 {
        if question % 2 == 0 {
            conversation.say(&format!("Question {question}"));
        } else {
            conversation.answer_calls();
        }
        let answer = conversation.send();
        let read = answer.json()["usage"]["cache_read_input_tokens"].as_u64();
        assert!(question == 0 || read > Some(0), "{question}: {}", answer.text());
        conversation.take(&answer);
    }
    provider.assert_clean();
    let marks = |recorded: &Recorded| recorded.body["tools"].to_string().matches("cache_control").count();
    assert!(
        provider.requests().iter().all(|recorded| marks(recorded) == 1),
        "the mark of the tools moves to one that is read"
    );
}
