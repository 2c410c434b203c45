//! The recording of `--record`.

use std::{sync::Arc, time::Duration};

use pegboard_gateway::{
    Gateway,
    record::{RecordError, RecordWriter, Recorder},
};

use super::ServeArgs;
use crate::error::CliError;

/// How long the end waits for lines that are not written yet.
const LAST_LINES: Duration = Duration::from_secs(2);

/// An open record, before there is a gateway.
pub(super) struct Recording {
    recorder: Recorder,
    writing: RecordWriter,
}

impl Recording {
    pub(super) fn open(args: &ServeArgs) -> Result<Option<Self>, CliError> {
        let Some(path) = args.record.clone() else { return Ok(None) };
        let (recorder, writing) = Recorder::open(path, args.record_limit).map_err(unusable)?;
        Ok(Some(Self { recorder, writing }))
    }

    /// Starts recording a gateway.
    pub(super) fn of(self, gateway: &Arc<Gateway>) -> ActiveRecord {
        gateway.record_to(self.recorder);
        ActiveRecord(self.writing)
    }
}

/// A record that is being written.
pub(super) struct ActiveRecord(RecordWriter);

impl ActiveRecord {
    /// Writes the remaining lines.
    pub(super) async fn finish(self, gateway: &Gateway) {
        gateway.stop_recording();
        let finished = tokio::task::spawn_blocking(|| self.0.finish());
        let _ = tokio::time::timeout(LAST_LINES, finished).await;
    }
}

fn unusable(error: RecordError) -> CliError {
    let shown = CliError::new(error.to_string());
    match error {
        RecordError::File { source, .. } | RecordError::Thread(source) => shown.because(source),
        _ => shown.hint("`--record` needs a new file, or one that it created before"),
    }
}
