//! A browser for the few pages that there are.

use serde_json::{Value, json};

use super::{
    Tools,
    drive::{self},
};
use crate::demo::{
    clock::{self, DAY},
    filter,
    verbs::{self, Call},
    world::{Outcome, Refusal, World, known_as, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("web_search", search),
    ("browser_navigate", navigate),
    ("browser_click", click),
    ("browser_type", fill),
    ("browser_fill_form", fill_form),
    ("browser_screenshot", screenshot),
    ("browser_get_text", text),
    ("browser_extract_table", table),
    ("browser_print_pdf", print),
    ("browser_evaluate", evaluate),
    ("browser_tabs", tabs),
    ("browser_download", download),
];

const PAGES: &str = "browser/pages";
const TABS: &str = "browser/tabs";

fn search(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let days = match call.arguments.text("freshness") {
        "day" => 1,
        "week" => 7,
        "month" => 31,
        "year" => 366,
        _ => 100_000,
    };
    let (since, site) = (world.now() - days * DAY, call.arguments.text("site"));
    let is_wanted = |page: &&Value| {
        clock::parse(&text_of(&page["modified"])).is_some_and(|at| at >= since) && text_of(&page["url"]).contains(site)
    };
    let pages: Vec<Value> = world.all(PAGES).iter().filter(is_wanted).cloned().collect();
    let query = call.arguments.text("query");
    let found = filter::search(pages, query);
    let count = usize::try_from(call.arguments.int("count").unwrap_or(10)).unwrap_or(0);
    let result = |page: &Value| json!({"title": page["title"], "url": page["url"], "snippet": page["text"]});
    let results: Vec<Value> = found.iter().take(count).map(result).collect();
    Ok(json!({"message": format!("{} page(s) for `{query}`", results.len()), "results": results}))
}

/// The tab in front, and the page in it.
fn current(world: &World) -> Result<(Value, Value), Refusal> {
    let tab = world.all(TABS).iter().find(|tab| tab["current"] == true).or(world.all(TABS).first());
    let tab = tab.cloned().ok_or("no tab is open; open one with browser_tabs")?;
    let page = world.find(PAGES, &text_of(&tab["url"]))?;
    Ok((tab, page))
}

/// Shows another page in a tab.
fn open(world: &mut World, mut tab: Value, url: &str) -> Outcome {
    let page = world.find(PAGES, url)?;
    tab["url"] = page["url"].clone();
    tab["typed"] = json!({});
    world.put(TABS, tab)?;
    let links = page["links"].as_object().map(|links| links.keys().collect::<Vec<_>>());
    Ok(
        json!({"message": format!("now at {}", text_of(&page["title"])), "url": page["url"], "title": page["title"], "links": links, "fields": page["fields"]}),
    )
}

fn navigate(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (tab, _) = current(world)?;
    open(world, tab, call.arguments.text("url"))
}

fn click(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let ((tab, page), selector) = (current(world)?, call.arguments.text("selector"));
    let links = page["links"].as_object().cloned().unwrap_or_default();
    let is_meant = |name: &&String| selector.to_lowercase().contains(&name.to_lowercase());
    if let Some(name) = links.keys().find(is_meant) {
        return open(world, tab, &text_of(&links[name]));
    }
    if !selector.to_lowercase().contains("submit") {
        let known: Vec<String> = links.keys().cloned().collect();
        return Err(format!("nothing here is called `{selector}`; {}", known_as(&known)).into());
    }
    submit(world, tab)
}

/// Types into a field that the page has.
fn type_into(tab: &mut Value, page: &Value, selector: &str, text: &Value) -> Result<(), Refusal> {
    let fields: Vec<String> = page["fields"].as_array().into_iter().flatten().map(text_of).collect();
    let bare = |name: &str| name.trim_start_matches('#').to_lowercase();
    let Some(field) = fields.iter().find(|field| bare(field) == bare(selector)) else {
        return Err(format!("the page has no field `{selector}`; {}", known_as(&fields)).into());
    };
    tab["typed"][field] = text.clone();
    Ok(())
}

fn submit(world: &mut World, mut tab: Value) -> Outcome {
    let typed = std::mem::replace(&mut tab["typed"], json!({}));
    let form = json!({"url": tab["url"], "fields": typed, "at": clock::show(world.now())});
    verbs::extend(&mut tab, "submitted", &form);
    world.put(TABS, tab)?;
    Ok(json!({"message": "the form was submitted", "form": form}))
}

fn fill(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (mut tab, page) = current(world)?;
    type_into(&mut tab, &page, call.arguments.text("selector"), call.arguments.value("text"))?;
    finish(world, tab, call.arguments.is("press_enter"))
}

fn fill_form(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (mut tab, page) = current(world)?;
    for field in call.arguments.list("fields") {
        type_into(&mut tab, &page, &text_of(&field["selector"]), &field["value"])?;
    }
    finish(world, tab, call.arguments.is("submit"))
}

fn finish(world: &mut World, tab: Value, is_submitted: bool) -> Outcome {
    if is_submitted {
        return submit(world, tab);
    }
    world.put(TABS, tab.clone())?;
    Ok(json!({"message": "typed; the form waits to be submitted", "typed": tab["typed"]}))
}

fn screenshot(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (_, page) = current(world)?;
    let shown = format!("{}\n{}", text_of(&page["title"]), text_of(&page["text"]));
    let lines = shown.len() / 60 + 2;
    let height = if call.arguments.is("full_page") { lines * 400 } else { 800 };
    let what = if call.arguments.has("selector") { call.arguments.text("selector") } else { "the page" };
    Ok(
        json!({"message": format!("a picture of {what}, described"), "format": call.arguments.value("format"), "width": 1280, "height": height, "shows": shown, "url": page["url"]}),
    )
}

fn text(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (_, page) = current(world)?;
    let (title, body) = (text_of(&page["title"]), text_of(&page["text"]));
    let text = match (call.arguments.text("selector"), call.arguments.is("as_markdown")) {
        ("title" | "h1", _) => title,
        (_, true) => format!("# {title}\n\n{body}"),
        (_, false) => format!("{title}\n{body}"),
    };
    Ok(json!({"message": format!("text of {}", text_of(&page["url"])), "text": text}))
}

fn table(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (_, page) = current(world)?;
    let rows = page["table"].as_array().ok_or_else(|| format!("{} has no table", text_of(&page["url"])))?;
    let at = usize::try_from(call.arguments.int("header_row").unwrap_or(0)).unwrap_or(usize::MAX);
    let header = rows.get(at).and_then(Value::as_array).ok_or_else(|| format!("the table has {} rows", rows.len()))?;
    let record =
        |row: &Value| header.iter().map(text_of).zip(row.as_array().cloned().unwrap_or_default()).collect::<Value>();
    let records: Vec<Value> = rows[at + 1..].iter().map(record).collect();
    Ok(json!({"message": format!("{} row(s) of the table", records.len()), "rows": records}))
}

fn print(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (_, page) = current(world)?;
    let content = format!("{}\n\n{}", text_of(&page["title"]), text_of(&page["text"]));
    let file = json!({"content": content, "type": "pdf", "paper": call.arguments.value("paper"), "landscape": call.arguments.value("landscape")});
    let file = drive::save(world, call.arguments.text("output"), file)?;
    Ok(json!({"message": format!("the page is printed to {}", text_of(&file["path"])), "file": drive::entry(&file)}))
}

/// There is no JavaScript here, only the expressions that people ask for most.
fn evaluate(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (tab, page) = current(world)?;
    let script = call
        .arguments
        .text("script")
        .trim()
        .trim_start_matches("return ")
        .trim_end_matches(';')
        .trim_start_matches("() => ");
    let links = page["links"].as_object().map_or(0, serde_json::Map::len);
    let value = match script {
        "document.title" => page["title"].clone(),
        "location.href" | "window.location.href" | "document.URL" => page["url"].clone(),
        "document.body.innerText" => page["text"].clone(),
        "document.links.length" => links.into(),
        "arguments" | "args" => call.arguments.value("args").clone(),
        script => match script.strip_prefix("location.href = ") {
            Some(url) => return open(world, tab, url.trim_matches(['"', '\''])),
            None => return Err(format!("the demo runs no JavaScript; it knows document.title, location.href (also to set), document.body.innerText, document.links.length and args, not `{}`", crate::demo::world::shorten(script)).into()),
        },
    };
    Ok(json!({"message": format!("`{script}` is {value}"), "result": value}))
}

fn tabs(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut tabs = world.all(TABS).to_vec();
    let index = usize::try_from(call.arguments.int("index").unwrap_or(0)).unwrap_or(usize::MAX);
    let op = call.arguments.text("op");
    if matches!(op, "close" | "select") && index >= tabs.len() {
        return Err(format!("there is no tab {index}; there are {} from 0 on", tabs.len()).into());
    }
    match op {
        "close" => {
            world.remove(TABS, &text_of(&tabs[index]["id"]))?;
        }
        "new" | "select" => {
            if op == "new" {
                let url = world.all(PAGES).first().map(|page| page["url"].clone());
                tabs.push(world.make(TABS, json!({"url": url, "typed": {}, "submitted": []}), false)?);
            }
            let chosen = if op == "new" { tabs.len() - 1 } else { index };
            for (at, mut tab) in tabs.into_iter().enumerate() {
                tab["current"] = (at == chosen).into();
                world.put(TABS, tab)?;
            }
        }
        _ => {}
    }
    let open: Vec<Value> =
        world.all(TABS).iter().map(|tab| json!({"url": tab["url"], "current": tab["current"]})).collect();
    Ok(json!({"message": format!("did `{op}`; {} tab(s) are open", open.len()), "tabs": open}))
}

fn download(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let page = world.find(PAGES, call.arguments.text("url"))?;
    let file = drive::save(world, call.arguments.text("save_to"), json!({"content": page["text"]}))?;
    Ok(
        json!({"message": format!("{} was saved to {}", text_of(&page["url"]), text_of(&file["path"])), "file": drive::entry(&file)}),
    )
}
