"""Writes `sample.jsonl`: texts and tools with the tokens and vectors that the engine must give.

`python sample.py MODEL`. A line is a query (`text`, `tokens`, `words`, `known`, `requests`) or a
tool (`tool`, `fields`), each with `vector` (the stored whole numbers, in hexadecimal, two's
complement) and `scale`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import reference as rf

TEXTS = """
ring my colleague
send a message to the whole team
what is the weather in Lisbon tomorrow?
Book a table for four, then remind me an hour before
delete every file older than 30 days and tell me how much space that frees
Please could you kindly do it for me
the of and to a in
get_weather
createIssue
HTMLParser
parseJSONToXML
HTTP2Server
oauth2 callback for s3 buckets on ec2
mcp__slack__send-message
github___create_issue
/repos/{owner}/{repo}/issues/{number}
list all pull requests; also merge the oldest one
GitHub GITHUB gitHub GiThUb Github
YouTube and LinkedIn and WhatsApp
iPhone eBay PayPal OpenAI
12345
2024-05-17T10:22:31Z
3 apples, 4 pears
a1b2c3d4e5
0xDEADBEEF
x
I
I'm, you're, they'll: don't!
...
?!
translate "good morning" into Japanese
Translate this; summarise that. Then email both!
compute sin(x)+cos(y)
E=mc²
½ cup of flour
①②③ first second third
price in €, £ or ¥?
100% sure & certain
C++ or C# or F#
node.js v18.2.0
user@example.org wrote to http://example.org/path?x=1&y=2
snake_case kebab-case camelCase PascalCase SCREAMING_SNAKE_CASE
userID userId userIDs
XMLHttpRequest
aB aBC ABc AbC
café naïve façade über Ångström
Cafe\u0301 with a combining accent
İstanbul ıstanbul
straße groß weiß
œuvre æther
Łódź Kraków Gdańsk
piñata jalapeño
Đà Nẵng thành phố
ﬁle ﬂow ﬀ
Ｆｕｌｌ ｗｉｄｔｈ
ﾌｧｲﾙ 検索
发送邮件给同事
查询北京的天气，然后发送邮件
获取weather数据
把这个PDF转换成Word文档
用email发送report给team
ファイルを検索して、メールで送る
カレンダーに予定を追加
東京の天気は？
파일을 검색해 줘
내일 날씨 알려줘
отправь письмо коллеге
погода в Москве и курс доллара
Создай задачу в Jira и назначь её мне
отправить email через SMTP
enviar un mensaje al equipo y luego crear una tarea
¿Qué tiempo hace mañana en Sevilla?
busca archivos grandes
Sende eine Nachricht an das Team
Wie wird das Wetter morgen in Köln?
Lösche alle alten Dateien
Größenänderung von Bildern
envoie un courriel à mon collègue
quel temps fera-t-il demain à Besançon ?
invia un messaggio
envie uma mensagem para a equipe amanhã
ارسل رسالة الى الفريق
שלח הודעה לצוות
मौसम कैसा है
ส่งข้อความถึงทีม
Στείλε μήνυμα
gửi tin nhắn
😀 happy 🎉party🎉 time
👩‍💻 code review
zero\u200bwidth\u200bspace
soft\u00adhyphen
non\u00a0breaking\u00a0space
tab\tand\nnewline
windows\r\nline ends
“quoted” ‘text’ — with dashes – and… dots
«guillemets» ‹single›
one,two,three
one, two, three
one , two , three
and and and
then
finally, at last
1, 2, 3
open the door. close the window. feed the cat. water the plants.
first a, then b, then c, then d, then e, then f, then g, then h, then i, then j, then k, then l, then m, then n, then o, then p, then q, then r
find trains
find trains and hotels
Find me a train to Vienna, a hotel near the station, and a museum that is open on Monday.
plot revenue by quarter
resize images to 800x600 px
convert 5 miles to kilometres
how many kcal are in 100g of rice?
stock ticker for a solar company
solve x^2 + 3x - 4 = 0
what's the capital gains tax in this country
unsubscribe me from newsletters
reschedule tomorrow's stand-up to 10:30
who is on call tonight?
roll back the last deployment
kubernetes pods that keep restarting
tail logs of the payments service
grep for TODO in the repository
rename branch feature/login to feature/sign-in
run unit tests & publish coverage
vectorise the address list
reverse geocode 48.2082, 16.3738
timezone of Auckland
QR code for my Wi-Fi
IBAN checksum
SHA256 of a file
base64 decode
UTF8 or UTF-16?
mp3 to wav
h264 encode
pH of lemon juice
supercalifragilisticexpialidocious
antidisestablishmentarianism
qwertyuiopasdfghjklzxcvbnm
zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz
zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz
""".strip().split("\n")

VERBS = ["list", "create", "update", "delete", "search", "export", "schedule", "convert", "analyse"]
THINGS = ["invoices", "calendar events", "GPU nodes", "recipes", "playlists", "blogPosts", "dns_records", "X-ray scans"]
ENDS = ["", " for my team", ", then notify me", " between 9 and 5", " in JSON"]
LANGUAGES = ["über", "señor", "数据", "данные", "データ"]


def texts() -> list[str]:
    """All queries of the sample."""
    made = [f"{verb} {thing}{ENDS[at % len(ENDS)]}" for at, verb in enumerate(VERBS) for thing in THINGS]
    mixed = [f"{verb} {word} {THINGS[at]}" for at, word in enumerate(LANGUAGES) for verb in VERBS[:4]]
    long = ["two\nlines", "tab\tand\r\nreturn", " ".join(f"{verb} {thing}" for verb in VERBS for thing in THINGS), "word " * 400, "a, " * 40]
    return TEXTS + made + mixed + long


def tools() -> list[dict[str, Any]]:
    """All tools of the sample."""
    found: list[dict[str, Any]] = [
        {"name": "bare"},
        {"name": "空", "description": "没有拉丁字母"},
        {"name": "12", "description": "34"},
        {"name": "long", "description": "many words again " * 200},
        {
            "name": "place_call",
            "title": "Place a call",
            "aliases": ["dial", "ringUp"],
            "description": "Rings a person.\nNeeds a number.",
            "search_hint": "telephone, phone",
            "prompt_instructions": "Use it when someone wants to talk.",
            "server": "tele-phony",
            "server_description": "Calls and voicemail",
            "category": "voice",
            "inputSchema": {
                "type": "object",
                "description": "not searched",
                "properties": {
                    "phoneNumber": {"type": "string", "description": "Whom to ring"},
                    "mode": {"enum": ["audio", "video", 3], "const": "fast"},
                    "options": {
                        "type": "object",
                        "properties": {"retry_count": {"type": "integer", "description": "How often"}},
                    },
                    "tags": {"type": "array", "items": {"type": "string", "description": "A label"}},
                    "either": {"anyOf": [{"description": "this"}, {"description": "or that", "enum": ["left"]}]},
                },
                "$defs": {"Point": {"description": "a place", "properties": {"lat": {}, "lon": {}}}},
            },
        },
    ]
    for at, verb in enumerate(VERBS):
        for thing in THINGS:
            name = f"{verb}_{thing.replace(' ', '_')}"
            schema = {"type": "object", "properties": {thing: {"description": f"Which {thing}"}, "limit": {"type": "integer"}}}
            tool = {"name": name, "description": f"Can {verb} {thing}{ENDS[at % len(ENDS)]}.", "parameters": schema}
            found.append(tool | ({"server": f"{LANGUAGES[at % 5]}-server"} if at % 2 else {"category": thing}))
    return found


def entry(model: rf.Model, source: str | dict[str, Any]) -> dict[str, Any]:
    """What the engine must make of one text or tool."""
    if isinstance(source, str):
        tokens, parts = model.query_tokens(source)
        line = {"text": source, "tokens": tokens.ids, "words": tokens.words, "known": tokens.known, "requests": parts}
        vector = model.query_vector(tokens.ids)
    else:
        fields = model.tool_tokens(source)
        line = {"tool": source, "fields": fields}
        vector = model.tool_vector(fields)
    whole, scale = rf.stored(vector)
    return {**line, "vector": whole.tobytes().hex(), "scale": float(scale)}


def write(model: rf.Model) -> None:
    """Writes the file."""
    with (Path(__file__).parent / "sample.jsonl").open("w", encoding="utf-8") as file:
        for source in [*texts(), *tools()]:
            file.write(json.dumps(entry(model, source), ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write(rf.read(Path(sys.argv[1])))
