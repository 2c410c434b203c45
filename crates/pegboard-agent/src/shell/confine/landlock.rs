//! Landlock: permanent restrictions that a process applies to itself.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope, make_bitflags, path_beneath_rules,
};

use super::spec::Rules;

/// The newest known version; an older kernel restricts what it can.
const NEWEST: ABI = ABI::V9;

/// Devices without state.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Restricts this thread and its children; returns the version of Landlock, zero if there is none.
pub(super) fn restrict(rules: &Rules) -> Result<u32, RulesetError> {
    let read = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
    let device: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate});
    let write = AccessFs::from_all(NEWEST) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(&rules.readable, read))?
        .add_rules(path_beneath_rules(DEVICES, device))?
        .add_rules(path_beneath_rules(&rules.writable, write))?;
    if let Some(port) = rules.port {
        ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    let status = ruleset.restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
        _ => 0,
    })
}
