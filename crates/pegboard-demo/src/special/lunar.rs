//! The Chinese calendar of 1990 to 2050.

use serde_json::{Value, json};

use crate::{
    clock::{self, DAY},
    verbs::Call,
    world::{Outcome, ToolError, World, shorten},
};

const FIRST: i64 = 1990;

/// For each year, from the lowest bit: 13 bits for its months in order, set for those of 30
/// days; 4 bits for the month that is repeated; 6 bits for the days from 1 January to its
/// first day.
const YEARS: [u32; 61] = [
    0x34be92, 0x5a0e92, 0x440d26, 0x2c6a56, 0x500a57, 0x3d14d6, 0x62035a, 0x4a06d5, 0x36aec9, 0x5c0749, 0x460693,
    0x2e952b, 0x54052b, 0x3e0a5b, 0x2a555a, 0x4e056a, 0x38fb55, 0x600ba4, 0x4a0b49, 0x32ba93, 0x580a95, 0x42052d,
    0x2c8a6d, 0x500ab5, 0x3d35aa, 0x6205d2, 0x4c0da5, 0x36dd4a, 0x5c0e4a, 0x460c95, 0x30952e, 0x540556, 0x3e0ab5,
    0x2a55b2, 0x5006d2, 0x38cea5, 0x5e0f25, 0x4a064a, 0x32ac97, 0x5604ab, 0x40055b, 0x2c6ad6, 0x520b69, 0x3d7752,
    0x620b52, 0x4c0b25, 0x36da4b, 0x5a0a4b, 0x4404ab, 0x2ea55b, 0x5405ad, 0x3e0b6a, 0x2a5b52, 0x500d92, 0x3afd25,
    0x5e0d25, 0x480a55, 0x32b4ad, 0x5804b6, 0x4005b5, 0x2c6daa,
];

const ANIMALS: [&str; 12] = ["鼠", "牛", "虎", "兔", "龙", "蛇", "马", "羊", "猴", "鸡", "狗", "猪"];
const STEMS: [&str; 10] = ["甲", "乙", "丙", "丁", "戊", "己", "庚", "辛", "壬", "癸"];
const BRANCHES: [&str; 12] = ["子", "丑", "寅", "卯", "辰", "巳", "午", "未", "申", "酉", "戌", "亥"];
/// The solar terms from the spring equinox on, one for each 15 degrees of the sun's way.
const TERMS: [&str; 24] = [
    "春分", "清明", "谷雨", "立夏", "小满", "芒种", "夏至", "小暑", "大暑", "立秋", "处暑", "白露", "秋分", "寒露",
    "霜降", "立冬", "小雪", "大雪", "冬至", "小寒", "大寒", "立春", "雨水", "惊蛰",
];
const FESTIVALS: [(i64, i64, &str); 8] = [
    (1, 1, "春节"),
    (1, 15, "元宵节"),
    (5, 5, "端午节"),
    (7, 7, "七夕"),
    (7, 15, "中元节"),
    (8, 15, "中秋节"),
    (9, 9, "重阳节"),
    (12, 8, "腊八节"),
];

struct Month {
    number: i64,
    is_leap: bool,
    length: i64,
}

/// Returns the first day of a lunar year and its months.
fn year(year: i64) -> Option<(i64, Vec<Month>)> {
    let bits = *YEARS.get(usize::try_from(year - FIRST).ok()?)?;
    let leap = i64::from(bits >> 13 & 15);
    let start = clock::days(year, 1, 1) + i64::from(bits >> 17);
    let month = |at: i64| {
        let is_leap = leap > 0 && at == leap + 1;
        let number = if leap > 0 && at > leap { at - 1 } else { at };
        Month { number, is_leap, length: 29 + i64::from(bits >> (at - 1) & 1) }
    };
    Some((start, (1..=12 + i64::from(leap > 0)).map(month).collect()))
}

/// Converts a date of one calendar to the other.
pub(super) fn convert(_: &mut World, call: &mut Call<'_>) -> Outcome {
    let date = call.arguments.text("date");
    if call.arguments.text("direction") == "lunar_to_solar" {
        return to_solar(date);
    }
    let day = clock::parse(date).ok_or_else(|| format!("`{}` is not a date like 2025-01-29", shorten(date)))?;
    to_lunar(day.div_euclid(DAY))
}

fn out_of_range() -> ToolError {
    "only lunar years 1990 to 2050 are supported".into()
}

/// Returns the lunar date of a day, counted from 1970.
fn to_lunar(day: i64) -> Outcome {
    let (solar_year, ..) = clock::civil(day);
    let is_begun = |lunar: &i64| year(*lunar).is_some_and(|(start, _)| start <= day);
    let lunar_year = [solar_year, solar_year - 1].into_iter().find(is_begun).ok_or_else(out_of_range)?;
    let (mut start, months) = year(lunar_year).ok_or_else(out_of_range)?;
    for month in &months {
        if day < start + month.length {
            return Ok(describe(day, lunar_year, month, day - start + 1));
        }
        start += month.length;
    }
    Err(out_of_range())
}

/// Returns the Gregorian date of a lunar one, as `2025-06-15`; `2025-L06-15` is in the repeated
/// month.
fn to_solar(date: &str) -> Outcome {
    let wrong = || {
        ToolError(format!("`{}` is not a lunar date like 2025-01-01, or 2025-L06-01 for a leap month", shorten(date)))
    };
    let parts: Vec<&str> = date.split('-').collect();
    let [lunar_year, month, day] = parts[..] else { return Err(wrong()) };
    let is_leap = month.starts_with('L');
    let number = |text: &str| text.trim_start_matches('L').parse::<i64>().map_err(|_| wrong());
    let (lunar_year, month, day) = (number(lunar_year)?, number(month)?, number(day)?);
    let (mut start, months) = year(lunar_year).ok_or_else(out_of_range)?;
    for found in &months {
        if found.number == month && found.is_leap == is_leap && (1..=found.length).contains(&day) {
            return Ok(describe(start + day - 1, lunar_year, found, day));
        }
        start += found.length;
    }
    Err(wrong())
}

fn describe(day: i64, year: i64, month: &Month, lunar_day: i64) -> Value {
    let cycle = |names: &[&'static str]| names[usize::try_from((year - 4).rem_euclid(names.len() as i64)).unwrap_or(0)];
    let is_last_day = self::year(year + 1).is_some_and(|(start, _)| day + 1 == start);
    let fixed = FESTIVALS.iter().find(|(m, d, _)| !month.is_leap && (*m, *d) == (month.number, lunar_day));
    let festival = if is_last_day { Some("除夕") } else { fixed.map(|(_, _, name)| *name) };
    let (before, after) = (term(day), term(day + 1));
    let solar = clock::show_date(day);
    let leap = if month.is_leap { "闰" } else { "" };
    json!({
        "message": format!("{solar} = 农历{year}年{leap}{}月{lunar_day}日", month.number),
        "solar": solar,
        "lunar": {"year": year, "month": month.number, "day": lunar_day, "is_leap_month": month.is_leap},
        "ganzhi": format!("{}{}年", cycle(&STEMS), cycle(&BRANCHES)),
        "shengxiao": cycle(&ANIMALS),
        "jieqi": TERMS[after],
        "jieqi_begins_today": before != after,
        "festival": festival,
    })
}

/// Returns the solar term at the beginning of the day in China, by the usual short formula for the
/// apparent longitude of the sun, good to a hundredth of a degree.
fn term(day: i64) -> usize {
    let since_2000 = (day - 10_957) as f64 - 0.5 - 8.0 / 24.0 + 0.0008;
    let mean = (280.460 + 0.985_647_4 * since_2000).rem_euclid(360.0);
    let anomaly = (357.528 + 0.985_600_3 * since_2000).to_radians();
    let longitude = (mean + 1.915 * anomaly.sin() + 0.020 * (2.0 * anomaly).sin() - 0.0057).rem_euclid(360.0);
    ((longitude / 15.0) as usize).min(23)
}
