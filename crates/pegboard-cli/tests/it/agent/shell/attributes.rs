//! Modes, owners, times and attributes of files: a command can change those in the working folder,
//! and no others.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use super::{Place, in_each_sandbox};

/// Returns the state of a file that a change of any attribute changes.
fn state(path: &Path) -> (u32, u32, u32, i64, (i64, i64)) {
    let data = fs::metadata(path).expect("it is there");
    (data.mode(), data.uid(), data.gid(), data.mtime(), (data.ctime(), data.ctime_nsec()))
}

/// Ways to change the attributes of the file `$F`, each of which has an effect where it works.
const CHANGES: [&str; 12] = [
    "chmod 777 $F",
    "touch $F",
    "touch -d 2001-01-01 $F",
    "chown $(id -u):$(id -g) $F",
    "ln -s $F link; chmod 777 link; touch link; chown $(id -u) link",
    "chmod 777 /proc/self/root$F /proc/1/root$F /proc/self/cwd/../secret.txt",
    "exec 9< $F; chmod 777 /proc/self/fd/9 /dev/fd/9; touch /proc/self/fd/9",
    "python3 -c \"import os; f = os.open('$F', os.O_RDONLY); os.fchmod(f, 0o777)\"",
    "python3 -c \"import os; f = os.open('$F', os.O_PATH); os.chmod(f'/proc/self/fd/{f}', 0o777)\"",
    "python3 -c \"import os; f = os.open('$F', os.O_RDONLY); os.utime(f, (1, 1)); os.utime(f)\"",
    "python3 -c \"import os; os.setxattr('$F', 'user.x', b'1')\"",
    "python3 -c \"import fcntl; fcntl.ioctl(open('$F'), 0x40086602, bytes([128, 0, 0, 0, 0, 0, 0, 0]))\"",
];

/// Returns the targets of the attacks: a file and a folder outside, and files that commands may
/// read.
fn targets(place: &Place) -> Vec<PathBuf> {
    let secret = place.secret();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let readable = place.outside.join("readable");
    fs::write(&readable, "for everybody").expect("a file");
    let system = ["/usr/bin/env", "/etc/passwd", "/proc/version", "/usr", "/"].map(PathBuf::from);
    let devices = ["/dev/zero", "/dev/full"].map(PathBuf::from);
    // Bubblewrap leaves devices as they are: everybody may set their times, and root their modes,
    // which is why root prefers the other sandbox.
    let devices = devices.into_iter().filter(|_| place.kind != "bubblewrap");
    [secret, readable, place.outside.clone(), PathBuf::from(super::PROGRAM)]
        .into_iter()
        .chain(system)
        .chain(devices)
        .collect()
}

#[tokio::test]
async fn attributes_of_files_outside_stay() {
    let outside = Path::new(env!("CARGO_TARGET_TMPDIR"));
    in_each_sandbox(
        "attributes",
        |settings| settings.readable = vec![outside.join(format!("shell-attributes-{}/readable", kind_of(settings)))],
        async |place| {
            for target in targets(place) {
                let before = state(&target);
                let script = CHANGES.map(|change| format!("({change})\n")).concat();
                let ran = place.run(&format!("F={}; rm -f link\n{script}", target.display())).await;
                assert_eq!(state(&target), before, "{}: `{}`: {ran:?}", place.kind, target.display());
                assert!(!ran.stderr.is_empty(), "{}: `{}`: {ran:?}", place.kind, target.display());
            }
        },
    )
    .await;
}

/// The first process inside is a program of the system outside.
#[tokio::test]
async fn the_program_that_confines_cannot_be_changed() {
    in_each_sandbox(
        "program",
        |_| (),
        async |place| {
            let bubblewrap = super::bubblewrap().filter(|_| place.kind == "bubblewrap");
            let programs: Vec<PathBuf> = bubblewrap.into_iter().chain([PathBuf::from(super::PROGRAM)]).collect();
            let before: Vec<_> = programs.iter().map(|program| state(program)).collect();
            let all = "for p in /proc/[0-9]*; do chmod 777 $p/exe; touch $p/exe; echo >> $p/exe; done 2>&1";
            let ran = place.run(all).await;
            let after: Vec<_> = programs.iter().map(|program| state(program)).collect();
            assert_eq!(after, before, "{}: {ran:?}", place.kind);
            let ran = place.run("echo 1 > /proc/sys/vm/drop_caches && echo written").await;
            assert_eq!(ran.stdout, "", "{}: {ran:?}", place.kind);
        },
    )
    .await;
}

/// Programs that change attributes of files in the working folder; without namespaces they
/// fail or warn, and what they write is there.
#[tokio::test]
async fn programs_that_keep_modes_and_times() {
    let begin = "umask 022; echo text > a; mkdir d; echo inner > d/f; tar cf t.tar --mtime=2001-01-01 d; rm -r d";
    let who = "git -c user.name=a -c user.email=a@b.c -c init.defaultBranch=main";
    // The exit codes with namespaces and with Landlock alone, and what is printed by either.
    let git =
        format!("{who} init -q r && cd r && echo x > f && {who} add f && {who} commit -qm m && git clone -q . ../c");
    let programs = [
        ("cp -p a b; echo $?; cat b", "0\ntext\n", "1\ntext\n"),
        ("cp a b; echo $?; cat b", "0\ntext\n", "0\ntext\n"),
        ("tar xf t.tar; echo $?; cat d/f", "0\ninner\n", "2\ninner\n"),
        ("chmod 700 a; echo $?; stat -c %a a", "0\n700\n", "1\n644\n"),
        ("touch -d 2001-01-01 a; echo $?; date -r a +%Y | grep -c 2001", "0\n1\n", "1\n0\n"),
        ("touch new; echo $?; ls new", "0\nnew\n", "0\nnew\n"),
        (git.as_str(), "0\nf\n", "128\n"),
    ];
    in_each_sandbox(
        "keep",
        |_| (),
        async |place| {
            for (command, apart, landlock) in programs {
                let command = match command.strip_prefix("git") {
                    Some(_) => format!("({command}); echo $?; ls c 2>/dev/null; rm -rf r c"),
                    None => command.to_owned(),
                };
                let ran = place.run(&format!("rm -rf ./*; {begin}; {command}")).await;
                let expected = if place.landlock().is_some() { landlock } else { apart };
                assert_eq!(ran.stdout, expected, "{}: `{command}`: {ran:?}", place.kind);
                let is_refused = ran.stderr.contains("Operation not permitted");
                let must_refuse = place.landlock().is_some() && apart != landlock;
                assert_eq!(is_refused, must_refuse, "{}: `{command}`: {ran:?}", place.kind);
            }
        },
    )
    .await;
}

fn kind_of(settings: &pegboard_agent::shell::ShellSettings) -> &'static str {
    let work = settings.folder.to_string_lossy().into_owned();
    super::KINDS.into_iter().find(|kind| work.contains(&format!("-{kind}/"))).expect("a kind")
}
