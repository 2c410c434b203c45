//! Providers and clients that fail: nobody hangs, nothing is invented, nothing is lost.

use std::time::Instant;

use pegboard_testkit::provider::{Ending, Fault, Part, Provider, Script, ScriptedError, ScriptedTurn, Sending, Wire};
use serde_json::json;

use super::{
    PATIENCE, RunningProxy,
    client::{HEADERS, open, send},
    conversation::{Conversation, WIRES, arguments, play, query, reach, tool_name},
};

fn search() -> ScriptedTurn {
    ScriptedTurn::say([Part::text("Let me look."), Part::call("search_tools", json!({"query": query(3)}))])
}

fn text() -> ScriptedTurn {
    ScriptedTurn::say([Part::text("All is done now, and everybody is happy.")])
}

/// Returns whether what the client got has an end as if all were well.
fn looks_finished(wire: Wire, text: &str) -> bool {
    match wire {
        Wire::Chat => text.contains("[DONE]") && !text.contains("\"error\""),
        Wire::Messages => text.contains("message_stop"),
        Wire::Responses => text.contains("response.completed"),
        Wire::Gemini => text.contains("finishReason"),
    }
}

#[test]
fn a_provider_that_breaks_off_is_no_finished_answer() {
    for wire in WIRES {
        // The length of either round's stream.
        let length = |turn: ScriptedTurn| {
            let provider = Provider::start(Script::new([turn]));
            Conversation::direct(wire, provider.url(), 1, true).say("Go").send().body.len()
        };
        let (first, second) = (length(search()), length(text()));
        let cuts = |length: usize| [0, 1, length / 4, length / 2, length * 3 / 4, length - 30];
        let broken = |turn: ScriptedTurn, cut: usize| turn.sending(Sending::cut_after(cut));
        let scripts = cuts(first)
            .map(|cut| (format!("the first round at {cut} of {first}"), vec![broken(search(), cut)]))
            .into_iter()
            .chain(
                cuts(second)
                    .map(|cut| (format!("the second at {cut} of {second}"), vec![search(), broken(text(), cut)])),
            );
        for (about, turns) in scripts {
            let provider = Provider::start(Script::new(turns));
            let proxy = RunningProxy::start("cuts", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, true);
            conversation.say("Go");
            let body = conversation.body.to_string();
            if let Some(mut answer) = open(&proxy.url, "POST", &conversation.path, &HEADERS, body.as_bytes()) {
                answer.finish();
                let got = answer.text();
                assert!(answer.status != 200 || !looks_finished(wire, &got), "{wire:?}, {about}: {got}");
                assert!(!got.contains("search_tools"), "{wire:?}, {about}: {got}");
                assert!(
                    answer.status != 200 || !answer.is_whole || got.contains("error"),
                    "{wire:?}, {about}: a client takes this for an answer: {got}"
                );
            }
        }
    }
}

#[test]
fn an_answer_is_over_with_its_last_event() {
    // Gemini has no event that is surely the last one.
    for wire in [Wire::Messages, Wire::Chat, Wire::Responses] {
        let provider = Provider::start(Script::new([text()]));
        let proxy = RunningProxy::start("last_event_length", &provider);
        Conversation::new(wire, &proxy.url, 200, true).say("Go").send();
        let asked = provider.requests().pop().expect("a request").raw;
        let length = |turn: ScriptedTurn| {
            let provider = Provider::start(Script::new([turn]));
            let path = Conversation::direct(wire, provider.url(), 1, true).path;
            let mut answer = send(provider.url(), "POST", &path, &HEADERS, &asked);
            answer.finish();
            answer.body.len()
        };
        for end in [Sending::cut_after, Sending::stall_after] {
            for turns in
                [vec![text().sending(end(length(text())))], vec![search().sending(end(length(search()))), text()]]
            {
                let rounds = turns.len();
                let provider = Provider::start(Script::new(turns));
                let proxy = RunningProxy::start("last_event", &provider);
                let mut conversation = Conversation::new(wire, &proxy.url, 200, true);
                let answer = conversation.say("Go").send();
                let got = answer.text();
                assert!(answer.is_whole && looks_finished(wire, &got), "{wire:?} {rounds}: {got}");
                assert!(conversation.take(&answer).text.ends_with("happy."), "{wire:?} {rounds}: {got}");
                assert_eq!(provider.requests().len(), rounds, "{wire:?}");
            }
        }
    }
}

#[test]
fn plain_answers_that_break_off_are_errors() {
    for wire in WIRES {
        for turns in
            [vec![search().sending(Sending::cut_after(40))], vec![search(), text().sending(Sending::cut_after(40))]]
        {
            let provider = Provider::start(Script::new(turns));
            let proxy = RunningProxy::start("plain_cuts", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, false);
            let answer = conversation.say("Go").send();
            assert!(answer.status >= 500, "{wire:?}: {} {}", answer.status, answer.text());
            assert!(answer.json()["error"].is_object(), "{wire:?}: {}", answer.text());
        }
    }
}

#[test]
fn refusals_pass_with_their_headers() {
    let limits = |status: u16| {
        let refusal = ScriptedError {
            status,
            message: Some("slow down".to_owned()),
            retry_after: Some("17".to_owned()),
            headers: vec![("anthropic-ratelimit-requests-remaining".to_owned(), "0".to_owned())],
            ..ScriptedError::default()
        };
        ScriptedTurn::Fail(Fault::Status(refusal))
    };
    for wire in WIRES {
        for status in [400, 429, 529] {
            for is_streamed in [false, true] {
                let direct = Provider::start(Script::new([limits(status)]));
                let expected = Conversation::direct(wire, direct.url(), 1, is_streamed).say("Go").send();
                let provider = Provider::start(Script::new([limits(status)]));
                let proxy = RunningProxy::start("refusals", &provider);
                let answer = Conversation::new(wire, &proxy.url, 200, is_streamed).say("Go").send();
                assert_eq!((answer.status, answer.text()), (status, expected.text()), "{wire:?}");
                assert_eq!(answer.header("retry-after"), Some("17"), "{wire:?}");
                assert_eq!(answer.header("anthropic-ratelimit-requests-remaining"), Some("0"), "{wire:?}");
                assert_eq!(provider.requests().len(), 1, "{wire:?}: the client decides about retries");

                // In a hidden round of an answer that is not streamed, the refusal is the answer.
                // Where that has references to tools, it is asked again without them.
                let provider = Provider::start(Script::new([search(), limits(status), limits(status)]));
                let proxy = RunningProxy::start("hidden_refusals", &provider);
                let answer = Conversation::new(wire, &proxy.url, 200, is_streamed).say("Go").send();
                assert!(!answer.text().contains("search_tools"), "{wire:?}: {}", answer.text());
                assert!(answer.text().contains("slow down"), "{wire:?} {is_streamed}: {}", answer.text());
                if is_streamed {
                    assert!(!looks_finished(wire, &answer.text()), "{wire:?}: {}", answer.text());
                } else {
                    assert_eq!(answer.status, status, "{wire:?}");
                    assert_eq!(answer.header("retry-after"), Some("17"), "{wire:?}");
                }
            }
        }
    }
}

#[test]
fn a_retry_after_a_broken_hidden_round_succeeds() {
    for wire in WIRES {
        let turns = [search(), ScriptedTurn::status(529), reach(3), text()];
        let provider = Provider::start(Script::new(turns).bind_thinking());
        let proxy = RunningProxy::start("retry", &provider);
        let mut conversation = Conversation::new(wire, &proxy.url, 200, false);
        assert_eq!(conversation.say("Go").send().status, 529, "{wire:?}");
        assert_eq!(conversation.ask().calls[0].0, tool_name(3), "{wire:?}");
        assert_eq!(conversation.answer_calls().ask().calls, []);
        provider.assert_clean();
    }
}

/// Returns the number of requests on Messages that were sent again.
fn retries(proxy: &RunningProxy) -> u64 {
    let mut status = send(&proxy.url, "GET", "/proxy/status", &[], b"");
    status.finish();
    status.json()["anthropic"]["retries"].as_u64().expect("a number")
}

#[test]
fn rejected_references_are_sent_as_definitions() {
    for is_streamed in [false, true] {
        let mut script = Script::new([search(), reach(3), text(), search(), text()]);
        script.models.no_tool_search = vec!["claude-opus-4-8".to_owned()];
        let provider = Provider::start(script);
        let proxy = RunningProxy::start("references", &provider);
        let mut first = Conversation::new(Wire::Messages, &proxy.url, 200, is_streamed);
        assert_eq!(first.say("Go").ask().calls, [(tool_name(3), arguments(3))]);
        let requests = provider.requests();
        let names = |at: usize, word: &str| requests[at].body.to_string().contains(word);
        assert!(names(1, "tool_reference") && names(1, "defer_loading") && !names(1, "\"call_tool\""));
        assert!(!names(2, "tool_reference") && !names(2, "defer_loading") && names(2, "\"call_tool\""));
        assert!(first.answer_calls().ask().text.ends_with("happy."));
        let second = Conversation::new(Wire::Messages, &proxy.url, 200, is_streamed).say("Go").ask();
        assert!(second.text.ends_with("happy."), "{second:?}");
        let requests = provider.requests();
        let with_references = requests.iter().filter(|request| request.body.to_string().contains("tool_reference"));
        assert_eq!((with_references.count(), retries(&proxy)), (1, 1), "{is_streamed}");
        assert_eq!(requests.iter().filter(|request| !request.violations.is_empty()).count(), 1, "{is_streamed}");
    }
}

#[test]
fn a_conversation_with_references_goes_on_where_they_are_rejected() {
    for is_streamed in [false, true] {
        let turns = [reach(3), text(), reach(60), text(), reach(3), text()];
        let mut script = Script::new(turns);
        script.models.no_tool_search = vec!["claude-opus-4-7".to_owned()];
        let provider = Provider::start(script);
        let mut proxy = RunningProxy::start("references_later", &provider);
        let mut conversation = Conversation::new(Wire::Messages, &proxy.url, 200, is_streamed);
        play(&mut conversation, 1);
        provider.assert_clean();
        let before = provider.requests().len();
        assert!(provider.requests()[before - 1].body.to_string().contains("tool_reference"));
        conversation.body["model"] = "claude-opus-4-7".into();
        let seen = play(&mut conversation, 1);
        assert_eq!((seen[0].calls.clone(), retries(&proxy)), (vec![(tool_name(60), arguments(60))], 1));
        // What the proxy has learned is gone, and the conversation is not.
        proxy.restart();
        conversation.base.clone_from(&proxy.url);
        let seen = play(&mut conversation, 1);
        assert_eq!((seen[0].calls.clone(), retries(&proxy)), (vec![(tool_name(3), arguments(3))], 0));
        let requests = provider.requests().split_off(before);
        assert!(!requests[0].violations.is_empty() && requests[1..].iter().all(|asked| asked.violations.is_empty()));
        let shares: Vec<f64> = requests[2..].iter().filter_map(|asked| asked.prefix_share).collect();
        assert!(shares.len() == 4 && shares.iter().all(|share| *share == 1.0), "{shares:?}");
    }
}

#[test]
fn a_request_that_is_refused_twice_was_not_refused_for_its_references() {
    for is_streamed in [false, true] {
        let refused = || ScriptedTurn::status(400);
        let provider = Provider::start(Script::new([search(), refused(), refused(), search(), text()]));
        let proxy = RunningProxy::start("refused_twice", &provider);
        let first = Conversation::new(Wire::Messages, &proxy.url, 200, is_streamed).say("Go").send();
        assert!(!looks_finished(Wire::Messages, &first.text()), "{}", first.text());
        assert_eq!((first.status, retries(&proxy)), (if is_streamed { 200 } else { 400 }, 1), "{}", first.text());
        let second = Conversation::new(Wire::Messages, &proxy.url, 200, is_streamed).say("Go").ask();
        assert!(second.text.ends_with("happy."), "{second:?}");
        assert_eq!((provider.requests().len(), retries(&proxy)), (5, 1));
        assert!(provider.requests()[4].body.to_string().contains("tool_reference"));
    }
}

#[test]
fn errors_in_the_middle_of_a_stream_are_passed_on() {
    for wire in WIRES {
        for turns in [
            vec![search().sending(Sending::error_after(4, 529))],
            vec![search(), text().sending(Sending::error_after(3, 529))],
        ] {
            let provider = Provider::start(Script::new(turns));
            let proxy = RunningProxy::start("stream_errors", &provider);
            let answer = Conversation::new(wire, &proxy.url, 200, true).say("Go").send();
            let got = answer.text();
            assert!(got.contains("the script says so"), "{wire:?}: {got}");
            assert!(!looks_finished(wire, &got) && !got.contains("search_tools"), "{wire:?}: {got}");
        }
    }
}

#[test]
fn failed_hidden_rounds_are_counted() {
    let broken = || text().sending(Sending::cut_after(40));
    let failures = |is_streamed: bool| {
        let mut all = vec![broken(), ScriptedTurn::Fail(Fault::Drop), ScriptedTurn::status(529)];
        // An error in the middle of a stream.
        all.extend(is_streamed.then(|| text().sending(Sending::error_after(3, 529))));
        all
    };
    for is_streamed in [false, true] {
        let hidden = failures(is_streamed).into_iter().map(|failure| (vec![search(), failure], 1));
        for (turns, expected) in hidden.chain([(vec![broken()], 0), (vec![search(), text()], 0)]) {
            let about = format!("{is_streamed} {turns:?}");
            let provider = Provider::start(Script::new(turns));
            let proxy = RunningProxy::start("failed_rounds", &provider);
            Conversation::new(Wire::Chat, &proxy.url, 200, is_streamed).say("Go").send();
            let mut status = send(&proxy.url, "GET", "/proxy/status", &[], b"");
            status.finish();
            assert_eq!(status.json()["openai"]["failedRounds"], expected, "{about}");
        }
    }
}

#[test]
fn a_provider_that_is_gone_is_told() {
    for wire in WIRES {
        let provider = Provider::start(Script::default());
        let proxy = RunningProxy::start("gone", &provider);
        drop(provider);
        for count in [1, 200] {
            let answer = Conversation::new(wire, &proxy.url, count, false).say("Go").send();
            assert_eq!(answer.status, 502, "{wire:?} {count}: {}", answer.text());
            assert!(answer.json()["error"]["message"].is_string(), "{wire:?}: {}", answer.text());
        }
    }
}

#[test]
fn a_client_that_leaves_cancels_the_provider() {
    for wire in WIRES {
        let silent = |turn: ScriptedTurn| turn.sending(Sending::stall_after(0));
        for (count, turns) in
            [(1, vec![silent(text())]), (200, vec![silent(text())]), (200, vec![search(), silent(text())])]
        {
            let rounds = turns.len();
            let provider = Provider::start(Script::new(turns));
            let proxy = RunningProxy::start("leaving", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, count, true);
            let body = conversation.say("Go").body.to_string();
            let answer = send(&proxy.url, "POST", &conversation.path, &HEADERS, body.as_bytes());
            assert!(provider.wait_until(PATIENCE, |requests| requests.len() == rounds), "{wire:?} {count}");
            drop(answer);
            let is_cancelled = provider.wait_until(PATIENCE, |requests| requests[rounds - 1].ending == Ending::Gone);
            assert!(
                is_cancelled,
                "{wire:?}, {count} tools, round {rounds}: {:?}",
                provider.requests()[rounds - 1].ending
            );
        }
    }
}

#[test]
fn a_client_that_leaves_before_the_head_cancels_the_provider() {
    for wire in WIRES {
        for is_streamed in [false, true] {
            let provider = Provider::start(Script::new([ScriptedTurn::Fail(Fault::Stall(None))]));
            let proxy = RunningProxy::start("leaving_early", &provider);
            let mut conversation = Conversation::new(wire, &proxy.url, 200, is_streamed);
            let body = conversation.say("Go").body.to_string();
            let host = proxy.url.strip_prefix("http://").expect("a URL");
            let mut stream = std::net::TcpStream::connect(host).expect("a server");
            let head = format!(
                "POST {} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\nauthorization: Bearer k\r\n\
                 x-api-key: k\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n",
                conversation.path,
                body.len()
            );
            std::io::Write::write_all(&mut stream, (head + &body).as_bytes()).expect("an open connection");
            assert!(provider.wait_until(PATIENCE, |requests| requests.len() == 1), "{wire:?}");
            drop(stream);
            assert!(
                provider.wait_until(PATIENCE, |requests| requests[0].ending == Ending::Gone),
                "{wire:?} {is_streamed}"
            );
        }
    }
}

#[test]
fn a_slow_reader_gets_everything_and_slows_the_provider() {
    for wire in WIRES {
        // More than all buffers on the way hold. On Responses the last events repeat the whole text, and events are bounded.
        let count = if wire == Wire::Responses { 1 << 20 } else { 4 << 20 };
        let turn = ScriptedTurn::say([Part::text("abcdefgh".repeat(count))]);
        let sending = Sending { delta: 1 << 16, ..Sending::default() };
        let provider = Provider::start(Script::new([search(), turn.sending(sending)]));
        let proxy = RunningProxy::start("slow_reader", &provider);
        let mut conversation = Conversation::new(wire, &proxy.url, 200, true);
        let body = conversation.say("Go").body.to_string();
        let mut answer = send(&proxy.url, "POST", &conversation.path, &HEADERS, body.as_bytes());
        assert!(provider.wait_until(PATIENCE, |requests| requests.len() == 2), "{wire:?}");
        answer.next_event().expect("an event");
        assert_eq!(provider.requests()[1].ending, Ending::Pending, "{wire:?}: the provider waits for the reader");
        answer.finish();
        assert!(provider.wait_until(PATIENCE, |requests| requests[1].ending == Ending::Sent), "{wire:?}");
        assert!(answer.is_whole && looks_finished(wire, &answer.text()), "{wire:?}");
        let text = match wire {
            Wire::Responses => {
                let deltas = answer.events().into_iter().filter(|event| event["type"] == "response.output_text.delta");
                deltas.filter_map(|event| event["delta"].as_str().map(str::to_owned)).collect()
            }
            _ => answer.text(),
        };
        assert_eq!(text.matches("abcdefgh").count(), count, "{wire:?}: all of it, and once");
    }
}

#[test]
fn a_slow_provider_is_no_reason_to_wait_for_its_end() {
    for wire in WIRES {
        let sending = Sending { stall: None, pause: std::time::Duration::from_millis(1), ..Sending::default() };
        let provider = Provider::start(Script::new([search(), text().sending(sending)]));
        let proxy = RunningProxy::start("slow_provider", &provider);
        let began = Instant::now();
        let seen = Conversation::new(wire, &proxy.url, 200, true).say("Go").ask();
        assert!(seen.text.ends_with("happy.") && began.elapsed() < PATIENCE, "{wire:?}: {seen:?}");
    }
}
