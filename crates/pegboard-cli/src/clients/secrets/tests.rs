use super::*;

fn program(args: &[&str], env: &[(&str, &str)]) -> Server {
    Server::new(ServerTransport::Program {
        command: "x".to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        env_file: None,
        cwd: None,
    })
}

fn remote(url: &str, headers: &[(&str, &str)]) -> Server {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Server::new(ServerTransport::Remote { url: url.to_owned(), headers, is_sse: false })
}

/// Checks where secrets are found, what is shown, and what the server becomes without them.
#[track_caller]
fn check(server: &Server, places: &[&str], shown: &str, moved: &str) {
    let found: Vec<String> = find(server).into_iter().map(|found| found.place).collect();
    assert_eq!(found, places);
    assert_eq!(mask(server).to_json().to_string(), shown);
    let mut without = server.clone();
    move_to_env(&mut without, "srv", &mut BTreeMap::new());
    assert_eq!(without.to_json().to_string(), moved);
}

#[test]
fn secrets_in_arguments() {
    let check = |args: &[&str], expected: &[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        assert_eq!(find_in_args(&args), expected, "{args:?}");
    };
    check(&["--api-key", "hunter2"], &["hunter2"]);
    check(&["--token=hunter2", "--port", "80"], &["hunter2"]);
    // Only the values: the other words of a script occur in many texts.
    check(&["-c", "export API_TOKEN='hunter2'; echo missing"], &["hunter2"]);
    check(&["-c", "echo TOKEN=$TOKEN missing FOO_TOKEN"], &[]);
}

#[test]
fn variables() {
    check(
        &program(&[], &[("GITHUB_TOKEN", "abc"), ("REGION", "eu-west"), ("PORT", "8080"), ("DIR", "/srv")]),
        &["env.GITHUB_TOKEN"],
        r#"{"command":"x","env":{"GITHUB_TOKEN":"•••","REGION":"•••","PORT":"8080","DIR":"/srv"}}"#,
        r#"{"command":"x","env":{"GITHUB_TOKEN":"${GITHUB_TOKEN}","REGION":"eu-west","PORT":"8080","DIR":"/srv"}}"#,
    );
    check(
        &program(&[], &[("KEY_FILE", "/etc/key.pem"), ("A", "${A}"), ("B", "Bearer ${B}"), ("C", "${C:-hunter2}")]),
        &[],
        r#"{"command":"x","env":{"KEY_FILE":"/etc/key.pem","A":"${A}","B":"Bearer ${B}","C":"•••"}}"#,
        r#"{"command":"x","env":{"KEY_FILE":"/etc/key.pem","A":"${A}","B":"Bearer ${B}","C":"${C:-hunter2}"}}"#,
    );
    check(
        &program(&[], &[("DATABASE_URL", "postgres://ada:pw@db/x")]),
        &["env.DATABASE_URL"],
        r#"{"command":"x","env":{"DATABASE_URL":"•••"}}"#,
        r#"{"command":"x","env":{"DATABASE_URL":"postgres://ada:${DATABASE_URL}@db/x"}}"#,
    );
}

#[test]
fn words_of_a_command_line() {
    check(
        &program(&["-y", "@scope/server-files@2025.8.21", "--api-key", "abc", "--token=t", "ghp_0123456789"], &[]),
        &["args", "args", "args"],
        r#"{"command":"x","args":["-y","@scope/server-files@2025.8.21","--api-key","•••","--token=•••","•••"]}"#,
        r#"{"command":"x","args":["-y","@scope/server-files@2025.8.21","--api-key","${SRV_API_KEY}","--token=${SRV_TOKEN}","${SRV_VALUE}"]}"#,
    );
    check(
        &program(&["--token", "--verbose", "postgres://u:p@h/d", "--header", "x"], &[]),
        &["args"],
        r#"{"command":"x","args":["--token","--verbose","postgres://u:•••@h/d","--header","x"]}"#,
        r#"{"command":"x","args":["--token","--verbose","postgres://u:${SRV_VERBOSE}@h/d","--header","x"]}"#,
    );
}

#[test]
fn lines_for_shells_and_headers_on_command_lines() {
    check(
        &program(
            &["https://a/mcp", "--header", "Authorization: Bearer t", "-e", "API_KEY=k", "${A:-sk-12345678}"],
            &[],
        ),
        &["args", "args"],
        r#"{"command":"x","args":["https://a/mcp","--header","Authorization: Bearer •••","-e","API_KEY=•••","${A:-•••}"]}"#,
        r#"{"command":"x","args":["https://a/mcp","--header","Authorization: Bearer ${SRV_AUTHORIZATION}","-e","API_KEY=${SRV_API_KEY}","${A:-sk-12345678}"]}"#,
    );
    check(
        &program(&["-c", "cd /x; TOKEN=t run", "-c", "TOKEN=$T run"], &[]),
        &["args"],
        r#"{"command":"x","args":["-c","•••","-c","TOKEN=$T run"]}"#,
        r#"{"command":"x","args":["-c","${SRV_C}","-c","TOKEN=$T run"]}"#,
    );
}

#[test]
fn addresses_that_are_secrets() {
    check(
        &remote("https://a.example/s/0a1b2c3d4e5f6a7b8c9d/mcp", &[]),
        &["url"],
        r#"{"url":"https://a.example/s/•••/mcp"}"#,
        r#"{"url":"https://a.example/s/${SRV_URL}/mcp"}"#,
    );
    check(
        &remote("https://a.example/01234567-89ab-cdef-0123-456789abcdef", &[]),
        &["url"],
        r#"{"url":"https://a.example/•••"}"#,
        r#"{"url":"https://a.example/${SRV_URL}"}"#,
    );
    let plain = r#"{"url":"https://api.example.com/v1/mcp"}"#;
    check(&remote("https://api.example.com/v1/mcp", &[]), &[], plain, plain);
}

#[test]
fn headers_and_addresses() {
    check(
        &remote("https://a/mcp?v=1&api_key=k", &[("Authorization", "Bearer t"), ("X-Api-Key", "k"), ("X-Team", "red")]),
        &["headers.Authorization", "headers.X-Api-Key", "url"],
        r#"{"url":"https://a/mcp?v=•••&api_key=•••","headers":{"Authorization":"Bearer •••","X-Api-Key":"•••","X-Team":"•••"}}"#,
        r#"{"url":"https://a/mcp?v=1&api_key=${SRV_URL}","headers":{"Authorization":"Bearer ${SRV_TOKEN}","X-Api-Key":"${SRV_X_API_KEY}","X-Team":"red"}}"#,
    );
}

#[test]
fn one_name_never_means_two_secrets() {
    let mut taken = BTreeMap::new();
    let mut move_one = |name: &str, value: &str| {
        let mut server = program(&[], &[("TOKEN", value)]);
        move_to_env(&mut server, name, &mut taken).remove(0).variable
    };
    assert_eq!(move_one("a", "1"), "TOKEN");
    assert_eq!(move_one("b", "1"), "TOKEN");
    assert_eq!(move_one("b", "2"), "B_TOKEN");
    assert_eq!(move_one("b", "3"), "B_TOKEN_2");
}

#[test]
fn names_of_secrets() {
    for name in ["API_KEY", "apiKey", "X-Api-Key", "GITHUB_PAT", "PGPASSWORD", "accessToken", "AUTHTOKEN", "--token"] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in ["KEYBOARD", "PATH", "PORT", "MONKEY", "TOKENIZER", "compass", ""] {
        assert!(!is_secret_name(name), "{name}");
    }
}

mod anywhere {
    use proptest::prelude::*;

    use super::*;

    /// Generates a server with a token at a random place.
    fn server() -> impl Strategy<Value = (Server, String)> {
        let token = "(sk-|ghp_|)[a-z]{8}[0-9]{4}[A-Z]{6}";
        let name = "[A-Za-z][A-Za-z_-]{0,8}";
        (token, name, "(Bearer |)", 0..9_usize).prop_map(|(token, name, scheme, place)| {
            let server = match place {
                0 | 1 => program(&[], &[(&name, &format!("{scheme}{token}"))]),
                2 => program(&["--api-key", &token], &[]),
                3 => program(&[&format!("--{name}={token}")], &[]),
                4 => program(&["--header", &format!("{name}: {scheme}{token}")], &[]),
                5 => program(&["-c", &format!("export {name}={token}; run it")], &[]),
                6 => remote("https://a.example/mcp", &[(&name, &format!("{scheme}{token}"))]),
                7 => remote(&format!("https://a.example/mcp?x=1&{name}={token}"), &[]),
                _ => remote(&format!("https://ada:{token}@a.example/{token}"), &[]),
            };
            (server, token)
        })
    }

    proptest! {
        #[test]
        fn tokens_are_found_hidden_and_moved((server, token) in server()) {
            prop_assert!(!find(&server).is_empty());
            prop_assert!(!mask(&server).to_json().to_string().contains(&token));
            let mut taken = BTreeMap::new();
            let mut moved = server.clone();
            let variables = move_to_env(&mut moved, "srv", &mut taken);
            prop_assert!(!variables.is_empty());
            // Put back, it is what it was.
            let mut back = moved.to_json().to_string();
            prop_assert!(!back.contains(&token));
            for MovedSecret { variable, .. } in &variables {
                back = back.replace(&format!("${{{variable}}}"), &taken[variable]);
            }
            prop_assert_eq!(back, server.to_json().to_string());
        }
    }
}
