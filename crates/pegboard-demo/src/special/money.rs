//! Invoices, payments, refunds, quotes and conversions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Tools, cents};
use crate::{
    clock::{self, DAY},
    verbs::{self, Call, brief},
    world::{Outcome, World, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("CreateInvoice", create_invoice),
    ("RefundPayment", refund),
    ("GetBalance", balance),
    ("ProgramarTransferencia", transfer),
    ("CalcularImpuestos", taxes),
    ("ConvertirMoneda", convert),
    ("get_account_summary", summary),
    ("merge_duplicates", merge),
    ("generar_presupuesto", quote),
    ("exportar_contactos", export),
];

const TRANSACTIONS: &str = "payments/transactions";
const RECORDS: &str = "crm/records";

fn create_invoice(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut total = 0.0;
    for item in call.arguments.list("items") {
        let number = |name: &str, otherwise: f64| item[name].as_f64().unwrap_or(otherwise);
        total += number("unitAmount", 0.0) * number("quantity", 1.0) * (1.0 + number("taxRate", 0.0) / 100.0);
    }
    call.arguments.set("total", total.round() as i64);
    if !call.arguments.has("dueDate") {
        call.arguments.set("dueDate", clock::show_date(world.now() / DAY + 30));
    }
    verbs::create(world, call)
}

fn refund(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut payment = call.found["paymentId"].clone();
    let refunded = payment["refunded"].as_i64().unwrap_or(0);
    let left = if payment["kind"] == "payment" { payment["amount"].as_i64().unwrap_or(0) - refunded } else { 0 };
    let amount = call.arguments.int("amount").unwrap_or(left);
    if amount > left || left == 0 {
        return Err(format!("only {left} of {} can still be refunded", text_of(&payment["id"])).into());
    }
    payment["refunded"] = (refunded + amount).into();
    world.put(TRANSACTIONS, payment.clone())?;
    let refund = json!({
        "kind": "refund", "status": "captured", "amount": -amount, "currency": payment["currency"],
        "paymentId": payment["id"], "reason": call.arguments.value("reason"),
    });
    let refund = world.make(TRANSACTIONS, refund, false)?;
    Ok(json!({"message": format!("{amount} refunded"), "refund": refund, "payment": payment}))
}

fn balance(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for transaction in world.all(TRANSACTIONS) {
        let (available, pending) = sums.entry(text_of(&transaction["currency"])).or_default();
        let sum = if transaction["status"] == "captured" { available } else { pending };
        *sum = sum.saturating_add(transaction["amount"].as_i64().unwrap_or(0));
    }
    let wanted = call.arguments.text("currency");
    sums.retain(|currency, _| wanted.is_empty() || currency == wanted);
    let shown = |(available, pending): (i64, i64)| json!({"available": available, "pending": pending});
    let balances: BTreeMap<String, Value> = sums.into_iter().map(|(currency, sums)| (currency, shown(sums))).collect();
    Ok(json!({"message": format!("money in {} currencies, in cents", balances.len()), "balances": balances}))
}

fn transfer(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let iban = call.arguments.text("iban").replace(' ', "").to_uppercase();
    if !is_iban(&iban) {
        return Err(format!("`{iban}` is not a valid IBAN: its check digits are wrong").into());
    }
    call.arguments.set("iban", iban);
    let today = world.now().div_euclid(DAY);
    if clock::parse(call.arguments.text("fecha")).is_none_or(|at| at.div_euclid(DAY) < today) {
        return Err(format!("`fecha` must be a date from {} on", clock::show_date(today)).into());
    }
    verbs::create(world, call)
}

/// Returns whether the number that the letters and digits stand for leaves 1 when divided by 97.
fn is_iban(iban: &str) -> bool {
    if !iban.is_ascii() || !(15..=34).contains(&iban.len()) {
        return false;
    }
    let digits = iban[4..].chars().chain(iban[..4].chars()).map(|c| c.to_digit(36));
    let add = |sum: u32, digit: Option<u32>| Some((sum * if digit? > 9 { 100 } else { 10 } + digit?) % 97);
    digits.into_iter().try_fold(0, add) == Some(1)
}

fn taxes(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let tax = world.find("payments/taxes", call.arguments.text("pais"))?;
    let (base, kind) = (call.arguments.number("importe").unwrap_or(0.0), call.arguments.text("tipoProducto"));
    // Between companies of the EU the buyer accounts for the tax; at home it is charged.
    let is_reversed = call.arguments.has("nif") && tax["eu"] == true && tax["country"] != "ES";
    let percent = if is_reversed { 0.0 } else { tax["rates"][kind].as_f64().unwrap_or(0.0) };
    let amount = cents(base * percent / 100.0);
    Ok(json!({
        "message": format!("{} {percent} % de {base} = {amount}", text_of(&tax["name"])),
        "porcentaje": percent, "cuota": amount, "total": cents(base + amount),
        "inversion_del_sujeto_pasivo": is_reversed,
    }))
}

fn convert(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let per_euro = |name: &str| world.find("payments/rates", call.arguments.text(name));
    let rate = |name: &str| per_euro(name).map(|rate| rate["per_euro"].as_f64().unwrap_or(1.0));
    let (rate, amount) = (rate("a")? / rate("de")?, call.arguments.number("cantidad").unwrap_or(0.0));
    let result = cents(amount * rate);
    let message = format!("{amount} {} = {result} {}", call.arguments.text("de"), call.arguments.text("a"));
    Ok(json!({"message": message, "resultado": result, "tipo": rate, "nota": "the demo uses one rate for all days"}))
}

fn summary(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let company = &call.found["company_id"];
    let of_kind = |kind: &str| -> Vec<Value> {
        let is_meant = |record: &&Value| record["company"] == company["name"] && record["object"] == kind;
        world.all(RECORDS).iter().filter(is_meant).cloned().map(brief).collect()
    };
    let days = call.arguments.int("activity_days").unwrap_or(90).clamp(0, 36_500);
    let since = world.now() - days * DAY;
    let is_recent = |activity: &Value| clock::parse(&text_of(&activity["happened_at"])) >= Some(since);
    let is_meant = |activity: &&Value| activity["record_id"] == company["id"] && is_recent(activity);
    let activities: Vec<&Value> = world.all("crm/activities").iter().filter(is_meant).collect();
    Ok(json!({
        "message": format!("all about {}", text_of(&company["name"])), "company": company,
        "people": of_kind("contact"), "deals": of_kind("deal"), "activities": activities,
    }))
}

fn merge(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (mut kept, merged) = (call.found["keep_id"].clone(), &call.found["merge_id"]);
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
    let gone = text_of(&world.remove(RECORDS, &text_of(&merged["id"]))?["id"]);
    world.put(RECORDS, kept.clone())?;
    Ok(json!({"message": format!("{gone} merged into {}", text_of(&kept["id"])), "record": kept}))
}

fn quote(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut total = 0.0;
    for line in call.arguments.list("lineas") {
        let product = world.find("crm/products", &text_of(&line["producto"]))?;
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        total += number(&product["price"]) * number(&line["unidades"]) * (1.0 - number(&line["descuento"]) / 100.0);
    }
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
    let cell = |value: &Value| value.as_str().map_or_else(String::new, |text| format!("{text:?}"));
    let row = |record: &Value| fields.iter().map(|field| cell(&record[field])).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = world.all(RECORDS).iter().filter(is_wanted).map(row).collect();
    let message = format!("{} contact(s) for a file of type {}", rows.len(), call.arguments.text("formato"));
    Ok(json!({"message": message, "contenido": format!("{}\n{}", fields.join(","), rows.join("\n"))}))
}
