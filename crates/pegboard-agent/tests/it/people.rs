//! Questions, consent, and answers with a form.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use pegboard_agent::{
    Approval, CustomTool, Mode, Question, ToolDef, ToolError,
    schemars::{self, JsonSchema},
};
use pegboard_discovery::policy::{Middleware, NamePattern, Policies, SecurityRule};
use regex::Regex;
use serde_json::{Value, json};

use crate::support::{Weather, agent, call, provider, results, run, say};

fn def(name: &str) -> ToolDef {
    ToolDef::new(name, format!("does {name}"), json!({"type": "object", "properties": {}}))
}

#[tokio::test]
async fn questions_are_asked_where_there_is_a_user() {
    let provider = provider([
        call("ask_human", json!({"question": "Which city?", "options": ["Rome", "Oslo"]})),
        call("consult", json!({"message": "Sure?"})),
        say("Rome it is."),
    ]);
    let human = async |question: Question| match question.tool.as_str() {
        "ask_human" => question.options.first().cloned(),
        _ => None,
    };
    let agent = agent(&provider).tool(CustomTool::human(def("consult"))).human(human).build().await.expect("an agent");
    let visible = agent.visible_tools();
    assert!(visible.contains(&"ask_human".to_owned()) && visible.contains(&"consult".to_owned()), "{visible:?}");
    let (events, _) = run(&agent, "Where?").await;
    let answered = results(&events);
    assert_eq!(answered[0].1, "Rome");
    assert_eq!((answered[1].1.as_str(), answered[1].2), ("the user did not answer", true));
    provider.assert_clean();
}

#[tokio::test]
async fn destructive_calls_need_consent() {
    let asked = Arc::new(AtomicUsize::new(0));
    let check = async |answer: Option<&'static str>, approval: Approval, ran: usize, questions: usize| {
        let (calls, count) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&asked));
        asked.store(0, Ordering::SeqCst);
        let counted = Arc::clone(&calls);
        let wipe = CustomTool::new(def("wipe"), move |_: Value| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, ToolError>("wiped") }
        });
        let provider = provider([
            call("wipe", json!({})),
            call("wipe", json!({})),
            call("get_weather", json!({"location": "Rome"})),
            say("Done."),
        ]);
        let mut builder =
            agent(&provider).tool(wipe.destructive()).servers([Weather::default().config()]).approval(approval);
        if let Some(answer) = answer {
            builder = builder.human(move |_: Question| {
                count.fetch_add(1, Ordering::SeqCst);
                async move { Some(answer.to_owned()) }
            });
        }
        let agent = builder.build().await.expect("an agent");
        let (events, _) = run(&agent, "Wipe it").await;
        let about = format!("{answer:?} {approval:?}: {:?}", results(&events));
        assert_eq!(calls.load(Ordering::SeqCst), ran, "{about}");
        assert_eq!(asked.load(Ordering::SeqCst), questions, "{about}");
        provider.assert_clean();
    };
    check(Some("yes"), Approval::Destructive, 2, 2).await;
    check(Some("always"), Approval::Destructive, 2, 1).await;
    check(Some("no, never"), Approval::Destructive, 0, 2).await;
    check(None, Approval::Destructive, 0, 0).await;
    check(Some("no"), Approval::Never, 2, 0).await;
    check(Some("yes"), Approval::Always, 2, 3).await;
}

#[tokio::test]
async fn the_steps_of_a_configuration_hold_in_the_agent_too() {
    let rule = SecurityRule {
        name: "no Atlantis".to_owned(),
        pattern: Regex::new("Atlantis").expect("a pattern"),
        message: "there is no such place".to_owned(),
    };
    let policies = Policies {
        general: vec![
            Middleware::ToolFilter { allow: Vec::new(), deny: vec![NamePattern::new("^fail$").expect("a pattern")] },
            Middleware::DescriptionEnricher { prefix: String::new(), suffix: " (by satellite)".to_owned() },
            Middleware::Security { rules: vec![rule], is_logged: true },
        ],
        by_server: Vec::new(),
    };
    let provider = provider([call("get_weather", json!({"location": "Atlantis"})), say("Nowhere.")]);
    let weather = Weather::default();
    let agent = agent(&provider)
        .mode(Mode::Normal)
        .servers([weather.config()])
        .policy(policies)
        .build()
        .await
        .expect("an agent");
    let (events, _) = run(&agent, "How is Atlantis?").await;
    let answered = results(&events);
    assert_eq!((answered[0].1.as_str(), answered[0].2), ("there is no such place", true));
    let first = provider.requests().first().expect("a request").body.to_string();
    assert!(first.contains("Get current weather for a location (by satellite)"), "{first}");
    assert!(!first.contains("Ask a station that is down"), "{first}");
    provider.assert_clean();
}

#[derive(Debug, PartialEq, JsonSchema, serde::Deserialize)]
struct Report {
    city: String,
    degrees: f64,
}

#[tokio::test]
async fn answers_with_a_form() {
    let provider = provider([
        say("It is 21.5 degrees in Rome."),
        call("final_answer", json!({"city": "Rome"})),
        call("final_answer", json!({"city": "Rome", "degrees": 21.5})),
        say("never said"),
    ]);
    let agent = agent(&provider).output::<Report>().build().await.expect("an agent");
    let (events, answer) = run(&agent, "How warm?").await;
    assert_eq!(answer.parse::<Report>().expect("a report"), Report { city: "Rome".into(), degrees: 21.5 });
    let answered = results(&events);
    assert!(answered[0].2 && answered[0].1.contains("/degrees is missing"), "{answered:?}");
    assert_eq!(answered[1].1, "accepted");
    assert_eq!(provider.turns_taken(), 3, "it was reminded once, and ended with the answer");
    provider.assert_clean();
}

#[tokio::test]
async fn answers_that_are_no_object() {
    let provider = provider([call("final_answer", json!({"value": ["Rome", "Oslo"]})), say("never said")]);
    let agent = agent(&provider).output::<Vec<String>>().build().await.expect("an agent");
    let answer = agent.run("Which cities?").await.expect("an answer");
    assert_eq!(answer.parse::<Vec<String>>().expect("a list"), ["Rome", "Oslo"]);
    provider.assert_clean();
}
