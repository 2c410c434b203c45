//! The command line: which eras to speak, what to offer, how to misbehave.

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
Usage: pegboard-fixture [OPTIONS]

An MCP server over stdin and stdout for tests.

  --era legacy|modern|both   revisions to speak: up to 2025-11-25, 2026-07-28, or both (default)
  --extras                   add the tools echo, slow, large, change_tools, update_resource, exit, spawn_grandchild
  --environment              add the tool environment, which reports the variables of the server and its ancestors
  --tools N                  list N more tools, tool_00000 and so on
  --catalog FILE             list the tools of a file with one JSON object a line as well
  --description-bytes N      list one more tool, long_description, with a description of N bytes
  --paginate N               answer lists in pages of N
  --fault NAME               misbehave; may be repeated:
      hang                   answer nothing
      garbage                write what is no message between messages, and messages in two halves
      exit                   exit with code 3 after the first line
      linger                 stay for a minute after the end of input
      no-type                leave `type` out of input schemas
      duplicates             list two tools of the same name
      hostile                say what drives terminals and what nobody sees, wherever something is said
  --help                     print this
";

/// Which protocol eras are spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Eras {
    /// Revisions that begin with `initialize`.
    Legacy,
    /// Revision 2026-07-28, where every request describes its client.
    Modern,
    /// Either, as the client opens.
    #[default]
    Both,
}

/// One way of being a bad server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Hang,
    Garbage,
    Exit,
    Linger,
    NoType,
    Duplicates,
    Hostile,
}

/// The settings of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) eras: Eras,
    pub(crate) extras: bool,
    pub(crate) environment: bool,
    pub(crate) tools: usize,
    pub(crate) catalog: Option<String>,
    pub(crate) description_bytes: Option<usize>,
    pub(crate) page_size: Option<usize>,
    faults: Vec<Fault>,
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    Run(Args),
    Help,
}

impl Args {
    /// Reads the arguments that follow the program's name.
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Parsed, String> {
        let mut args = Args::default();
        let mut words = words.into_iter();
        while let Some(flag) = words.next() {
            let mut value = || words.next().ok_or(format!("`{flag}` needs a value"));
            match flag.as_str() {
                "--era" => args.eras = era(&value()?)?,
                "--extras" => args.extras = true,
                "--environment" => args.environment = true,
                "--tools" => args.tools = number(&flag, &value()?)?,
                "--catalog" => args.catalog = Some(value()?),
                "--description-bytes" => args.description_bytes = Some(number(&flag, &value()?)?),
                "--paginate" => args.page_size = Some(number(&flag, &value()?)?.max(1)),
                "--fault" => args.faults.push(fault(&value()?)?),
                "--help" | "-h" => return Ok(Parsed::Help),
                _ => return Err(format!("unknown argument `{flag}`")),
            }
        }
        Ok(Parsed::Run(args))
    }

    /// Whether the run is to show `fault`.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

fn era(word: &str) -> Result<Eras, String> {
    match word {
        "legacy" => Ok(Eras::Legacy),
        "modern" => Ok(Eras::Modern),
        "both" => Ok(Eras::Both),
        _ => Err(format!("`{word}` is no era: legacy, modern, both")),
    }
}

fn fault(word: &str) -> Result<Fault, String> {
    match word {
        "hang" => Ok(Fault::Hang),
        "garbage" => Ok(Fault::Garbage),
        "exit" => Ok(Fault::Exit),
        "linger" => Ok(Fault::Linger),
        "no-type" => Ok(Fault::NoType),
        "duplicates" => Ok(Fault::Duplicates),
        "hostile" => Ok(Fault::Hostile),
        _ => Err(format!("`{word}` is no fault: hang, garbage, exit, linger, no-type, duplicates, hostile")),
    }
}

fn number(flag: &str, word: &str) -> Result<usize, String> {
    word.parse().map_err(|_| format!("`{flag}` takes a number, not `{word}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Parsed, String> {
        Args::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn every_flag_is_read() {
        let parsed = parse("--era modern --extras --tools 3 --paginate 2 --fault no-type --fault duplicates");
        let expected = Args {
            eras: Eras::Modern,
            extras: true,
            tools: 3,
            page_size: Some(2),
            faults: vec![Fault::NoType, Fault::Duplicates],
            ..Args::default()
        };
        assert_eq!(parsed, Ok(Parsed::Run(expected)));
    }

    #[test]
    fn mistakes_are_refused() {
        for line in ["--era old", "--fault", "--tools many", "--fault bad", "tools"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
