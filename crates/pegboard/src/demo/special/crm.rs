//! Customers: summaries, duplicates, quotes and exports.

use serde_json::{Value, json};

use super::{Tools, cents};
use crate::demo::{
    clock::{self, DAY},
    verbs::{self, Call, brief},
    world::{Outcome, World, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("get_account_summary", summary),
    ("merge_duplicates", merge),
    ("generar_presupuesto", quote),
    ("exportar_contactos", export),
];

const RECORDS: &str = "crm/records";

fn summary(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let company = world.find(RECORDS, call.arguments.text("company_id"))?;
    let is_of = |record: &&Value| record["company"] == company["name"];
    let of_kind = |kind: &str| -> Vec<Value> {
        world.all(RECORDS).iter().filter(is_of).filter(|record| record["object"] == kind).cloned().map(brief).collect()
    };
    let since = world.now() - call.arguments.int("activity_days").unwrap_or(90).saturating_mul(DAY);
    let is_recent = |activity: &Value| clock::parse(&text_of(&activity["happened_at"])).is_some_and(|at| at >= since);
    let activities = world.all("crm/activities").iter().filter(|it| it["record_id"] == company["id"] && is_recent(it));
    let activities: Vec<&Value> = activities.collect();
    let (people, deals) = (of_kind("contact"), of_kind("deal"));
    let message = format!(
        "{}: {} people, {} deals, {} recent activities",
        text_of(&company["name"]),
        people.len(),
        deals.len(),
        activities.len()
    );
    Ok(json!({"message": message, "people": people, "deals": deals, "activities": activities, "company": company}))
}

fn merge(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let [mut kept, merged] = [call.arguments.text("keep_id"), call.arguments.text("merge_id")]
        .map(|id| world.find(RECORDS, id).unwrap_or_default());
    if kept["id"] == merged["id"] {
        return Err("`keep_id` and `merge_id` name the same record".into());
    }
    for (field, value) in merged.as_object().into_iter().flatten() {
        match &kept[field] {
            Value::Null => kept[field] = value.clone(),
            Value::Array(_) => verbs::extend(&mut kept, field, value),
            _ => {}
        }
    }
    world.remove(RECORDS, &text_of(&merged["id"]))?;
    world.put(RECORDS, kept.clone())?;
    Ok(
        json!({"message": format!("{} is part of {} now", text_of(&merged["id"]), text_of(&kept["id"])), "record": kept}),
    )
}

fn quote(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut lines = Vec::new();
    let mut total = 0.0;
    for line in call.arguments.list("lineas") {
        let product = world.find("crm/products", &text_of(&line["producto"]))?;
        let (units, discount) = (line["unidades"].as_f64().unwrap_or(1.0), line["descuento"].as_f64().unwrap_or(0.0));
        let amount = cents(product["price"].as_f64().unwrap_or(0.0) * units * (1.0 - discount / 100.0));
        total += amount;
        lines.push(json!({"producto": product["name"], "unidades": units, "descuento": discount, "importe": amount}));
    }
    call.arguments.set("lineas", lines);
    call.arguments.set("total", cents(total));
    let days = call.arguments.int("validez_dias").unwrap_or(30).clamp(0, 3_650);
    call.arguments.set("valido_hasta", clock::show_date(world.now() / DAY + days));
    verbs::create(world, call)
}

fn export(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut fields = call.arguments.texts("campos");
    if fields.is_empty() {
        fields = vec!["id", "name", "email", "company"];
    }
    let segment = call.arguments.value("segmento");
    let is_wanted =
        |record: &&Value| record["object"] == "contact" && (segment.is_null() || record["segment"] == *segment);
    let contacts: Vec<&Value> = world.all(RECORDS).iter().filter(is_wanted).collect();
    let cell = |record: &Value, field: &&str| match &record[field] {
        Value::Null => String::new(),
        value => format!("\"{}\"", text_of(value).replace('"', "\"\"")),
    };
    let row = |record: &&Value| fields.iter().map(|field| cell(record, field)).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = contacts.iter().map(row).collect();
    let csv = format!("{}\n{}\n", fields.join(","), rows.join("\n"));
    let message = format!("{} contact(s) for a file of type {}", contacts.len(), call.arguments.text("formato"));
    Ok(json!({"message": message, "formato": call.arguments.text("formato"), "contenido": csv}))
}
