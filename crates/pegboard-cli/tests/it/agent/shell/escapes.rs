//! Commands that read, write or connect where they must not.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    thread,
};

use pegboard_agent::shell::ApiAccess;

use super::{Place, in_each_sandbox};

/// Starts a tool API that answers one request with what it was sent.
fn answer_once() -> (ApiAccess, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let answering = thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).expect("a whole request");
            request.extend(byte);
        }
        let answer = format!("HTTP/1.0 200 OK\r\n\r\n{}", String::from_utf8_lossy(&request));
        connection.write_all(answer.as_bytes()).expect("the test reads");
    });
    (ApiAccess { address, token: "the-token".to_owned() }, answering)
}

#[tokio::test]
async fn the_tool_api_is_reachable_and_nothing_else() {
    for kind in super::KINDS {
        let (api, answering) = answer_once();
        let Some(place) = Place::new("network", kind, &|_| (), Some(api)) else { continue };
        if place.landlock().is_some_and(|abi| abi < 4) {
            super::skipped(kind, "this kernel's version does not know networks");
            continue;
        }
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        other.set_nonblocking(true).expect("a socket");
        let port = other.local_addr().expect("an address").port();
        let ran = place
            .run(&format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached || echo refused"))
            .await;
        assert_eq!(ran.stdout, "refused\n", "{kind}: {ran:?}");
        let accepted = other.accept().map_err(|error| error.kind());
        assert_eq!(accepted.expect_err("nobody came"), std::io::ErrorKind::WouldBlock);
        let ran = place.run(
            "exec 3<>/dev/tcp/127.0.0.1/${MCP_API_URL##*:}; \
             printf 'GET /x HTTP/1.0\\r\\nAuthorization: Bearer %s\\r\\n\\r\\n' \"$MCP_API_TOKEN\" >&3; cat <&3",
        );
        let ran = ran.await;
        assert!(ran.stdout.starts_with("HTTP/1.0 200 OK\n\nGET /x HTTP/1.0\n"), "{kind}: {ran:?}");
        assert!(ran.stdout.contains("Authorization: Bearer the-token"), "{kind}: {ran:?}");
        answering.join().expect("it answered");
        place.assert_clean().await;
    }
}

#[tokio::test]
async fn other_files_cannot_be_read() {
    in_each_sandbox(
        "reads",
        |_| (),
        async |place| {
            let secret = place.secret();
            let secret = secret.display();
            let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
            let pid = std::process::id();
            for command in [
                format!("cat {secret}"),
                format!("ln -s {secret} link; cat link"),
                format!("cp {secret} copy; cat copy"),
                format!("ln {secret} hard; cat hard"),
                format!("cat ../secret.txt; ls .. {}", place.outside.display()),
                format!(
                    "cat /proc/self/root{secret} /proc/$PPID/root{secret} /proc/1/root{secret} /proc/{pid}/root{secret}"
                ),
                format!("cat /proc/{pid}/cwd/Cargo.toml"),
                format!("tar cf - {secret} | cat"),
                "cat /etc/shadow /etc/gshadow /etc/sudoers".to_owned(),
                format!("ls -A {home} {home}/.ssh {home}/.cargo"),
                format!("ls -A /home /root {} ", env!("CARGO_MANIFEST_DIR")),
            ] {
                let ran = place.run(&command).await;
                let is_closed = !ran.stdout.contains("the-secret")
                    && !ran.stdout.contains("root:")
                    && !ran.stdout.contains("Cargo.toml");
                assert!(
                    is_closed && !ran.stdout.contains(".cargo") && !ran.stdout.contains("[package]"),
                    "{}: `{command}`: {ran:?}",
                    place.kind
                );
                assert!(!ran.stderr.is_empty(), "{}: `{command}`: {ran:?}", place.kind);
            }
        },
    )
    .await;
}

#[tokio::test]
async fn nothing_outside_can_be_changed() {
    in_each_sandbox(
        "writes",
        |_| (),
        async |place| {
            let secret = place.secret();
            let outside = place.outside.display();
            let path = secret.display();
            let stray = [
                "/pegboard-test",
                "/usr/pegboard-test",
                "/etc/pegboard-test",
                "/tmp/pegboard-test-stray",
                "/dev/shm/pegboard-test",
            ];
            for command in [
                format!("echo changed > {path}"),
                format!("echo changed >> {path}"),
                format!("truncate -s 0 {path}"),
                format!("rm -f {path}; mv {path} here"),
                format!("ln -s {path} link; echo changed > link"),
                format!("ln -s {outside} folder; touch folder/new; mkdir folder/new; rm -rf folder/"),
                format!("touch {outside}/new; mkdir {outside}/new; mv . {outside}/new"),
                format!("for f in {}; do echo x > $f; done", stray.join(" ")),
                "mkdir here; mount -t tmpfs none here".to_owned(),
                "unshare -Urm bash -c 'mount -t tmpfs none /usr; echo x > /usr/pegboard-test'".to_owned(),
            ] {
                let ran = place.run(&command).await;
                assert!(!ran.stderr.is_empty(), "{}: `{command}`: {ran:?}", place.kind);
                assert_eq!(
                    fs::read_to_string(&secret).expect("it is there"),
                    "the-secret",
                    "{}: `{command}`",
                    place.kind
                );
                assert!(!place.outside.join("new").exists(), "{}: `{command}`", place.kind);
                assert!(!stray.iter().any(|path| Path::new(path).exists()), "{}: `{command}`", place.kind);
            }
        },
    )
    .await;
}

#[tokio::test]
async fn other_processes_are_out_of_reach() {
    in_each_sandbox(
        "processes",
        |_| (),
        async |place| {
            let pid = std::process::id();
            if place.landlock().is_none_or(|abi| abi >= 6) {
                // Signal zero: it is only asked whether one could be sent.
                let ran = place.run(&format!("kill -0 {pid} && echo reached")).await;
                assert_eq!(ran.stdout, "", "{}: {ran:?}", place.kind);
            }
            if place.landlock().is_some_and(|abi| abi >= 6) {
                let ran = place.run("kill -0 $PPID && echo reached").await;
                assert_eq!(ran.stdout, "", "{ran:?}");
            }
            let ran =
                place.run(&format!("cat /proc/{pid}/cmdline /proc/{pid}/maps; ls /proc/{pid}/fd | head -3")).await;
            assert_eq!(ran.stdout, "", "{}: {ran:?}", place.kind);
            // Not even root has powers here.
            let ran = place.run("chroot / true && echo powerful; mknod device c 1 1 && echo powerful").await;
            assert!(ran.stdout.is_empty() && !place.work().join("device").exists(), "{}: {ran:?}", place.kind);
        },
    )
    .await;
}
