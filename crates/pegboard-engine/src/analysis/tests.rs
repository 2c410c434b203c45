use proptest::prelude::*;

use super::*;

fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    Tokenizer::default().tokenize(text, &mut |token| tokens.push(token.text.to_owned()));
    tokens
}

#[test]
fn splitting() {
    let check = |text: &str, expected: &[&str]| assert_eq!(tokens(text), expected, "{text}");
    check("create_issue", &["create", "issue"]);
    check("create-issue", &["create", "issue"]);
    check("mcp__slack__send_message", &["mcp", "slack", "send", "message"]);
    check("github___create_issue", &["github", "create", "issue"]);
    check("whatsapp.send", &["whatsapp", "send"]);
    check("/repos/{owner}/issues", &["repos", "owner", "issues"]);
    check("createIssue", &["create", "issue", "createissue"]);
    check("HTMLParser", &["html", "parser", "htmlparser"]);
    check("parseJSONToXML", &["parse", "json", "to", "xml", "parsejsontoxml"]);
    check("HTTP2Server", &["http", "server", "http2server"]);
    check("oauth2", &["oauth", "oauth2"]);
    check("s3", &["s3"]);
    check("URLs and APIs", &["urls", "and", "apis"]);
    check("GitHub's API", &["git", "hub", "github", "s", "api"]);
    check("Búsqueda Rápida", &["busqueda", "rapida"]);
    check("Cafe\u{301}", &["cafe"]);
    check("发送邮件", &["发送", "送邮", "邮件"]);
    check("邮", &["邮"]);
    check("获取weather数据", &["获取", "weather", "数据"]);
    check("ファイルを検索", &["ファ", "ァイ", "イル", "ルを", "を検", "検索"]);
    check("ﾌｧｲﾙ", &["ファ", "ァイ", "イル"]);
    check("Ｆｕｌｌ", &["full"]);
    check("ဆိုင်", &["ဆိ", "ို", "ုင", "င်"]);
    check("\u{301}", &[]);
    check("получить погоду", &["получить", "погоду"]);
    check("", &[]);
    check(" -_./ ", &[]);
}

#[test]
fn stems() {
    let stemmer = Stemmer::default();
    let check = |words: [&str; 2]| assert_eq!(stemmer.stem(words[0]), stemmer.stem(words[1]), "{words:?}");
    check(["issue", "issues"]);
    check(["create", "creating"]);
    check(["repository", "repositories"]);
    check(["погода", "погоду"]);
    assert_eq!(stemmer.stem("s3"), "s3");
    assert_eq!(stemmer.stem("id"), "id");
}

proptest! {
    #[test]
    fn tokens_lie_inside_the_text_and_in_order(text in ".{0,80}") {
        let mut last = 0;
        Tokenizer::default().tokenize(&text, &mut |token| {
            assert!(text.is_char_boundary(token.start) && text.is_char_boundary(token.end));
            assert!(token.start < token.end && token.end <= text.len());
            assert!(token.end >= last);
            last = token.end;
            assert!(!token.text.is_empty());
        });
    }
}
