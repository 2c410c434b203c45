//! Output of `pegboard import` for people and for programs.

use serde_json::{Value, json};

use super::{Report, merge::ImportRow};
use crate::clients::show::{printable, printable_line, shorten_path, table};

/// Renders everything as one document, secrets masked.
pub(super) fn json(report: &Report) -> Value {
    let files = report.survey.files.iter().map(|file| {
        let project = file.place.project.as_ref().map(|folder| folder.to_string_lossy());
        json!({
            "client": file.place.client.id(),
            "path": file.place.path.to_string_lossy(),
            "project": project,
            "problems": file.problems(),
        })
    });
    let servers = report.plan.rows.iter().map(|row| {
        let file = &report.survey.files[row.file];
        json!({
            "client": file.place.client.id(),
            "path": file.place.path.to_string_lossy(),
            "project": row.project.as_ref().map(|folder| folder.to_string_lossy()),
            "name": row.name,
            "written_as": row.written_as,
            "is_duplicate": row.is_duplicate,
            "notes": row.notes,
        })
    });
    let moved = report
        .moved
        .iter()
        .map(|(server, moved)| json!({"variable": moved.variable, "server": server, "place": moved.place}));
    json!({
        "files": files.collect::<Vec<_>>(),
        "servers": servers.collect::<Vec<_>>(),
        "configuration": report.to_configuration(true),
        "unset_variables": report.unset,
        "moved_secrets": moved.collect::<Vec<_>>(),
        "written": report.written.as_ref().map(|path| path.to_string_lossy()),
        "backup": report.backup.as_ref().map(|path| path.to_string_lossy()),
    })
}

/// Renders the table, and the configuration unless it was written.
pub(super) fn text(report: &Report) -> String {
    let mut text = table(&["CLIENT", "FILE", "SERVER", "NOTES"], rows(report));
    if report.written.is_none() && !report.plan.servers.is_empty() {
        text.push('\n');
        text.extend(report.configuration(true).lines().map(|line| printable_line(line) + "\n"));
    }
    text
}

/// Returns a row for each server, and for each file without any.
fn rows(report: &Report) -> Vec<Vec<String>> {
    let mut cells = Vec::new();
    for (at, file) in report.survey.files.iter().enumerate() {
        let mut head =
            vec![file.place.client.title().to_owned(), shorten_path(&file.place.path, report.home.as_deref())];
        let rows: Vec<&ImportRow> = report.plan.rows.iter().filter(|row| row.file == at).collect();
        if rows.is_empty() {
            let note = if file.content.is_err() { "invalid, see below" } else { "no servers" };
            head.extend([String::new(), note.to_owned()]);
            cells.push(head);
            continue;
        }
        for row in rows {
            // A file is named once.
            let mut line = std::mem::replace(&mut head, vec![String::new(); 2]);
            line.extend([printable(&row.name), notes(row, report)]);
            cells.push(line);
        }
    }
    cells
}

fn notes(row: &ImportRow, report: &Report) -> String {
    let project =
        row.project.as_ref().map(|folder| format!("only in {}", shorten_path(folder, report.home.as_deref())));
    let notes: Vec<String> = project.into_iter().chain(row.notes.iter().map(|note| printable(note))).collect();
    notes.join("; ")
}
