//! Serialization of sessions.

use serde_json::{Value, json};

use super::{
    Session, SessionError, VisibleTool,
    loaded::{Loaded, LoadedTool, MissingTool},
    visible::find_allowed,
};

/// The version of the serialised form.
pub(super) const FORMAT: u64 = 1;

impl Session {
    /// Returns the session as a value for [`restore`](Self::restore).
    pub fn to_json(&self) -> Value {
        let tool = |shown: &VisibleTool| json!({"id": shown.tool.id(), "shown_as": shown.name()});
        let loaded = |loaded: &LoadedTool| {
            let mut value = tool(&loaded.shown);
            value["pinned"] = loaded.is_pinned.into();
            value["used"] = loaded.used.into();
            value
        };
        let away = |away: &MissingTool| json!({"id": away.id, "shown_as": away.shown_as, "pinned": away.is_pinned, "used": away.used});
        let exposed = self.exposed.as_ref();
        json!({
            "version": FORMAT,
            "dialect": self.dialect.as_str(),
            "loaded": self.loaded.tools.iter().map(loaded).chain(self.loaded.away.iter().map(away)).collect::<Vec<_>>(),
            "removed": self.removed,
            "exposed": exposed.map(|tools| tools.iter().map(tool).collect::<Vec<_>>()),
            "list_changes": self.list_changes,
            "clock": self.loaded.clock,
        })
    }

    /// Restores a saved session. Tools that the catalog does not have are missing until it has them
    /// again.
    ///
    /// # Errors
    /// When the value is of another format or incomplete; the session is then unchanged.
    pub fn restore(&mut self, saved: &Value) -> Result<(), SessionError> {
        if saved.get("version").and_then(Value::as_u64) != Some(FORMAT) {
            let found = saved.get("version").map_or_else(|| "none".to_owned(), Value::to_string);
            return Err(SessionError::Format { found });
        }
        let dialect = saved.get("dialect").and_then(Value::as_str).unwrap_or_default();
        if dialect != self.dialect.as_str() {
            return Err(SessionError::OtherDialect { found: dialect.to_owned() });
        }
        let list = saved.get("loaded").and_then(Value::as_array).ok_or(SessionError::Incomplete { field: "loaded" })?;
        let find = |entry: &Value| {
            if !self.dialect().lists_catalog() {
                return None;
            }
            let tool = find_allowed(&self.catalog, &self.selection, entry.get("id")?.as_str()?)?;
            Some(VisibleTool::new(tool, entry.get("shown_as")?.as_str()?, &self.names))
        };
        let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_u64).unwrap_or(0);
        let is_pinned = |entry: &Value| entry.get("pinned").and_then(Value::as_bool).unwrap_or(false);
        let loaded = |entry: &Value| {
            Some(LoadedTool { shown: find(entry)?, is_pinned: is_pinned(entry), used: number(entry, "used") })
        };
        let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let away = |entry: &Value| {
            let (id, shown_as) = (text(entry, "id")?, text(entry, "shown_as")?);
            Some(MissingTool { id, shown_as, is_pinned: is_pinned(entry), used: number(entry, "used") })
        };
        let missing = list.iter().filter(|entry| find(entry).is_none()).filter_map(away);
        let most = if self.dialect().lists_catalog() { MissingTool::MOST } else { 0 };
        let missing: Vec<MissingTool> = missing.take(most).collect();
        let exposed = saved.get("exposed").and_then(Value::as_array);
        let exposed = exposed.map(|tools| tools.iter().filter_map(find).collect());
        let tools = list.iter().filter_map(loaded).collect();
        self.loaded = Loaded { tools, away: missing, clock: number(saved, "clock") };
        self.exposed = exposed;
        let removed = saved.get("removed").and_then(Value::as_array).into_iter().flatten();
        self.removed = removed.filter_map(Value::as_str).map(str::to_owned).collect();
        self.compute_always_visible();
        self.list_changes = number(saved, "list_changes");
        Ok(())
    }
}
