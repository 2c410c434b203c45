//! jq filters without access to the environment.

use jaq_core::{
    Compiler, Ctx, Vars,
    compile::Undefined,
    data::JustLut,
    load::{Arena, Error, File, Loader, import, span},
};
use jaq_json::{Val, ValR};

/// Functions that read the environment of the process, end it, or write past its output.
const OUTSIDE: [&str; 9] =
    ["env", "now", "halt", "halt_error", "stderr", "stderr_empty", "debug", "debug_empty", "input_filename"];

/// Functions that read the system's time zone.
const LOCAL: [&str; 2] = ["localtime", "strflocaltime"];

/// A compiled filter.
pub(super) struct Filter(jaq_core::Filter<JustLut<Val>>);

impl Filter {
    /// Compiles `code`; on failure returns the message.
    pub(super) fn compile(code: &str) -> Result<Self, String> {
        let is_inside = |name: &str| !OUTSIDE.contains(&name) && !LOCAL.contains(&name);
        let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
        let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
        let arena = Arena::default();
        let loader = Loader::new(definitions.filter(|definition| is_inside(definition.name)));
        let modules = loader
            .load(&arena, File { code, path: () })
            .map_err(|errors| first(errors.iter().map(|(_, error)| load_error(code, error))))?;
        import(&modules, |_| Err(String::new()))
            .map_err(|errors| first(errors.iter().map(|(_, error)| load_error(code, error))))?;
        let filter = Compiler::default()
            .with_funs(functions.filter(|(name, ..)| is_inside(name)))
            .compile(modules)
            .map_err(|errors| first(errors.iter().flat_map(|(_, errors)| errors.iter().map(undefined))))?;
        Ok(Self(filter))
    }

    /// Runs the filter on one input.
    pub(super) fn run(&self, input: Val) -> impl Iterator<Item = ValR> {
        let context = Ctx::<JustLut<Val>>::new(&self.0.lut, Vars::new([]));
        self.0.id.run((context, input)).map(|result| {
            // Other exceptions cannot occur any more.
            result.map_err(|exception| {
                exception.get_err().unwrap_or_else(|_| jaq_core::Error::str("`break` outside of its label"))
            })
        })
    }
}

fn first(mut messages: impl Iterator<Item = String>) -> String {
    messages.next().unwrap_or_else(|| "it cannot be compiled".to_owned())
}

fn load_error(code: &str, error: &Error<&str>) -> String {
    let expected = |what: &str, found: &str| {
        let at = span(code, found).start;
        let place = match code.get(..at) {
            Some(before) if at < code.len() => format!("character {}", before.chars().count() + 1),
            _ => "the end".to_owned(),
        };
        format!("expected {what} at {place}")
    };
    match error {
        Error::Io(_) => "a filter cannot read files".to_owned(),
        Error::Lex(errors) => first(errors.iter().map(|(what, found)| expected(what.as_str(), found))),
        Error::Parse(errors) => first(errors.iter().map(|(what, found)| expected(what.as_str(), found))),
    }
}

fn undefined((name, kind): &(&str, Undefined)) -> String {
    match kind {
        Undefined::Filter(0) => format!("no filter `{name}`"),
        Undefined::Filter(1) => format!("no filter `{name}` of 1 argument"),
        Undefined::Filter(arity) => format!("no filter `{name}` of {arity} arguments"),
        kind => format!("no {} `{name}`", kind.as_str()),
    }
}
