//! Vectors of the texts that a call ranks, fetched before the call.

use std::sync::{Mutex, PoisonError};

use pegboard_core::{
    Catalog, Query, QueryError, Ranker, Ranking, Selection, Vectors,
    vectors::{BoxFuture, QueryTexts},
};
use serde_json::Value;

use super::Session;

impl Session {
    /// Fetches the vectors of the texts that a call of `name` would rank, and of the requests in
    /// them, all at once; `None` if it ranks nothing, or there is no source of vectors. They are
    /// passed to [`call_with`](Self::call_with). The session is not borrowed meanwhile.
    pub fn vectors_for(&self, name: &str, arguments: &Value) -> Option<BoxFuture<Vectors>> {
        let source = self.ranker.vector_source()?;
        let texts = self.ranked_texts(name, arguments).into_iter();
        let queries: Vec<QueryTexts> = texts.map(|text| with_requests(text, &*self.ranker)).collect();
        (!queries.is_empty()).then(|| source.ask(queries))
    }

    /// Returns the texts that a call of `name` would rank. A dialect has no side effects, so it is
    /// called with a ranker that records the queries: no other code has to know which arguments are
    /// queries.
    pub fn ranked_texts(&self, name: &str, arguments: &Value) -> Vec<String> {
        let notes = QueryRecorder { name: self.ranker.name(), texts: Mutex::default() };
        if self.meta_tool(name).is_some() {
            self.with_view_of(&notes, &Vectors::default(), |view| _ = self.dialect().call(name, arguments, view));
        }
        notes.texts.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a text with the requests that `ranker` finds in it.
fn with_requests(whole: String, ranker: &dyn Ranker) -> QueryTexts {
    let requests = ranker.requests(&whole).into_iter().map(str::to_owned).collect();
    QueryTexts { whole, requests }
}

/// A ranker without hits that records its queries.
#[derive(Debug)]
struct QueryRecorder {
    name: &'static str,
    texts: Mutex<Vec<String>>,
}

impl Ranker for QueryRecorder {
    fn name(&self) -> &'static str {
        self.name
    }

    fn rank(&self, query: &Query<'_>, _: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if !texts.iter().any(|text| text == query.text) {
            texts.push(query.text.to_owned());
        }
        Ok(Ranking::default())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        task::{Context, Poll, Waker},
    };

    use pegboard_core::{RawTool, VectorSource, vectors::VectorSourceStatus};
    use serde_json::json;

    use super::*;
    use crate::{DialectName, Settings};

    /// Finds the tools whose number a query's vector says.
    #[derive(Debug)]
    struct Told;

    impl Ranker for Told {
        fn name(&self) -> &'static str {
            "told"
        }

        fn rank(&self, query: &Query<'_>, catalog: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
            let wanted = query.vector().map(|vector| vector[0] as usize);
            let tool = wanted.and_then(|at| catalog.iter().nth(at));
            let hits = tool.map(|tool| pegboard_core::Hit { tool: Arc::clone(tool), score: 1.0, why: Vec::new() });
            Ok(Ranking {
                total: usize::from(tool.is_some()),
                passing: usize::from(tool.is_some()),
                hits: hits.into_iter().collect(),
                ..Ranking::default()
            })
        }

        fn requests<'q>(&self, query: &'q str) -> Vec<&'q str> {
            query.split(" and ").skip(usize::from(!query.contains(" and "))).collect()
        }

        fn vector_source(&self) -> Option<Arc<dyn VectorSource>> {
            Some(Arc::new(Lengths))
        }
    }

    /// The vector of a text is its length, if that is even.
    #[derive(Debug)]
    struct Lengths;

    impl VectorSource for Lengths {
        fn ask(&self, queries: Vec<QueryTexts>) -> BoxFuture<Vectors> {
            let vector =
                |text: String| text.len().is_multiple_of(2).then(|| (text.clone(), Arc::from([text.len() as f32])));
            Box::pin(std::future::ready(queries.into_iter().filter_map(|query| vector(query.whole)).collect()))
        }

        fn status(&self) -> VectorSourceStatus {
            VectorSourceStatus::default()
        }
    }

    fn session(dialect: DialectName) -> Session {
        let tool = |at: usize| RawTool {
            name: format!("tool_{at}"),
            server: Some("s".into()),
            deferred: Some(true),
            ..RawTool::default()
        };
        let (catalog, _) = Catalog::from_tools((0..60).map(tool).collect());
        Session::new(dialect, Settings::default(), catalog, Selection::everything(), Arc::new(Told)).expect("a session")
    }

    /// The texts that are ranked, and the reply once their vectors are there.
    fn asked(dialect: DialectName, arguments: &Value) -> (Vec<String>, String) {
        let mut session = session(dialect);
        let searches = |name: &&&str| !session.ranked_texts(name, arguments).is_empty();
        // `ranked` does not reserve the name of its search.
        let mut names = dialect.meta_names().iter().chain(&["tool_search"]);
        let name = names.find(searches).copied().unwrap_or_default().to_owned();
        let texts = session.ranked_texts(&name, arguments);
        let vectors = session.vectors_for(&name, arguments).map(|mut soon| {
            match soon.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(vectors) => vectors,
                Poll::Pending => unreachable!("it is ready"),
            }
        });
        let answer = session.call_with(&name, arguments, &vectors.unwrap_or_default());
        (texts, answer.reply.to_text())
    }

    #[test]
    fn every_dialect_ranks_with_the_vectors_of_its_queries() {
        for dialect in DialectName::ALL {
            let (texts, reply) = asked(dialect, &json!({"query": "four", "keywords": "four"}));
            assert_eq!(texts, ["four"], "{dialect:?}");
            assert!(reply.contains("tool_4"), "{dialect:?}: {reply}");
            // Without a vector the ranker is asked all the same.
            assert!(!asked(dialect, &json!({"query": "seventh", "keywords": "x"})).1.contains("tool_7"));
        }
    }

    #[test]
    fn a_text_is_asked_for_with_its_requests() {
        let requests = |text: &str| with_requests(text.to_owned(), &Told).requests;
        assert_eq!(requests("a and b"), ["a", "b"]);
        assert_eq!(requests("cdef"), Vec::<String>::new());
    }

    #[test]
    fn several_queries_are_asked_for_at_once() {
        let (texts, reply) = asked(DialectName::Bridge, &json!({"queries": ["ab", "cdef", "ab"]}));
        assert_eq!(texts, ["ab", "cdef"]);
        assert!(reply.contains("tool_2") && reply.contains("tool_4"), "{reply}");
        assert_eq!(asked(DialectName::Bridge, &json!({})).0, Vec::<String>::new());
        let session = session(DialectName::Bridge);
        assert!(session.vectors_for("call_tool", &json!({"name": "tool_1"})).is_none());
        assert!(session.vectors_for("tool_1", &json!({"query": "x"})).is_none());
    }
}
