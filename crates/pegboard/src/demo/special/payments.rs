//! Money: what is owed, paid, given back and converted.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Tools, cents};
use crate::demo::{
    clock,
    verbs::{self, Call},
    world::{Outcome, World, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("CreateInvoice", create_invoice),
    ("ChargeCard", charge),
    ("RefundPayment", refund),
    ("GetBalance", balance),
    ("ProgramarTransferencia", transfer),
    ("CalcularImpuestos", taxes),
    ("ConvertirMoneda", convert),
];

const TRANSACTIONS: &str = "payments/transactions";

fn create_invoice(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (mut net, mut tax) = (0.0, 0.0);
    for item in call.arguments.list("items") {
        let amount = item["unitAmount"].as_f64().unwrap_or(0.0) * item["quantity"].as_f64().unwrap_or(1.0);
        net += amount;
        tax += amount * item["taxRate"].as_f64().unwrap_or(0.0) / 100.0;
    }
    call.arguments.set("net", net.round());
    call.arguments.set("tax", tax.round());
    call.arguments.set("total", (net + tax).round());
    let is_sent = call.arguments.take("sendNow") == true;
    call.arguments.set("status", if is_sent { "open" } else { "draft" });
    if !call.arguments.has("currency") {
        call.arguments.set("currency", "EUR");
    }
    if !call.arguments.has("dueDate") {
        call.arguments.set("dueDate", clock::show_date(world.now() / clock::DAY + 30));
    }
    verbs::create(world, call)
}

fn charge(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let customer = world.find("payments/customers", call.arguments.text("customerId"))?;
    if !call.arguments.has("paymentMethod") {
        let card = customer["card"].as_str().ok_or("the customer has no saved card; name a `paymentMethod`")?;
        call.arguments.set("paymentMethod", card);
    }
    let is_captured = call.arguments.take("capture") == true;
    call.arguments.set("status", if is_captured { "captured" } else { "authorized" });
    verbs::create(world, call)
}

fn refund(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut payment = world.find(TRANSACTIONS, call.arguments.text("paymentId"))?;
    if payment["kind"] != "payment" {
        return Err(format!("{} is no payment", text_of(&payment["id"])).into());
    }
    let refunded = payment["refunded"].as_i64().unwrap_or(0);
    let left = payment["amount"].as_i64().unwrap_or(0) - refunded;
    let amount = call.arguments.int("amount").unwrap_or(left);
    if amount > left || left == 0 {
        return Err(format!("only {left} of the payment can still be given back").into());
    }
    payment["refunded"] = (refunded + amount).into();
    world.put(TRANSACTIONS, payment.clone())?;
    let refund = json!({
        "kind": "refund", "status": "captured", "amount": -amount, "currency": payment["currency"],
        "customerId": payment["customerId"], "paymentId": payment["id"], "reason": call.arguments.value("reason"),
    });
    let refund = world.make(TRANSACTIONS, refund, false)?;
    Ok(
        json!({"message": format!("{amount} of {} are given back", text_of(&payment["id"])), "refund": refund, "payment": payment}),
    )
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
    let balance = |(currency, (available, pending)): (&String, &(i64, i64))| json!({"currency": currency, "available": available, "pending": pending});
    let balances: Vec<Value> = sums.iter().map(balance).collect();
    Ok(json!({"message": format!("the account holds money in {} currencies", balances.len()), "balances": balances}))
}

fn transfer(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let iban = call.arguments.text("iban").replace(' ', "").to_uppercase();
    if !is_iban(&iban) {
        return Err(format!("`{iban}` is no valid IBAN: its check digits do not fit").into());
    }
    call.arguments.set("iban", iban);
    let day = clock::parse(call.arguments.text("fecha")).ok_or("`fecha` is no date")?;
    if day < world.now() / clock::DAY * clock::DAY {
        return Err(format!("`fecha` is past; today is {}", clock::show_date(world.now() / clock::DAY)).into());
    }
    verbs::create(world, call)
}

/// Whether the number that the letters and digits stand for leaves 1 when divided by 97.
fn is_iban(iban: &str) -> bool {
    if !iban.is_ascii() || !(15..=34).contains(&iban.len()) {
        return false;
    }
    let mut remainder = 0;
    for c in iban[4..].chars().chain(iban[..4].chars()) {
        let Some(digit) = c.to_digit(36) else { return false };
        remainder = (remainder * if digit > 9 { 100 } else { 10 } + digit) % 97;
    }
    remainder == 1
}

fn taxes(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let tax = world.find("payments/taxes", call.arguments.text("pais"))?;
    let (base, kind) = (call.arguments.number("importe").unwrap_or(0.0), call.arguments.text("tipoProducto"));
    // Between companies of the EU the buyer accounts for the tax; at home it is charged.
    let is_reversed = call.arguments.has("nif") && tax["eu"] == true && tax["country"] != "ES";
    let percent = if is_reversed { 0.0 } else { tax["rates"][kind].as_f64().unwrap_or(0.0) };
    let amount = cents(base * percent / 100.0);
    let name = text_of(&tax["name"]);
    Ok(json!({
        "message": format!("{name} {percent} % de {base}: {amount}"),
        "impuesto": name, "porcentaje": percent, "base": base, "cuota": amount, "total": cents(base + amount),
        "inversion_del_sujeto_pasivo": is_reversed, "tipoProducto": kind, "pais": tax["country"],
    }))
}

fn convert(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let per_euro =
        |currency: &str| world.find("payments/rates", currency).map(|rate| rate["per_euro"].as_f64().unwrap_or(1.0));
    let (from, to) = (call.arguments.text("de"), call.arguments.text("a"));
    let rate = per_euro(to)? / per_euro(from)?;
    let amount = call.arguments.number("cantidad").unwrap_or(0.0);
    let result = cents(amount * rate);
    let day = if call.arguments.has("fecha") {
        call.arguments.text("fecha").to_owned()
    } else {
        clock::show_date(world.now() / clock::DAY)
    };
    Ok(
        json!({"message": format!("{amount} {from} = {result} {to}"), "resultado": result, "moneda": to, "tipo": rate, "fecha": day, "nota": "fixed rates of the demo, the same on all days"}),
    )
}
