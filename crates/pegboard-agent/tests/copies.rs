//! What a turn copies, counted by an allocator that only this test has.

use pegboard_agent::{
    Agent, CustomTool, DialectName, Mode, Model, ModelClient, ToolDef, ToolError, ToolOutput, ToolSearch, TurnFuture,
};
use pegboard_llm::{
    Conversation,
    wire::{Delta, Stop, Turn, Usage},
};
use serde_json::{Value, json};

const MODELS: [&str; 4] =
    ["anthropic/claude-opus-4-8", "openai/gpt-5.4", "openai-responses/gpt-5.4", "gemini/gemini-3-pro"];

/// What is said before the turn that is measured.
const HISTORY: usize = 4 << 20;

/// The descriptions of all tools.
const TOOLS: usize = 1 << 20;

/// A model that makes every request and says the same.
struct Briefly;

impl ModelClient for Briefly {
    fn next_turn<'a>(
        &'a self,
        conversation: &'a mut Conversation,
        _: &'a mut (dyn FnMut(Delta) + Send),
    ) -> TurnFuture<'a> {
        Box::pin(async move {
            let request = conversation.request(true)?;
            assert!(!request.tools.is_empty() && !request.messages.is_empty());
            let echo = vec![json!({"role": "assistant", "content": "yes"})];
            let turn = Turn { text: "yes".into(), calls: Vec::new(), stop: Stop::End, usage: Usage::default(), echo };
            conversation.record_turn(&turn);
            Ok(turn)
        })
    }
}

async fn agent(model: &str) -> Agent {
    let handler = |_: Value| async { Ok::<_, ToolError>(ToolOutput::from("done")) };
    let tool = |at: usize| {
        let parameters = json!({"type": "object", "properties": {}});
        CustomTool::new(ToolDef::new(format!("tool_{at}"), "t".repeat(TOOLS / 64), parameters), handler).eager()
    };
    let builder = Agent::builder(Model::parse(model).expect("a model")).client(Briefly).mode(Mode::Normal);
    let builder = (0..64).fold(builder, |builder, at| builder.tool(tool(at)));
    builder.tool_search(ToolSearch::with_dialect(DialectName::Bridge)).build().await.expect("an agent")
}

#[test]
fn a_turn_copies_history_and_tools_at_most_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for model in MODELS {
        let agent = runtime.block_on(agent(model));
        for _ in 0..16 {
            runtime.block_on(agent.run("h".repeat(HISTORY / 16))).expect("an answer");
        }
        let counted = allocation_counter::measure(|| {
            runtime.block_on(agent.run("And now?")).expect("an answer");
        });
        let once = (HISTORY + TOOLS) as u64;
        let share = counted.bytes_total as f64 / once as f64;
        assert!((0.9..1.2).contains(&share), "{model}: {share:.2} of history and tools");
    }
}
