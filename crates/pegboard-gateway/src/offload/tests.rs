use pegboard_http::Principal;
use serde_json::json;

use super::*;

fn caller(number: usize) -> Caller {
    Caller::Token(Principal(number))
}

fn owner(number: usize) -> ResultOwner {
    ResultOwner { caller: caller(number), party: Party::Caller(caller(number)), server: "one".into() }
}

fn settings(max_results: usize) -> OffloadSettings {
    OffloadSettings { max_bytes: max_results * (100 + OVERHEAD), ..OffloadSettings::default() }
}

fn keep(results: &OffloadedResults, settings: &OffloadSettings, number: usize) -> String {
    results.keep(settings, owner(number), "x".repeat(100).into()).expect("it fits")
}

fn has(results: &OffloadedResults, settings: &OffloadSettings, number: usize, reference: &str) -> bool {
    results.find(settings, caller(number), &|_| true, reference).is_some()
}

#[tokio::test(start_paused = true)]
async fn a_result_lives_as_long_as_it_may() {
    let (results, settings) = (OffloadedResults::default(), settings(9));
    let reference = keep(&results, &settings, 1);
    tokio::time::advance(settings.lifetime - Duration::from_secs(1)).await;
    results.sweep(Some(&settings));
    assert!(has(&results, &settings, 1, &reference));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!has(&results, &settings, 1, &reference));
    assert_eq!(lock(&results.kept).bytes, 0);
}

#[tokio::test]
async fn a_result_is_its_callers_alone() {
    let (results, settings) = (OffloadedResults::default(), settings(9));
    let reference = keep(&results, &settings, 1);
    assert!(has(&results, &settings, 1, &format!(" {reference}\n")));
    assert!(!has(&results, &settings, 2, &reference));
    assert!(
        results.find(&settings, caller(1), &|server| server != "one", &reference).is_none(),
        "its server is hidden by now"
    );
    let error = |number: usize, reference: &str| {
        let arguments = json!({"reference": reference});
        let (results, settings, reference) = (&results, &settings, reference.to_owned());
        async move {
            let party = Party::Caller(caller(number));
            let read = results.read(settings, caller(number), party, &|_| true, &arguments).await;
            read.expect_err("unknown").to_text().replace(&reference, "R")
        }
    };
    assert_eq!(
        error(2, &reference).await,
        format!(
            "unknown reference `R`: results are kept for 30 min, and the oldest are removed above {} bytes in all \
             (`offload`); call the tool again",
            settings.max_bytes
        )
    );
    assert_eq!(error(2, &reference).await, error(1, "result_0").await, "nothing tells the two apart");
}

#[tokio::test]
async fn results_of_the_largest_holder_are_evicted() {
    let (results, settings) = (OffloadedResults::default(), settings(3));
    let quiet = keep(&results, &settings, 1);
    let loud: Vec<String> = (0..3).map(|_| keep(&results, &settings, 2)).collect();
    assert!(has(&results, &settings, 1, &quiet), "it is the oldest, of another caller");
    let kept: Vec<bool> = loud.iter().map(|reference| has(&results, &settings, 2, reference)).collect();
    assert_eq!(kept, [false, true, true]);
    assert_eq!(lock(&results.kept).bytes, settings.max_bytes);
    let error = results.keep(&settings, owner(1), "x".repeat(9999).into()).expect_err("it is too large");
    assert_eq!(
        error.to_string(),
        "its result is 9999 bytes, over the limit of 1836 (`offload.maxBytes`); ask the tool for less"
    );
    assert!(has(&results, &settings, 1, &quiet), "it made no room");
    results.sweep(None);
    assert!(!has(&results, &settings, 1, &quiet));
    assert_eq!(lock(&results.kept).bytes, 0);
}

#[tokio::test]
async fn a_newcomer_does_not_push_out_the_results_of_others() {
    let (results, settings) = (OffloadedResults::default(), settings(4));
    let quiet: Vec<String> = [1, 2].map(|number| keep(&results, &settings, number)).into();
    let large = || "x".repeat(3 * 100 + 2 * OVERHEAD).into();
    let error = results.keep(&settings, owner(3), large()).expect_err("two others have results");
    assert!(error.to_string().contains("over your share"), "{error}");
    assert!(has(&results, &settings, 1, &quiet[0]) && has(&results, &settings, 2, &quiet[1]));
    let own = keep(&results, &settings, 3);
    let second = keep(&results, &settings, 3);
    keep(&results, &settings, 3);
    assert!(!has(&results, &settings, 3, &own) && has(&results, &settings, 3, &second), "its own make room");
    assert_eq!(lock(&results.kept).by_party.len(), 3);
    results.sweep(Some(&super::OffloadSettings { max_bytes: 0, ..settings }));
    assert!(lock(&results.kept).by_party.is_empty() && lock(&results.kept).bytes == 0);
}

#[test]
fn durations() {
    let check = |seconds: u64, expected: &str| assert_eq!(duration_text(Duration::from_secs(seconds)), expected);
    check(1800, "30 min");
    check(7200, "2 h");
    check(90, "90 s");
    assert_eq!(duration_text(Duration::from_millis(10)), "10 ms");
}
