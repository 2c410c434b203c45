//! The list of wires and the list of providers. A new one gets its line here and a file beside
//! this one; nothing else in the crate names it.

use super::{anthropic, chat, format::WireFormat, gemini, minimax, profile::Profile, responses};

/// Defines an enum with one variant for each line, and what each variant refers to.
macro_rules! list {
    ($(#[$about:meta])* $kind:ident -> $entry:ident: &'static $target:ty {
        $($(#[$doc:meta])* $name:ident => $value:expr,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $kind {
            $($(#[$doc])* $name,)+
        }

        impl $kind {
            /// All of them.
            pub const ALL: [Self; [$(Self::$name),+].len()] = [$(Self::$name),+];

            pub(crate) fn $entry(self) -> &'static $target {
                match self {
                    $(Self::$name => &$value,)+
                }
            }
        }
    };
}

list! {
    /// A form of conversation.
    Wire -> format: &'static dyn WireFormat {
        /// Anthropic Messages.
        Anthropic => anthropic::Anthropic,
        /// OpenAI Chat Completions, and everything compatible with it.
        Chat => chat::Chat,
        /// OpenAI Responses.
        Responses => responses::Responses,
        /// Gemini `generateContent`.
        Gemini => gemini::Gemini,
    }
}

list! {
    /// A provider of models.
    Provider -> profile: &'static Profile {
        /// Anthropic Messages.
        Anthropic => anthropic::PROVIDER,
        /// OpenAI Chat Completions, or a compatible endpoint.
        OpenAi => chat::PROVIDER,
        /// OpenAI Responses.
        OpenAiResponses => responses::PROVIDER,
        /// Gemini.
        Gemini => gemini::PROVIDER,
        /// MiniMax, by its Anthropic-compatible endpoint.
        MiniMax => minimax::PROVIDER,
        /// MiniMax, by its OpenAI-compatible endpoint.
        MiniMaxChat => minimax::CHAT_PROVIDER,
    }
}

impl Provider {
    /// Returns the name in `PROVIDER/MODEL`.
    pub fn as_str(self) -> &'static str {
        self.profile().name
    }

    /// Returns the name of the company, the same for all of its APIs.
    pub fn vendor(self) -> &'static str {
        self.profile().vendor
    }

    /// Returns the form in which it writes conversations.
    pub fn wire(self) -> Wire {
        self.profile().wire
    }

    /// Returns the base URL that is used unless another one is set.
    pub fn base_url(self) -> &'static str {
        self.profile().base_url
    }

    /// Returns the environment variables that hold its key and another base URL.
    pub fn variables(self) -> super::profile::Variables {
        self.profile().variables
    }

    /// Returns how many tools one request may define. Where a provider documents no limit, it is
    /// the largest of the others.
    pub fn max_tools(self) -> usize {
        self.profile().max_tools
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_wires() {
        let names: std::collections::HashSet<&str> = Provider::ALL.map(Provider::as_str).into();
        assert_eq!(names.len(), Provider::ALL.len(), "{names:?}");
        for wire in Wire::ALL {
            assert!(Provider::ALL.iter().any(|provider| provider.wire() == wire), "no provider writes {wire:?}");
        }
        for provider in Provider::ALL {
            assert!(!provider.variables().keys.is_empty(), "{}: an error names the first", provider.as_str());
        }
    }
}
