//! Machines, objects, functions and what they cost.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Tools, cents, drive};
use crate::demo::{
    clock::{self, DAY},
    verbs::{self, Call},
    world::{Outcome, Refusal, World, hash, known_as, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("storage.objects.list", list_objects),
    ("storage.objects.upload", upload),
    ("storage.objects.sign", sign),
    ("functions.deploy", deploy),
    ("functions.invoke", invoke),
    ("kubernetes.pods.list", pods),
    ("secrets.get", secret),
    ("billing.costs.get", costs),
];

fn list_objects(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let prefix = text_of(&call.arguments.take("prefix"));
    let mut reply = verbs::list(world, call)?;
    if let Some(objects) = reply["objects"].as_array_mut() {
        objects.retain(|object| text_of(&object["key"]).starts_with(&prefix));
        let message = format!("{} object(s) begin with `{prefix}`", objects.len());
        reply["total"] = objects.len().into();
        reply["message"] = message.into();
    }
    Ok(reply)
}

fn upload(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let file = world.find(drive::FILES, call.arguments.text("localPath"))?;
    call.arguments.set("size", drive::size(&file));
    verbs::create(world, call)
}

fn sign(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (bucket, key) = (call.arguments.text("bucket"), call.arguments.text("key"));
    let method = call.arguments.text("method");
    if method == "GET" {
        world.find("cloud/objects", &format!("{bucket}/{key}"))?;
    }
    let until = clock::show(world.now() + call.arguments.int("expiresSeconds").unwrap_or(3_600).clamp(1, 604_800));
    let signature = hash(&format!("{method} {bucket}/{key} {until}"));
    let url =
        format!("https://{bucket}.storage.example/{key}?method={method}&expires={until}&signature={signature:016x}");
    Ok(json!({"message": format!("{method} of {bucket}/{key} is allowed until {until}"), "url": url, "expires": until}))
}

fn deploy(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let old = world.find("cloud/functions", call.arguments.text("name")).unwrap_or_default();
    call.arguments.set("revision", old["revision"].as_i64().unwrap_or(0) + 1);
    verbs::create(world, call)
}

/// There is no runtime in this world, so a function gives back what it was given.
fn invoke(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut function = world.find("cloud/functions", call.arguments.text("name"))?;
    let count = function["invocations"].as_i64().unwrap_or(0) + 1;
    function["invocations"] = count.into();
    world.put("cloud/functions", function.clone())?;
    let name = text_of(&function["name"]);
    let payload = call.arguments.value("payload");
    let printed = format!(
        "{name} revision {} ({}): run {count} with {payload}",
        function["revision"],
        text_of(&function["runtime"])
    );
    Ok(json!({"message": format!("{name} ran; the demo echoes its payload"), "printed": printed, "returned": payload}))
}

fn pods(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (cluster, namespace) = (call.arguments.text("cluster"), call.arguments.text("namespace"));
    let wanted = call.arguments.text("selector").split_once('=').map(|(_, app)| app.trim_start_matches('='));
    let is_meant = |deployment: &&Value| {
        deployment["cluster"] == *cluster
            && deployment["namespace"] == *namespace
            && wanted.is_none_or(|app| deployment["name"] == *app)
    };
    let mut pods = Vec::new();
    for deployment in world.all("cloud/deployments").iter().filter(is_meant) {
        let id = text_of(&deployment["id"]);
        for at in 0..deployment["replicas"].as_u64().unwrap_or(0).min(1_000) {
            let name = format!("{}-{:06x}", text_of(&deployment["name"]), hash(&format!("{id}{at}")) & 0xff_ffff);
            pods.push(json!({"name": name, "app": deployment["name"], "image": deployment["image"], "status": "Running", "restarts": 0}));
        }
    }
    Ok(json!({"message": format!("{} pod(s) in {cluster}/{namespace}", pods.len()), "pods": pods}))
}

fn secret(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let secret = world.find("cloud/secrets", call.arguments.text("name"))?;
    let wanted = call.arguments.text("version");
    let versions = secret["versions"].as_object().cloned().unwrap_or_default();
    let latest = versions.keys().next_back().map_or("", String::as_str);
    let version = if wanted == "latest" { latest } else { wanted };
    let Some(value) = versions.get(version) else {
        let known: Vec<String> = versions.keys().cloned().collect();
        return Err(format!("there is no version `{wanted}`; {}", known_as(&known)).into());
    };
    let name = text_of(&secret["name"]);
    Ok(json!({"message": format!("version {version} of {name}"), "name": name, "version": version, "value": value}))
}

/// What everything that runs costs in a day: service, region, tag and price.
fn daily_costs(world: &World) -> Vec<(String, String, String, f64)> {
    let price = |service: &str| {
        let found = world.find("cloud/prices", service).or_else(|_| world.find("cloud/prices", "compute other"));
        found.map_or(0.0, |price| price["per_day"].as_f64().unwrap_or(0.0))
    };
    let mut costs = Vec::new();
    for instance in world.all("cloud/instances").iter().filter(|instance| instance["state"] == "running") {
        let service = format!("compute {}", text_of(&instance["machineType"]));
        let price = price(&service);
        let tag = text_of(instance["tags"].get("team").unwrap_or(&"untagged".into()));
        costs.push((service, text_of(&instance["region"]), tag, price));
    }
    for (service, collection) in [("storage", "cloud/objects"), ("functions", "cloud/functions")] {
        let count = world.all(collection).len() as f64;
        costs.push((service.to_owned(), "global".to_owned(), "untagged".to_owned(), count * price(service)));
    }
    costs
}

fn costs(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let day = |name: &str| {
        let text = call.arguments.text(name);
        clock::parse(text).map(|at| at / DAY).ok_or_else(|| Refusal(format!("`{name}` is no date: `{text}`")))
    };
    let days = (day("end")? - day("start")?).max(0) as f64;
    let by = call.arguments.text("groupBy");
    let mut groups: BTreeMap<String, f64> = BTreeMap::new();
    let mut per_day = 0.0;
    for (service, region, tag, price) in daily_costs(world) {
        let group = match by {
            "service" => service,
            "region" => region,
            "tag" => tag,
            _ => "demo".to_owned(),
        };
        *groups.entry(group).or_default() += price * days;
        per_day += price;
    }
    let group = |(name, cost): (String, f64)| json!({by: name, "cost": cents(cost)});
    let groups: Vec<Value> = groups.into_iter().map(group).collect();
    let mut reply =
        json!({"message": format!("{} USD in {days} days", cents(per_day * days)), "currency": "USD", "costs": groups});
    if call.arguments.is("forecast") {
        reply["forecast_for_30_days"] = cents(per_day * 30.0).into();
    }
    Ok(reply)
}
