//! Any sequence of what can happen to a conversation, on every wire.

use pegboard_discovery::DialectName;
use pegboard_llm::{
    Delivery, Model,
    wire::{ToolChoice, Wire},
};
use pegboard_testkit::provider::{Part, Stop};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{BOUND, FREE, NAMES, ScriptedConversation, catalog, raw};

/// Models of one wire, among which a conversation may change.
const FAMILIES: [&[&str]; 4] = [
    &[BOUND, FREE, BOUND, FREE, "anthropic/claude-opus-4-1", "minimax/MiniMax-M3"],
    &["openai/gpt-5.4", "minimax-chat/MiniMax-M3"],
    &["openai-responses/gpt-5.4", "openai-responses/gpt-5.3-codex"],
    &["gemini/gemini-3-pro", "gemini/gemini-2.5-pro"],
];

const DIALECTS: [DialectName; 5] =
    [DialectName::Select, DialectName::Schema, DialectName::Explicit, DialectName::Gateway, DialectName::Bridge];

const WISHES: [Option<Delivery>; 6] = [None, None, None, None, Some(Delivery::Inject), Some(Delivery::Native)];

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    Load(usize),
    Unload(usize),
    /// By a name that may not even be one.
    Call(usize, bool),
    EmptyResult,
    /// Tools come that are visible at once.
    Register(u8),
    Withdraw,
    Return,
    Resume {
        model: usize,
        dialect: usize,
        wish: usize,
        is_poorer: bool,
    },
    Compact,
    FallBack,
    Cut(bool),
    Empty,
    OnlyThoughts,
    Pause,
    GoOn,
    End,
    Rewind,
    Unsay,
    Force(usize),
    Stream(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES.len();
    prop_oneof![
        6 => name.clone().prop_map(Step::Load),
        1 => name.clone().prop_map(Step::Unload),
        2 => (name.clone(), any::<bool>()).prop_map(|(name, is_wild)| Step::Call(name, is_wild)),
        1 => Just(Step::EmptyResult),
        1 => (0..3_u8).prop_map(Step::Register),
        1 => Just(Step::Withdraw),
        1 => Just(Step::Return),
        4 => (0..6_usize, 0..DIALECTS.len(), 0..WISHES.len(), any::<bool>())
            .prop_map(|(model, dialect, wish, is_poorer)| Step::Resume { model, dialect, wish, is_poorer }),
        1 => Just(Step::Compact),
        1 => Just(Step::FallBack),
        2 => any::<bool>().prop_map(Step::Cut),
        1 => Just(Step::Empty),
        1 => Just(Step::OnlyThoughts),
        2 => Just(Step::Pause),
        2 => Just(Step::GoOn),
        2 => Just(Step::End),
        1 => Just(Step::Rewind),
        1 => Just(Step::Unsay),
        1 => name.prop_map(Step::Force),
        1 => any::<bool>().prop_map(Step::Stream),
    ]
}

struct Run {
    scripted: ScriptedConversation,
    family: &'static [&'static str],
    /// A length to go back to, from when nothing was open.
    mark: Option<usize>,
    /// The search that a paused turn waits for.
    begun: Option<String>,
    count: usize,
}

impl Run {
    /// The user says something, if the model is not in the middle of a turn.
    fn say(&mut self) {
        self.begun = None;
        self.scripted.conversation.say("Go on.");
    }

    async fn take(&mut self, step: &Step) {
        self.count += 1;
        let scripted = &mut self.scripted;
        match step {
            Step::Load(at) => {
                self.say();
                self.scripted.load(NAMES[*at]).await;
            }
            Step::Unload(at) => {
                self.say();
                self.scripted.call(Part::call("remove_tool", json!({"tool_names": [NAMES[*at]]}))).await;
            }
            Step::Call(at, is_wild) => {
                self.say();
                let name = if *is_wild { format!("world/{}", NAMES[*at]) } else { NAMES[*at].to_owned() };
                self.scripted.call(Part::call(name, json!({"a": 1}))).await;
            }
            Step::EmptyResult => {
                self.say();
                let turn = self.scripted.hear(vec![Part::call(NAMES[0], json!({}))], None).await;
                self.scripted.answer(&turn, "");
            }
            Step::Register(more) => {
                let mut tools: Vec<_> = NAMES.iter().map(|name| raw(name, true)).collect();
                tools.extend((0..=*more).map(|at| raw(&format!("late_{at}"), at % 2 == 0)));
                scripted.conversation.session_mut().update(pegboard_core::Catalog::from_tools(tools).0);
            }
            Step::Withdraw => drop(scripted.conversation.session_mut().update(catalog(&["read_file"]))),
            Step::Return => drop(scripted.conversation.session_mut().update(catalog(&NAMES))),
            Step::Resume { model, dialect, wish, is_poorer } => {
                let names = if *is_poorer { &NAMES[2..] } else { &NAMES[..] };
                let model = self.family[model % self.family.len()];
                let model_of = pegboard_llm::Model::parse(model).expect("a model");
                let wish = WISHES[*wish].filter(|wish| is_understood(&model_of, DIALECTS[*dialect], *wish));
                scripted.resume(model, DIALECTS[*dialect], catalog(names), wish);
                self.mark = None;
            }
            Step::Compact => {
                scripted.compact();
                (self.mark, self.begun) = (None, None);
            }
            Step::FallBack => drop(scripted.conversation.fall_back()),
            Step::Cut(has_begun) => {
                self.say();
                let cut = if *has_begun { json!("{\"city\": \"Ro") } else { json!({}) };
                let parts =
                    vec![Part::thinking("hm"), Part::call(NAMES[0], json!({"a": 1})), Part::call(NAMES[1], cut)];
                let turn = self.scripted.hear(parts, Some(Stop::MaxTokens)).await;
                assert_eq!(turn.stop, pegboard_llm::wire::Stop::Length);
                assert!(turn.calls[1].arguments.is_null() && turn.calls[0].arguments.is_object(), "{turn:?}");
                self.scripted.answer(&turn, "done");
            }
            Step::Empty => {
                self.say();
                self.scripted.hear(Vec::new(), None).await;
            }
            Step::OnlyThoughts => {
                self.say();
                self.scripted.hear(vec![Part::thinking("hm")], Some(Stop::MaxTokens)).await;
            }
            Step::Pause if scripted.wire() == Wire::Anthropic => {
                self.say();
                let id = format!("srvtoolu_of_ours_{}", self.count);
                let begun = json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
                self.scripted.hear(vec![Part::thinking("hm"), Part::Raw(begun)], Some(Stop::Pause)).await;
                self.begun = Some(id);
            }
            Step::Pause => {}
            Step::GoOn => match self.begun.take() {
                Some(id) => {
                    let found = json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
                    scripted.hear(vec![Part::Raw(found), Part::thinking("hm"), Part::text("Found.")], None).await;
                }
                None => {
                    self.say();
                    self.scripted.end().await;
                }
            },
            Step::End => {
                self.say();
                self.scripted.end().await;
                self.mark = Some(self.scripted.conversation.messages().len());
            }
            Step::Rewind => {
                if let Some(mark) = self.mark {
                    scripted.conversation.rewind(mark);
                    self.begun = None;
                }
            }
            Step::Unsay => {
                self.say();
                self.scripted.conversation.remove_unanswered();
                self.scripted.conversation.remove_unanswered();
                self.mark = None;
            }
            Step::Force(at) => {
                scripted.conversation.set_tool_choice(ToolChoice::Tool(NAMES[*at].to_owned()));
                let is_there = scripted.conversation.session().find(NAMES[*at]).is_some();
                let can = is_there && scripted.conversation.request(false).is_ok();
                if can && self.begun.is_none() {
                    self.say();
                    self.scripted.call(Part::call(NAMES[*at], json!({"a": 1}))).await;
                }
                self.scripted.conversation.set_tool_choice(ToolChoice::Auto);
            }
            Step::Stream(is_streamed) => scripted.is_streamed = *is_streamed,
        }
    }
}

/// Whether a delivery can be asked for without being refused.
fn is_understood(model: &Model, dialect: DialectName, wish: Delivery) -> bool {
    pegboard_llm::delivery::choose(model, dialect, Some(wish)).is_ok_and(|choice| choice.warning.is_none())
}

fn check(family: &'static [&'static str], model: usize, dialect: usize, wish: usize, steps: &[Step]) {
    let text = family[model % family.len()];
    let of = pegboard_llm::Model::parse(text).expect("a model");
    let wish = WISHES[wish].filter(|wish| is_understood(&of, DIALECTS[dialect], *wish));
    let scripted = ScriptedConversation::new(text, DIALECTS[dialect], wish);
    let mut run = Run { scripted, family, mark: None, begun: None, count: 0 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for step in steps {
            run.take(step).await;
        }
        run.say();
        run.scripted.end().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_history_is_refused_for_good(
        // Half of them where most can go wrong.
        family in prop::sample::select(vec![0, 0, 0, 0, 1, 2, 2, 3]),
        model in 0..6_usize,
        dialect in 0..DIALECTS.len(),
        wish in 0..WISHES.len(),
        steps in prop::collection::vec(step(), 1..20),
    ) {
        check(FAMILIES[family], model, dialect, wish, &steps);
    }
}
