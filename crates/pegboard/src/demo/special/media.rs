//! Playing, and making files out of files.
//!
//! The text of a file stands for what can be heard or seen in it.

use serde_json::{Value, json};

use super::{
    Tools, cents,
    drive::{self, FILES},
};
use crate::demo::{
    clock, filter,
    verbs::Call,
    world::{Outcome, Refusal, World, hash, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("play", play),
    ("control-playback", control),
    ("transcribe-audio", transcribe),
    ("text-to-speech", speak),
    ("generate-image", draw),
    ("edit-image", edit),
    ("convert-video", convert),
    ("trim-video", trim),
    ("remove-background", cut_out),
    ("translate-subtitles", translate),
    ("shibie-gequ", recognise),
    ("ocr-image", read),
];

const PLAYERS: &str = "media/players";

fn play(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let arguments = &call.arguments;
    let uri = arguments.text("uri");
    let what = world.find("media/playlists", uri).or_else(|_| world.find("media/tracks", uri))?;
    let mut player = world.find(PLAYERS, "player")?;
    if arguments.has("device") {
        player["device"] = arguments.value("device").clone();
    }
    player["playing"] = true.into();
    player["uri"] = what["uri"].clone();
    ["shuffle", "position_ms"].into_iter().for_each(|field| player[field] = arguments.value(field).clone());
    if let Some(history) = player["history"].as_array_mut() {
        history.push(what["uri"].clone());
        history.drain(..history.len().saturating_sub(100));
    }
    world.put(PLAYERS, player.clone())?;
    let name = text_of(what.get("title").or(what.get("name")).unwrap_or(&what["uri"]));
    Ok(json!({"message": format!("{name} plays on {}", text_of(&player["device"])), "player": player}))
}

fn control(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut player = world.find(PLAYERS, "player")?;
    let tracks: Vec<Value> = world.all("media/tracks").iter().map(|track| track["uri"].clone()).collect();
    let at = tracks.iter().position(|uri| *uri == player["uri"]).unwrap_or(0);
    let action = call.arguments.text("action");
    match action {
        "pause" => player["playing"] = false.into(),
        "resume" => player["playing"] = true.into(),
        "next" => player["uri"] = tracks[(at + 1) % tracks.len()].clone(),
        "previous" => player["uri"] = tracks[(at + tracks.len() - 1) % tracks.len()].clone(),
        _ => player["volume"] = call.arguments.int("volume").ok_or("`volume` is missing")?.into(),
    }
    if call.arguments.has("device") {
        player["device"] = call.arguments.value("device").clone();
    }
    world.put(PLAYERS, player.clone())?;
    Ok(json!({"message": format!("did `{action}` on {}", text_of(&player["device"])), "player": player}))
}

/// The file that an argument names, which must be of this type.
fn source(world: &World, call: &Call<'_>, argument: &str, kind: &str) -> Outcome {
    let file = world.find(FILES, call.arguments.text(argument))?;
    if file["type"] != kind {
        return Err(format!("{} is a {}, not {kind}", text_of(&file["path"]), text_of(&file["type"])).into());
    }
    Ok(file)
}

/// Saves what was made and says from what.
fn made(world: &mut World, path: &str, file: Value, what: &str) -> Outcome {
    let file = drive::save(world, path, file)?;
    let mut shown = file.clone();
    shown.as_object_mut().map(|fields| fields.shift_remove("versions"));
    Ok(json!({"message": format!("{what}: {}", text_of(&file["path"])), "file": shown}))
}

fn transcribe(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let file = source(world, call, "audio", "audio")?;
    let text = text_of(&file["content"]);
    let pieces: Vec<&str> = match call.arguments.text("timestamps") {
        "word" => text.split_whitespace().collect(),
        _ => text.split_inclusive(". ").map(str::trim).collect(),
    };
    // People say about two and a half words a second.
    let mut words = 0;
    let segments = pieces.iter().enumerate().map(|(at, piece)| {
        let start = cents(words as f64 / 2.5);
        words += piece.split_whitespace().count();
        let speaker = call.arguments.is("diarize").then(|| format!("speaker {}", at % 2 + 1));
        json!({"start_s": start, "end_s": cents(words as f64 / 2.5), "speaker": speaker, "text": piece})
    });
    let segments: Vec<Value> = segments.collect();
    let mut reply = json!({"message": format!("transcript of {}", text_of(&file["path"])), "text": text, "language": if call.arguments.has("language") { call.arguments.text("language") } else { "en" }});
    if call.arguments.text("timestamps") != "none" {
        reply["segments"] = segments.into();
    }
    Ok(reply)
}

fn speak(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let text = call.arguments.text("text");
    let path = format!("/audio/speech-{:08x}.{}", hash(text) as u32, call.arguments.text("format"));
    let seconds = cents(text.split_whitespace().count() as f64 / 2.5 / call.arguments.number("speed").unwrap_or(1.0));
    let file = json!({"content": text, "type": "audio", "seconds": seconds, "voice": call.arguments.value("voice")});
    made(world, &path, file, &format!("{seconds} s of speech"))
}

fn draw(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (prompt, size) = (call.arguments.text("prompt"), call.arguments.text("size"));
    let (width, height) = size.split_once('x').unwrap_or((size, size));
    let number = |text: &str| text.parse::<i64>().unwrap_or(0);
    let mut files = Vec::new();
    for n in 1..=call.arguments.int("n").unwrap_or(1).max(1) {
        let path =
            format!("/images/{:08x}-{n}.png", hash(&format!("{prompt}{size}{}", call.arguments.text("style"))) as u32);
        let file = json!({"content": prompt, "type": "image", "width": number(width), "height": number(height), "style": call.arguments.value("style")});
        files.push(drive::entry(&drive::save(world, &path, file)?));
    }
    Ok(json!({"message": format!("{} picture(s) that stand for `{prompt}`", files.len()), "files": files}))
}

fn edit(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut image = source(world, call, "image", "image")?;
    let mut path = drive::with_ending(&text_of(&image["path"]), "edited.png");
    for step in call.arguments.list("operations") {
        match step["op"].as_str() {
            Some("resize" | "crop") => {
                let scale = step["width"].as_f64().zip(image["width"].as_f64()).map(|(new, old)| new / old);
                let height = image["height"].as_f64().zip(scale).map(|(height, scale)| (height * scale).round());
                let height = step["height"].as_f64().or(height);
                [("width", step["width"].as_f64()), ("height", height)]
                    .into_iter()
                    .filter_map(|(field, value)| Some((field, value?)))
                    .for_each(|(field, value)| image[field] = value.into());
            }
            Some("rotate") if step["angle"].as_f64().is_some_and(|angle| angle.rem_euclid(180.0) == 90.0) => {
                let (width, height) = (image["width"].clone(), image["height"].clone());
                image["width"] = height;
                image["height"] = width;
            }
            Some("convert") => path = drive::with_ending(&path, step["format"].as_str().unwrap_or("png")),
            _ => {}
        }
    }
    let file = json!({"content": image["content"], "type": "image", "width": image["width"], "height": image["height"], "operations": call.arguments.list("operations"), "made_from": image["path"]});
    made(world, &path, file, "edited picture")
}

fn convert(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let video = source(world, call, "video", "video")?;
    let path = drive::with_ending(&text_of(&video["path"]), &format!("converted.{}", call.arguments.text("format")));
    let height = if call.arguments.has("height") { call.arguments.value("height") } else { &video["height"] };
    let file = json!({"content": video["content"], "type": "video", "seconds": video["seconds"], "height": height, "codec": call.arguments.value("codec"), "made_from": video["path"]});
    made(world, &path, file, "converted video")
}

fn trim(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let video = source(world, call, "video", "video")?;
    let time = |name: &str| {
        let text = call.arguments.text(name);
        clock::time_of_day(text).ok_or_else(|| Refusal(format!("`{name}` must be hh:mm:ss, not `{text}`")))
    };
    let (start, end, length) = (time("start")?, time("end")?, video["seconds"].as_i64().unwrap_or(0));
    if start >= end || end > length {
        return Err(format!("the video is {length} s long, so {start} to {end} s cannot be cut out").into());
    }
    let path = match call.arguments.text("output") {
        "" => drive::with_ending(&text_of(&video["path"]), "clip.mp4"),
        path => path.to_owned(),
    };
    let file = json!({"content": video["content"], "type": "video", "seconds": end - start, "height": video["height"], "made_from": video["path"]});
    made(world, &path, file, &format!("clip of {} s", end - start))
}

fn cut_out(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let image = source(world, call, "image", "image")?;
    let path = drive::with_ending(&text_of(&image["path"]), "cut-out.png");
    let file = json!({"content": image["content"], "type": "image", "width": image["width"], "height": image["height"], "transparent": true, "edge": call.arguments.value("edge"), "made_from": image["path"]});
    made(world, &path, file, "picture without background")
}

/// Keeps the times and marks the lines: nothing here can really translate.
fn translate(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let file = source(world, call, "subtitle_file", "document")?;
    let language = call.arguments.text("target_language");
    let mut text = String::new();
    for line in text_of(&file["content"]).lines() {
        let is_speech = !line.is_empty() && !line.contains("-->") && line.parse::<u32>().is_err();
        if is_speech && call.arguments.is("bilingual") {
            text += &format!("{line}\n");
        }
        text += &if is_speech { format!("[{language}] {line}\n") } else { format!("{line}\n") };
    }
    let path = drive::with_ending(&text_of(&file["path"]), &format!("{language}.srt"));
    made(world, &path, json!({"content": text}), "lines marked for translation, which the demo cannot do itself")
}

fn recognise(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let file = source(world, call, "audio", "audio")?;
    let heard = text_of(&file["content"]).to_lowercase();
    let is_heard = |track: &&Value| track["lyrics"].as_str().is_some_and(|lyrics| lyrics.contains(&heard));
    let Some(track) = world.all("media/tracks").iter().find(is_heard) else {
        return Ok(
            json!({"message": format!("no song is known that sounds like {}", text_of(&file["path"])), "track": null}),
        );
    };
    let mut reply = json!({"message": format!("this is {} by {}", text_of(&track["title"]), text_of(&track["artist"])), "title": track["title"], "artist": track["artist"], "album": track["album"], "uri": track["uri"]});
    if call.arguments.is("return_lyrics") {
        reply["lyrics"] = track["lyrics"].clone();
    }
    Ok(reply)
}

fn read(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let image = source(world, call, "image", "image")?;
    let text = filter::texts(&image["content"]);
    let mut reply = json!({"message": format!("{} line(s) in {}", text.lines().count(), text_of(&image["path"])), "text": text, "languages": call.arguments.value("languages")});
    if call.arguments.is("with_boxes") {
        let line =
            |(at, line): (usize, &str)| json!({"text": line, "box": [20, 20 + 40 * at, 18 * line.chars().count(), 32]});
        reply["boxes"] = text.lines().enumerate().map(line).collect();
    }
    Ok(reply)
}
