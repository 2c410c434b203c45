//! The options of the dialects as keys of the configuration file.

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section},
};
use pegboard_discovery::{Settings, SettingsError};

const COUNT: Kind = Kind::Count { least: 0 };

pub(super) static OPTIONS: Section<Settings> = Section::new(
    "settings",
    "Options of the dialects, with the same names as in `pegboard session --set`.",
    &[
        Key::new("enabled", Kind::Flag, "`gateway`: whether tool search is used.", set_option).default("true"),
        Key::new(
            "maxToolsLimit",
            COUNT,
            "`gateway`: number of listed tools; 0 lists all tools without a search.",
            set_option,
        )
        .default("50"),
        Key::new(
            "searchThreshold",
            Kind::Share,
            "`gateway`: minimum score of a hit, as a share of the best hit's score.",
            set_option,
        )
        .default("0.1"),
        Key::new(
            "toolSelectionOrder",
            Kind::List(&Kind::OneOf(&["server_priority", "alphabetical", "random"])),
            "`gateway`: which tools are listed before anything was searched for; the first order is the main one, \
             the others break ties.",
            set_option,
        )
        .default("[\"server_priority\", \"alphabetical\"]"),
        Key::new(
            "exposed",
            Kind::OneOf(&["replace", "accumulate"]),
            "`gateway`: whether the hits of a search replace the tools listed before, or are added to them.",
            set_option,
        )
        .default("\"replace\""),
        Key::new(
            "always_searchable",
            Kind::Flag,
            "`gateway`: whether the search tool can be called even if all tools are listed and it is not.",
            set_option,
        )
        .default("false"),
        Key::new("seed", COUNT, "`gateway`: seed of the order `random`.", set_option).default("0"),
        Key::new("max_limit", COUNT, "`ranked`: maximum number of hits that a search can request.", set_option)
            .default("10"),
        Key::new("default_limit", COUNT, "`ranked`: default number of hits.", set_option).default("5"),
        Key::new("token_bonus", Kind::Number, "`ranked`: score that each literal hit adds to a tool.", set_option)
            .default("0.12"),
        Key::new(
            "split_by_risk",
            Kind::Flag,
            "`bridge`: separate call tools for read-only, writing and destructive tools.",
            set_option,
        )
        .default("false"),
        Key::new("hits_per_query", COUNT, "`bridge`: number of hits per query.", set_option).default("5"),
        Key::new(
            "least_confidence",
            Kind::Share,
            "`bridge`: minimum confidence of the best hit for hits to be shown; 0 always shows the nearest tools. \
             Without it, the ranker's own threshold.",
            set_option,
        ),
        Key::new("answer_tokens", COUNT, "`bridge`: maximum size of one answer, in estimated tokens.", set_option)
            .default("1500"),
        Key::new("spec_tokens", COUNT, "`code`: maximum size of a server's spec, in estimated tokens.", set_option)
            .default("20000"),
        Key::new(
            "max_loaded",
            COUNT,
            "Maximum number of loaded tools; the least recently used one is evicted. 0 is unlimited.",
            set_option,
        )
        .default("0"),
        Key::new(
            "run_unloaded",
            Kind::Flag,
            "Whether a call to a tool that is not loaded is executed; otherwise the answer is the tool's schema.",
            set_option,
        )
        .default("true"),
        Key::new("strict", Kind::Flag, "Whether the prompt instructs the model to search first.", set_option)
            .default("false"),
        Key::new(
            "prompt_template",
            Kind::Text,
            "Custom prompt; `{instructions}` and `{categories}` are substituted.",
            set_option,
        ),
        Key::new(
            "reminder_template",
            Kind::Text,
            "Custom reminder, for dialects that have one; `{names}` is substituted.",
            set_option,
        ),
        Key::new(
            "output_offloading",
            Kind::Flag,
            "Whether large outputs are offloaded, which makes the tools for reading them visible.",
            set_option,
        )
        .default("false"),
    ],
);

/// Sets the option that the node is named after.
pub(super) fn set_option(node: &Node<'_>, settings: &mut Settings, scope: &mut Scope<'_>) {
    match settings.set(node.key(), &node.to_json()) {
        Ok(()) => {}
        Err(SettingsError::WrongValue { expected, .. }) => {
            scope.problems.push(node.problem(format!("must be {expected}")));
        }
        Err(_) => scope.problems.push(node.problem("is not known")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_dialects_is_known() {
        // A new field makes this fail to compile, as a reminder to add its key and to count again.
        let Settings {
            enabled: _,
            always_searchable: _,
            max_tools_limit: _,
            search_threshold: _,
            tool_selection_order: _,
            exposed: _,
            seed: _,
            max_limit: _,
            default_limit: _,
            split_by_risk: _,
            hits_per_query: _,
            least_confidence: _,
            answer_tokens: _,
            spec_tokens: _,
            max_loaded: _,
            run_unloaded: _,
            strict: _,
            prompt_template: _,
            reminder_template: _,
            output_offloading: _,
            has_read_result: _,
            // Said elsewhere: `pegboard.validateArguments`.
            hits: _,
            token_bonus: _,
            validation: _,
        } = Settings::default();
        assert_eq!(OPTIONS.keys.len(), 21);
    }
}
