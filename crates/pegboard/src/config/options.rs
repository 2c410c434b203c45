//! The options of the dialects, as keys of the file.

use pegboard_discovery::{Settings, SettingsError};
use pegboard_upstream::config::{
    document::Node,
    keys::{Key, Kind, Scope, Section},
};

const COUNT: Kind = Kind::Count { least: 0 };

pub(super) static OPTIONS: Section<Settings> = Section::new(
    "settings",
    "Options of the dialects, under the names that `pegboard session --set` knows.",
    &[
        Key::new("enabled", Kind::Flag, "`gateway`: whether tools are hidden behind a search at all.", set_option)
            .default("true"),
        Key::new(
            "maxToolsLimit",
            COUNT,
            "`gateway`: tools that are listed at once; 0 lists everything and offers no search.",
            set_option,
        )
        .default("50"),
        Key::new(
            "searchThreshold",
            Kind::Share,
            "`gateway`: what a hit must score, as a share of the best hit's score.",
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
            "`gateway`: whether the hits of a search take the place of what was listed before, or join it.",
            set_option,
        )
        .default("\"replace\""),
        Key::new(
            "always_searchable",
            Kind::Flag,
            "`gateway`: whether a call of the search is answered even when everything is listed and it is not.",
            set_option,
        )
        .default("false"),
        Key::new("seed", COUNT, "`gateway`: what the order `random` is made of.", set_option).default("0"),
        Key::new("max_limit", COUNT, "`ranked`: the most hits that may be asked for.", set_option).default("10"),
        Key::new("default_limit", COUNT, "`ranked`: hits when nothing is asked for.", set_option).default("5"),
        Key::new("token_bonus", Kind::Number, "`ranked`: what each literal hit adds to a tool's score.", set_option)
            .default("0.12"),
        Key::new(
            "split_by_risk",
            Kind::Flag,
            "`bridge`: separate call tools for reading, writing and destroying.",
            set_option,
        )
        .default("false"),
        Key::new("hits_per_query", COUNT, "`bridge`: hits of one query.", set_option).default("5"),
        Key::new(
            "least_confidence",
            Kind::Share,
            "`bridge`: how likely the best hit must be for hits to be shown; 0 shows the nearest there is. Without \
             it, as likely as the ranker thinks right.",
            set_option,
        ),
        Key::new("answer_tokens", COUNT, "`bridge`: tokens (estimated) that one answer may have.", set_option)
            .default("1500"),
        Key::new("spec_tokens", COUNT, "`code`: tokens (estimated) that the spec of a server may have.", set_option)
            .default("20000"),
        Key::new(
            "max_loaded",
            COUNT,
            "Tools that stay loaded; the one that was used longest ago gives way. 0 keeps all.",
            set_option,
        )
        .default("0"),
        Key::new(
            "run_unloaded",
            Kind::Flag,
            "Whether a call of a tool that is not loaded runs; otherwise it is answered with the tool's schema.",
            set_option,
        )
        .default("true"),
        Key::new(
            "strict",
            Kind::Flag,
            "Whether the prompt tells the model to search before anything else.",
            set_option,
        )
        .default("false"),
        Key::new(
            "prompt_template",
            Kind::Text,
            "A prompt of your own; `{instructions}` and `{categories}` are filled in.",
            set_option,
        ),
        Key::new(
            "reminder_template",
            Kind::Text,
            "A reminder of your own, for dialects that have one; `{names}` is filled in.",
            set_option,
        ),
        Key::new(
            "output_offloading",
            Kind::Flag,
            "Whether large outputs are put aside, which makes the tools that read them visible.",
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
        // Whoever adds a field is told by the compiler to count again, and to add its key.
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
            // Said elsewhere: `pegboard.validateArguments`.
            hits: _,
            token_bonus: _,
            validation: _,
        } = Settings::default();
        assert_eq!(OPTIONS.keys.len(), 21);
    }
}
