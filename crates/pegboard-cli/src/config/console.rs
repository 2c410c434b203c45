//! The web console.

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape, set},
};
use pegboard_gateway::{ActivitySettings, ClientPrice, ConsoleSettings, ContentsPlace, Prices};

/// What fits under `console`.
pub(super) const KIND: Kind = Kind::Object(shape);

const CONTENTS: &[&str] = &ContentsPlace::NAMES;

fn shape() -> Shape {
    SECTION.shape()
}

/// The values of `console`.
#[derive(Debug)]
pub(super) struct ConsoleDraft {
    pub(super) is_served: bool,
    pub(super) settings: ConsoleSettings,
}

/// Reads `console`.
pub(super) fn read(node: &Node<'_>, scope: &mut Scope<'_>) -> ConsoleDraft {
    let mut draft = ConsoleDraft { is_served: true, settings: ConsoleSettings::default() };
    SECTION.read(node, &mut draft, scope);
    draft
}

static SECTION: Section<ConsoleDraft> = Section::new(
    "console",
    "The web console of a gateway that listens on an address, and its stored data.",
    &[
        Key::new(
            "enabled",
            Kind::Flag,
            "Whether the gateway serves the console at `/console/`. Applies when the gateway starts.",
            |node, draft: &mut ConsoleDraft, scope| set(&mut draft.is_served, node.as_bool(scope.problems)),
        )
        .default("true"),
        Key::new(
            "activity",
            Kind::Object(|| ACTIVITY.shape()),
            "Stored searches and calls.",
            |node, draft: &mut ConsoleDraft, scope| ACTIVITY.read(node, &mut draft.settings.activity, scope),
        ),
        Key::new(
            "prices",
            Kind::Object(|| PRICES.shape()),
            "Prices of tokens, to show savings as money.",
            |node, draft: &mut ConsoleDraft, scope| {
                let mut prices = PricesDraft::default();
                PRICES.read(node, &mut prices, scope);
                draft.settings.prices = prices.finish();
            },
        ),
    ],
);

static ACTIVITY: Section<ActivitySettings> = Section::new(
    "activity",
    "Stored activity: caller, query, hits, called tool, duration. Applies when the gateway starts.",
    &[
        Key::new(
            "entries",
            Kind::Count { least: 0 },
            "Maximum number of entries; the oldest are evicted. 0 stores none.",
            |node, settings: &mut ActivitySettings, scope| {
                let most = node.as_count(scope.problems).map(|count| count.min(MAX_ENTRIES));
                set(&mut settings.entries, most);
            },
        )
        .default("10000"),
        Key::new(
            "lifetime",
            Kind::Duration { may_be_zero: false },
            "How long entries are kept.",
            |node, settings: &mut ActivitySettings, scope| {
                set(&mut settings.lifetime, node.as_duration(false, scope.problems));
            },
        )
        .default("\"30d\""),
        Key::new(
            "disk",
            Kind::Flag,
            "Whether entries are written to a file of the state folder, without arguments and results.",
            |node, settings: &mut ActivitySettings, scope| set(&mut settings.is_on_disk, node.as_bool(scope.problems)),
        )
        .default("true"),
        Key::new(
            "contents",
            Kind::OneOf(CONTENTS),
            "Where arguments and results of the newest entries are kept, at most 16 KiB of each and without known \
             secrets: nowhere, in memory, or in the file as well.",
            |node, settings: &mut ActivitySettings, scope| {
                set(&mut settings.contents, node.as_one_of(CONTENTS, scope.problems).and_then(ContentsPlace::named));
            },
        )
        .default("\"memory\""),
    ],
);

/// Maximum number of kept entries; more would fill the memory.
const MAX_ENTRIES: usize = 200_000;

/// Prices while they are read.
#[derive(Debug)]
struct PricesDraft {
    currency: String,
    per_million_tokens: Option<f64>,
    clients: Vec<ClientPrice>,
}

impl Default for PricesDraft {
    fn default() -> Self {
        Self { currency: "USD".to_owned(), per_million_tokens: None, clients: Vec::new() }
    }
}

impl PricesDraft {
    fn finish(self) -> Option<Prices> {
        let Self { currency, per_million_tokens, clients } = self;
        let is_set = per_million_tokens.is_some() || !clients.is_empty();
        is_set.then(|| Prices { currency, per_million_tokens: per_million_tokens.unwrap_or_default(), clients })
    }
}

static PRICES: Section<PricesDraft> = Section::new(
    "prices",
    "Prices of the tokens that a model reads.",
    &[
        Key::new("currency", Kind::Word, "The currency.", |node, prices: &mut PricesDraft, scope| {
            set(&mut prices.currency, node.as_non_blank(scope.problems).map(str::to_owned));
        })
        .default("\"USD\""),
        Key::new(
            "perMillionTokens",
            Kind::Number,
            "The price of a million input tokens, for clients without a price of their own.",
            |node, prices: &mut PricesDraft, scope| prices.per_million_tokens = price(node, scope),
        ),
        Key::new(
            "clients",
            Kind::Map(&Kind::Number),
            "Prices by client name.",
            |node, prices: &mut PricesDraft, scope| {
                let Some(entries) = node.as_object(scope.problems) else { return };
                for entry in &entries {
                    let client = entry.key().to_owned();
                    let price = price(entry, scope);
                    prices.clients.extend(price.map(|per_million_tokens| ClientPrice { client, per_million_tokens }));
                }
            },
        )
        .default("{}"),
    ],
);

/// Reads a price.
fn price(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<f64> {
    let number = node.to_json().as_f64();
    if number.is_none() {
        node.must_be(Kind::Number, scope.problems);
    }
    number
}
