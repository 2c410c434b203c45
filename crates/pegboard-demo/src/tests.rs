use serde_json::{Value, json};

use super::{DemoServer, demo_servers};

/// A demo world, and calls to it.
struct Demo(Vec<DemoServer>);

impl Demo {
    fn new() -> Self {
        Self(demo_servers().unwrap())
    }

    fn server(&self, name: &str) -> &DemoServer {
        self.0.iter().find(|server| server.name == name).unwrap_or_else(|| panic!("no server {name}"))
    }

    fn call(&self, server: &str, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.server(server).handle("tools/call", params).unwrap_or_else(|error| panic!("{tool}: {error}"));
        assert_eq!(result["resultType"], "complete", "{tool}");
        assert!(result["structuredContent"].is_object(), "{tool}: {result}");
        assert_eq!(result["content"][0]["text"], result["structuredContent"].to_string(), "{tool}");
        result
    }
}

/// Calls tools one after the other. Each line is `server tool arguments => expectations`,
/// which are words that the reply contains, or does not with a `!` before them. A reply that
/// is an error begins with `{"error"`.
#[track_caller]
fn check(steps: &str) {
    let demo = Demo::new();
    for line in steps.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (call, expected) = line.split_once(" => ").unwrap_or_else(|| panic!("no `=>` in {line}"));
        let [server, tool, arguments] = call.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("too short: {line}")
        };
        let arguments = serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{error}: {line}"));
        let reply = demo.call(server, tool, &arguments)["structuredContent"].to_string();
        assert_eq!(reply.starts_with(r#"{"error""#), expected.starts_with("error"), "{line}\n{reply}");
        for word in expected.split(" & ") {
            let (word, is_there) = word.strip_prefix('!').map_or((word, true), |word| (word, false));
            assert_eq!(reply.contains(word), is_there, "`{word}` in {reply}\nafter {line}");
        }
    }
}

#[test]
fn issues() {
    check(
        r#"
        github create_issue {"owner":"acme","repo":"web","title":"Broken search","labels":["bug"]} => "number":5 & "state":"open"
        github list_issues {"owner":"acme","repo":"web"} => "total":3 & Broken search & !Slow response
        github list_issues {"owner":"acme","repo":"web","labels":["bug","urgent"]} => "total":1 & Login page
        github list_issues {"owner":"acme","repo":"web","assignee":"none"} => "total":2 & !Login page
        github get_issue {"owner":"acme","repo":"web","issue_number":5} => Broken search
        github get_issue {"owner":"acme","repo":"api","issue_number":5} => error & there is no issue `5` & known: 3
        github get_issue {"owner":"acme","repo":"nope","issue_number":5} => error & known: web, api
        github create_issue {"owner":"me","repo":"web","title":"x"} => error & known: acme/web, acme/api
        github add_issue_comment {"owner":"acme","repo":"web","issue_number":5,"body":"Me too"} => Me too
        github update_issue {"owner":"acme","repo":"web","issue_number":5,"state":"closed","state_reason":"completed"} => "state":"closed"
        github list_issues {"owner":"acme","repo":"web"} => "total":2 & !Broken search
        github list_issues {"owner":"acme","repo":"web","state":"all","page":1} => "total":3
        github search_issues {"q":"broken is:issue is:closed"} => "total":1 & Me too
        github search_issues {"q":"session is:pr is:open repo:acme/web"} => "total":1 & "number":4
        "#,
    );
}

#[test]
fn pull_requests() {
    check(
        r#"
        github create_branch {"owner":"acme","repo":"web","branch":"docs"} => "name":"docs" & "from_ref":"main"
        github create_branch {"owner":"acme","repo":"web","branch":"docs"} => error & already
        github push_files {"owner":"acme","repo":"web","branch":"docs","message":"Say more","files":[{"path":"README.md","content":"now with more words\n"}]} => "sha"
        github create_pull_request {"owner":"acme","repo":"web","title":"More words","head":"docs","base":"main"} => "number":5
        github get_pull_request_diff {"owner":"acme","repo":"web","pull_number":5} => +now with more words & -# web
        github get_file_contents {"owner":"acme","repo":"web","path":"README.md"} => front end
        github merge_pull_request {"owner":"acme","repo":"web","pull_number":5,"delete_branch":true} => "merged":true
        github get_file_contents {"owner":"acme","repo":"web","path":"README.md"} => now with more words
        github merge_pull_request {"owner":"acme","repo":"web","pull_number":5} => error & not an open pull request
        github list_commits {"owner":"acme","repo":"web","sha":"main","path":"README.md"} => "total":1 & More words
        github push_files {"owner":"acme","repo":"web","branch":"docs","message":"x","files":[{"path":"a","content":""}]} => error & no branch `docs`
        "#,
    );
}

#[test]
fn chat() {
    check(
        r##"
        slack create_channel {"name":"lunch","is_private":true,"purpose":"Food"} => "type":"private" & "topic":"Food"
        slack create_channel {"name":"lunch"} => error & already
        slack list_channels {} => general & !launch-2025 & !lunch
        slack list_channels {"types":["private","public"],"include_archived":true} => launch-2025 & lunch
        slack send_message {"channel":"#lunch","text":"Pizza at noon?"} => "channel":"lunch" & "ts":"1772442000.4"
        slack reply_in_thread {"channel":"lunch","thread_ts":"1772442000.4","text":"Yes"} => "thread_ts"
        slack add_reaction {"channel":"lunch","ts":"1772442000.4","emoji":"tada"} => ["tada"]
        slack get_channel_history {"channel":"C5"} => "total":2 & Pizza
        slack search_messages {"query":"pizza from:@ana in:#lunch"} => "total":1 & tada
        slack invite_to_channel {"channel":"lunch","users":["ben@acme.example"]} => ["U01","U02"]
        slack set_status {"text":"Eating"} => "status_text":"Eating"
        slack list_users {} => Eating & !buildbot
        slack upload_file {"channel":"lunch","path":"/notes.txt"} => Buy coffee
        "##,
    );
}

#[test]
fn mail() {
    check(
        r#"
        mail send {"to":["ben@acme.example"],"subject":"Lunch","body":"At noon?"} => "id":"m5" & "folder":"Sent"
        mail search {"query":"noon"} => "total":1 & "subject":"Lunch"
        mail search {"from":"ben","after":"2026-03-01"} => "total":1 & "id":"m2"
        mail search {"has_attachment":true} => "total":1 & "id":"m1"
        mail reply {"message_id":"m2","body":"Fine","reply_all":true} => "subject":"Re: Plan for the launch" & "to":["ben@acme.example"] & "cc"
        mail list-unread {} => "total":2
        mail mark-message {"message_ids":["m1","m2"],"mark":"read"} => changed mail: m1, m2
        mail list-unread {} => "total":0
        mail move-message {"message_ids":["m3"],"folder":"archive"} => "folder":"Archive"
        mail delete-message {"message_ids":["m3"]} => "folder":"Trash"
        mail delete-message {"message_ids":["m3"],"permanent":true} => deleted
        mail get-message {"message_id":"m3"} => error & known: m1, m2, m4, m5, m6
        mail download-attachment {"message_id":"m1","attachment_id":"a1","save_to":"/in/invoice.txt"} => invoice-4711
        files read_file {"path":"/in/invoice.txt"} => 310.00 EUR
        "#,
    );
}

#[test]
fn events() {
    check(
        r#"
        calendar createEvent {"summary":"Tea","start":"2026-03-05T15:00:00Z","end":"2026-03-05T16:00:00Z"} => "id":"ev-4" & "calendarId":"primary"
        calendar createEvent {"summary":"Tea","start":"2026-03-05T15:00:00Z","end":"2026-03-05T15:00:00Z"} => error & later
        calendar listEvents {"timeMin":"2026-03-05T00:00:00Z","timeMax":"2026-03-06T00:00:00Z"} => "total":1 & Tea
        calendar updateEvent {"eventId":"ev-4","changes":{"location":"Garden","addAttendees":["ben@acme.example"]}} => Garden & ben@acme.example
        calendar searchEvents {"query":"garden"} => "total":1 & Tea
        calendar findFreeSlots {"attendees":["ben@acme.example"],"durationMinutes":60,"windowStart":"2026-03-05T14:00:00Z","windowEnd":"2026-03-05T18:00:00Z"} => "2026-03-05T14:00:00Z" & !"2026-03-05T15:00:00Z","end" & "2026-03-05T16:00:00Z" & !"end":"2026-03-05T18:00:00Z"
        calendar respondToInvite {"eventId":"ev-3","response":"accepted"} => "my_response":"accepted"
        calendar respondToInvite {"eventId":"ev-9","response":"accepted"} => error & known: ev-1, ev-2, ev-3, ev-4
        calendar deleteEvent {"eventId":"ev-4"} => deleted
        calendar searchEvents {"query":"garden"} => "total":0
        calendar bookMeetingRoom {"start":"2026-03-02T10:30:00Z","end":"2026-03-02T11:30:00Z","capacity":5} => Oak
        calendar bookMeetingRoom {"start":"2026-03-02T10:30:00Z","end":"2026-03-02T11:30:00Z","capacity":5} => error & no room
        calendar getHolidays {"country":"JP","year":2027} => 2027-05-05
        "#,
    );
}

#[test]
fn files() {
    check(
        r#"
        files write_file {"path":"ideas/one.txt","content":"first\n"} => "path":"/ideas/one.txt"
        files write_file {"path":"/ideas/one.txt","content":"second\n","mode":"append"} => saved
        files write_file {"path":"/ideas/one.txt","content":"","mode":"create_only"} => error & already
        files read_file {"path":"/ideas/one.txt"} => first\nsecond
        files restore_version {"path":"/ideas/one.txt","version":"1"} => "content":"first\n"
        files list_files {} => "path":"/ideas","type":"folder" & /notes.txt & !one.txt
        files search_files {"query":"first"} => /ideas/one.txt
        files zip_files {"action":"compress","paths":["/ideas/one.txt"],"target":"/a.zip","password":"x"} => 1 file(s)
        files move_file {"from":"/ideas/one.txt","to":"/ideas/two.txt"} => /ideas/two.txt
        files read_file {"path":"/ideas/one.txt"} => error & there is no file
        files delete_file {"path":"/ideas/two.txt"} => deleted
        files zip_files {"action":"extract","paths":["/a.zip"],"target":"/out"} => error & password
        files zip_files {"action":"extract","paths":["/a.zip"],"target":"/out","password":"x"} => /out/ideas/one.txt
        files upload {"local_path":"/home/demo/report.csv","folder":"/in"} => /in/report.csv
        files upload {"local_path":"/home/demo/report.csv","folder":"/in"} => /in/1-report.csv
        files convert_document {"path":"/plans/launch.md","to":"pdf"} => /plans/launch.pdf
        "#,
    );
}

#[test]
fn tables() {
    check(
        r#"
        postgres query {"sql":"SELECT name, city FROM customers WHERE id >= $1 AND city <> 'Berlin' ORDER BY name DESC LIMIT 5","params":[2]} => [{"name":"Kato Books","city":"Tokyo"}]
        postgres execute {"sql":"INSERT INTO orders (customer_id, amount, status) VALUES (2, 9.5, 'it''s open'), (3, 1, NULL)"} => "rows_affected":2
        postgres query {"sql":"select count(*), sum(amount) from public.orders where customer_id = 2"} => [{"count":2,"sum":51.5}]
        postgres execute {"sql":"UPDATE orders SET status = 'paid' WHERE status LIKE '%open'"} => "rows_affected":3
        postgres execute {"sql":"DELETE FROM orders WHERE status IS NOT NULL"} => "rows_affected":5
        postgres query {"sql":"SELECT id FROM orders"} => [{"id":6}]
        postgres query {"sql":"SELECT * FROM a JOIN b"} => error & SQL at `JOIN`
        postgres query {"sql":"SELECT x FROM orders"} => error & no column `x` & known: id
        postgres query {"sql":"DELETE FROM orders"} => error & only SELECT
        postgres create_table {"table":"pets","columns":[{"name":"id","type":"int","primary_key":true},{"name":"name","type":"text"}]} => "name":"pets"
        postgres create_record {"table":"public.pets","values":{"name":"Rex"}} => {"id":1,"name":"Rex"}
        postgres create_index {"table":"pets","columns":["name"]} => "columns":["name"]
        postgres explain_query {"sql":"SELECT * FROM pets WHERE name = 'Rex'","analyze":true} => Index Scan on pets by name
        postgres bulk_load {"table":"customers","csv_path":"/home/demo/report.csv"} => "rows":2
        postgres describe_table {"table":"customers"} => 5 row(s)
        postgres backup_database {"target":"/dump.json","tables":["pets"]} => 1 table(s)
        postgres restore_backup {"source":"/dump.json","database":"demo","clean":true} => ["pets"]
        postgres list_tables {} => "total":1
        postgres manage_role {"role":"guest","op":"create"} => guest
        postgres kill_session {"pid":4101} => deleted
        "#,
    );
}

#[test]
fn money() {
    check(
        r#"
        payments CreateCustomer {"name":"Nord","email":"a@nord.example"} => "id":"cus-3"
        payments CreateInvoice {"customerId":"cus-3","items":[{"description":"Desk","quantity":2,"unitAmount":1000,"taxRate":21}],"sendNow":true} => "total":2420 & "status":"open"
        payments ListInvoices {"customerId":"cus-3"} => "total":1
        payments SendInvoiceReminder {"invoiceId":"inv-4"} => "tone":"friendly"
        payments ChargeCard {"customerId":"cus-1","amount":500,"currency":"EUR"} => "id":"pay-4" & card ending 4242
        payments RefundPayment {"paymentId":"pay-4","amount":200} => "amount":-200
        payments RefundPayment {"paymentId":"pay-4","amount":400} => error & only 300
        payments GetBalance {"currency":"EUR"} => "available":8068
        payments CreateSubscription {"customerId":"cus-3","planId":"basic"} => "id":"sub-2"
        payments CancelSubscription {"subscriptionId":"sub-2","when":"now"} => "status":"cancelled"
        payments ProgramarTransferencia {"beneficiario":"X","iban":"ES91 2100 0418 4502 0005 1332","importe":5,"fecha":"2026-03-10"} => "id":"tr-1"
        payments ProgramarTransferencia {"beneficiario":"X","iban":"ES9121000418450200051333","importe":5,"fecha":"2026-03-10"} => error & check digits
        payments CalcularImpuestos {"importe":200,"pais":"ES"} => "cuota":42.0 & "total":242.0
        payments CalcularImpuestos {"importe":200,"pais":"DE","nif":"DE1"} => "cuota":0.0
        payments ConvertirMoneda {"cantidad":10,"de":"GBP","a":"JPY"} => 1882.35
        payments ConvertirMoneda {"cantidad":10,"de":"XXX","a":"JPY"} => error & known: EUR
        payments ListarDisputas {} => "total":1 & dis-1
        "#,
    );
}

#[test]
fn customers() {
    check(
        r#"
        crm create_record {"object":"contact","fields":{"name":"Ines D.","email":"i@x.example","company":"Blue Harbour"}} => "id":"rec-8"
        crm search {"query":"blue harbour","objects":["contact"]} => "total":2
        crm search {"query":"","objects":["deal"],"filters":[{"field":"amount","op":"gt","value":10000}]} => "total":1 & rec-6
        crm update_record {"object":"contact","id":"rec-8","fields":{"phone":"1"}} => "phone":"1"
        crm update_record {"object":"deal","id":"rec-8","fields":{}} => error & known: rec-6, rec-7
        crm merge_duplicates {"object":"contact","keep_id":"rec-3","merge_id":"rec-8"} => "id":"rec-3" & +351
        crm añadir_nota {"ficha_id":"rec-3","texto":"Llamar"} => Llamar
        crm move_deal_stage {"deal_id":"rec-6","stage":"won"} => "stage":"won"
        crm list_deals {"stage":"won","min_amount":5000,"closing_before":"2026-04-01"} => "total":1
        crm buscar_clientes {"ciudad":"tokyo","sin_compras_desde":"2026-01-01"} => "total":1 & Kato Books
        crm log_activity {"record_id":"rec-1","type":"call","summary":"Signed"} => act-2
        crm get_account_summary {"company_id":"rec-1"} => Signed & rec-6 & Inês
        crm generar_presupuesto {"cliente_id":"rec-1","lineas":[{"producto":"support hour","unidades":10,"descuento":10}]} => "total":810.0
        crm exportar_contactos {"campos":["name"],"segmento":"key"} => Inês Duarte & !Haru
        crm enroll_in_campaign {"campaign_id":"cam-2","contact_ids":["rec-4"]} => ["rec-4"]
        "#,
    );
}

#[test]
fn the_house() {
    check(
        r#"
        home SetLight {"target":"living room","on":true,"brightness":40} => "brightness":40
        home ListDevices {"kind":"light","room":"living room"} => "total":1 & "on":true
        home SetLight {"target":"kitchen","on":true} => error & known: light-1, light-2
        home エアコン操作 {"部屋":"寝室","電源":true,"温度":26} => "id":"climate-2" & "temperature":26
        home LockDoor {"door":"front door","action":"unlock"} => error & pin
        home LockDoor {"door":"front door","action":"unlock","pin":"2580"} => "locked":false
        home RunScene {"name":"Good Night"} => light-1 & lock-1
        home ListDevices {"kind":"lock"} => !"locked":false
        home StartVacuum {"rooms":["kitchen"]} => "state":"cleaning"
        home GomiReminder {"area":"150-0001","types":["plastic"]} => 2026-03-04 & 2026-03-03T20:00:00Z
        home EnergyReport {"period":"day","by_device":true} => "climate-1"
        home RegarJardin {"zona":"lawn","omitir_si_llueve":false} => watering
        "#,
    );
}

#[test]
fn operations() {
    check(
        r#"
        cloud compute.instances.create {"region":"eu-west-1","name":"web-3","machineType":"small-2","image":"debian-13","tags":{"team":"web"}} => "id":"i-4" & "state":"running"
        cloud compute.instances.list {"tags":{"team":"web"},"state":"running"} => "total":2
        cloud compute.instances.power {"instanceId":"i-4","action":"stop"} => "state":"stopped"
        cloud kubernetes.deployments.scale {"cluster":"staging","deployment":"web","replicas":2} => "id":"staging/default/web" & "replicas":2
        cloud kubernetes.pods.list {"cluster":"staging"} => 2 pod(s)
        cloud kubernetes.pods.list {"cluster":"prod","selector":"app=web"} => 3 pod(s)
        cloud storage.objects.upload {"bucket":"assets","key":"in/a.csv","localPath":"/home/demo/report.csv"} => assets/in/a.csv
        cloud storage.objects.list {"bucket":"assets","prefix":"in/"} => "total":1
        cloud secrets.get {"name":"db-password","version":"1"} => demo-old-value
        cloud billing.costs.get {"start":"2026-02-01","end":"2026-02-11","forecast":true} => 972 USD & "forecast_for_30_days":2916.0
        monitoring incident.create {"title":"Down","severity":"sev1","services":["api"]} => "id":"inc-3" & "status":"investigating"
        monitoring incident.list {} => "total":2
        monitoring incident.update {"incident_id":"inc-3","note":"fixed","status":"resolved"} => ["fixed"] & "is_open":false
        monitoring incident.list {"service":"api","status":"resolved"} => "total":2
        monitoring alert.silence {"match":{"service":"web"},"minutes":30} => ["al-1"]
        monitoring alert.list {} => "total":1 & al-2
        monitoring oncall.who {"team":"backend"} => is on call
        monitoring slo.report {"service":"api"} => "down_minutes":4
        monitoring metric.query {"expr":"cpu","start":"2026-03-02T08:00:00Z","step":"10m"} => 7 made-up points
        "#,
    );
}

#[test]
fn sheets_and_pages() {
    check(
        r#"
        sheets createSpreadsheet {"title":"Trip","tabs":["Costs"]} => "id":"sheet-3"
        sheets appendRow {"spreadsheetId":"sheet-3","sheet":"Costs","values":["Train",90]} => row 1 added to Costs
        sheets updateCells {"spreadsheetId":"Trip","range":"A2:B3","values":[["Hotel",120],["All","=SUM(B1:B2)"]]} => Hotel
        sheets readRange {"spreadsheetId":"sheet-3","range":"Costs!B1:B3"} => [[90],[120],[210]]
        sheets sortRange {"spreadsheetId":"sheet-3","range":"A1:B2","keys":[{"column":"B","order":"desc"}]} => [["Hotel",120],["Train",90]]
        sheets search {"spreadsheetId":"sheet-3","find":"train","replaceWith":"Bus"} => replaced in 1
        sheets exportSheet {"spreadsheetId":"sheet-3","format":"csv"} => Hotel,120\nBus,90\nAll,210
        sheets createPivotTable {"spreadsheetId":"sheet-2","source":"A1:C4","rows":["Region"],"values":[{"field":"Units"}]} => "sum of Units":15
        sheets importCsv {"spreadsheetId":"sheet-3","path":"/finance/sales.csv","sheet":"Sales"} => 4 row(s)
        sheets readRange {"spreadsheetId":"sheet-3","range":"A0:B"} => error & not a range
        browser web_search {"query":"prices lamps","site":"acme.example"} => https://acme.example/prices
        browser browser_navigate {"url":"https://acme.example/prices"} => Prices of desks
        browser browser_extract_table {} => ["Desk","240 EUR"]
        browser browser_click {"selector":"text=Home"} => Acme makes
        browser browser_evaluate {"script":"return document.title;"} => "result":"Acme"
        browser browser_tabs {"op":"new"} => 2 tab(s)
        browser browser_print_pdf {"output":"/p.pdf"} => "type":"pdf"
        media create-playlist {"name":"Sea","tracks":["Lanterns"]} => ["track:1"]
        media play {"uri":"Sea"} => "playing":true & "title":"Sea"
        media shibie-gequ {"audio":"/recordings/hummed.mp3"} => Night Ferry
        media text-to-speech {"text":"Hello"} => "type":"audio"
        "#,
    );
}

#[test]
fn the_map() {
    check(
        r#"
        maps geocode {"address":"Schiffbauerdamm 8, Berlin"} => 52.5223
        maps geocode {"address":"Atlantis"} => error & known: Madrid
        maps reverse_geocode {"lat":38.7,"lng":-9.1} => Lisbon
        maps get_directions {"origin":"Madrid","destination":"Barcelona"} => 656.6 km & east from Madrid
        maps distance_matrix {"origins":["48.8566,2.3522"],"destinations":["London"],"mode":"cycling"} => "distance_m":429
        maps search_places {"query":"vegan restaurant","near":"Madrid"} => La Huerta & !Kanda
        maps find_parking {"location":"Madrid","radius_m":3000,"ev_charging":true} => Atocha
        maps find_timezone {"location":"Madrid","at":"2026-07-01T12:00:00Z"} => 2026-07-01T14:00:00
        maps find_timezone {"location":"New York","at":"2026-03-08T12:00:00Z"} => "utc_offset_minutes":-240
        maps find_timezone {"location":"Sydney"} => "utc_offset_minutes":660
        maps weather_forecast {"location":"Lisbon","days":2} => 2026-03-02 & 2026-03-03 & !2026-03-04
        maps 查询公交路线 {"起点":"人民广场","终点":"虹桥火车站","城市":"上海"} => "fare":5.0
        maps estimate_taxi_fare {"from":"人民广场","to":"虹桥火车站","car_type":"business"} => "fare":60.67
        calendar nongliZhuanhuan {"date":"2025-01-29","direction":"solar_to_lunar"} => 春节 & 蛇 & "jieqi":"大寒"
        calendar nongliZhuanhuan {"date":"2025-01-28","direction":"solar_to_lunar"} => 除夕 & "month":12,"day":29
        calendar nongliZhuanhuan {"date":"2025-L06-01","direction":"lunar_to_solar"} => 2025-07-25 & 大暑
        calendar nongliZhuanhuan {"date":"2026-05-05","direction":"lunar_to_solar"} => 2026-06-19 & 端午节 & 马
        calendar nongliZhuanhuan {"date":"2024-02-04","direction":"solar_to_lunar"} => "jieqi":"立春","jieqi_begins_today":true
        calendar nongliZhuanhuan {"date":"1970-01-01","direction":"solar_to_lunar"} => error & 1990
        "#,
    );
}

#[test]
fn wrong_arguments_are_named() {
    check(
        r#"
        github create_issue {"owner":"acme"} => error & `repo` is missing & `title` is missing
        github create_issue {"owner":"acme","repo":"web","title":7} => error & `title` must be of type string
        github create_issue {"owner":"acme","repo":"web","title":"x","colour":"red"} => error & unknown argument `colour`
        github update_issue {"owner":"acme","repo":"web","issue_number":0,"state":"gone"} => error & at least 1 & must be one of
        mail send {"to":[],"subject":"x","body":"y"} => error & `to`
        mail send {"to":["x"],"subject":"x","body":"y","attachments":[{"filename":"f"}]} => error & `attachments[].path` is missing
        "#,
    );
    let long = "x".repeat(super::world::MAX_TEXT + 1);
    let reply = Demo::new().call("files", "write_file", &json!({"path": "/a", "content": long}));
    assert_eq!(reply["isError"], true);
    let demo = Demo::new();
    let half = "y".repeat(super::world::MAX_TEXT / 2 + 1);
    let write = json!({"path": "/a", "content": half, "mode": "append"});
    assert_eq!(demo.call("files", "write_file", &write)["isError"], Value::Null);
    assert_eq!(demo.call("files", "write_file", &write)["isError"], true);
    let refused = |params: Value| demo.server("github").handle("tools/call", params).map_err(|error| error.code);
    assert_eq!(refused(json!({"name": "nope"})), Err(-32602));
    assert_eq!(refused(json!({"name": "get_issue", "arguments": []})), Err(-32602));
}

/// Returns a value that fits `property`; an existing one for references.
fn placeholder(name: &str, property: &Value, known: Option<Value>, odd: Option<&Value>) -> Value {
    const NAMED: &[(&str, &str)] = &[
        ("owner", "acme"),
        ("date", "2025-01-29"),
        ("id", "rec-3"),
        ("keep_id", "rec-3"),
        ("merge_id", "rec-4"),
        ("csv_path", "/home/demo/report.csv"),
        ("sql", "SELECT * FROM orders"),
        ("iban", "ES9121000418450200051332"),
        ("script", "document.title"),
        ("selector", "Prices"),
        ("country", "ES"),
        ("pais", "ES"),
        ("producto", "web site"),
        ("attachment_id", "a1"),
        ("version", "1"),
        ("role", "app"),
        ("range", "A6:C9"),
        ("source", "A1:C4"),
        ("column", "A"),
        ("rows", "Item"),
        ("columns", "Jan"),
        ("field", "Feb"),
        ("notify_at", "20:00"),
        ("城市", "上海"),
        ("起点", "人民广场"),
        ("终点", "虹桥火车站"),
    ];
    let named = NAMED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    if let Some(known) = known.filter(|_| named.is_none()) {
        return if property["type"] == "array" { json!([known]) } else { known };
    }
    if let Some(first) = property["enum"].get(0) {
        return first.clone();
    }
    if let Some(odd) = odd.filter(|odd| odd.is_string() == (property["type"] == "string")) {
        return odd.clone();
    }
    let is_end = ["end", "to", "timeMax", "windowEnd", "until"].contains(&name);
    let text = match (named, property["format"].as_str()) {
        (Some(text), _) => text,
        (_, Some("date-time" | "date")) if is_end => "2026-03-06",
        (_, Some("date-time" | "date")) => "2026-03-05",
        _ if ["de", "a", "currency"].contains(&name) => "EUR",
        _ => "Madrid",
    };
    match property["type"].as_str() {
        Some("string") => text.into(),
        Some("integer") => property["minimum"].as_i64().unwrap_or(2026).into(),
        Some("number") => property["minimum"].as_f64().unwrap_or(1.5).into(),
        Some("boolean") => true.into(),
        Some("array") => json!([placeholder(name, &property["items"], None, odd)]),
        Some("object") => arguments_for(property, odd.is_some(), &|_| None, odd),
        _ => 1.into(),
    }
}

fn arguments_for(schema: &Value, is_full: bool, known: &dyn Fn(&str) -> Option<Value>, odd: Option<&Value>) -> Value {
    let is_required = |name: &str| schema["required"].as_array().is_some_and(|names| names.contains(&name.into()));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let wanted = properties.filter(|(name, _)| is_full || is_required(name));
    wanted.map(|(name, property)| (name.clone(), placeholder(name, property, known(name), odd))).collect()
}

/// Calls every tool in order, each in the world that the previous ones left.
fn call_everything(is_full: bool, odd: Option<&Value>) -> Vec<(String, Value)> {
    let demo = Demo::new();
    let mut replies = Vec::new();
    for server in &demo.0 {
        for tool in &server.tools {
            let known = |name: &str| {
                let world = server.world.lock().unwrap();
                let collection = world.collection(tool.plan.refs.get(name)?).ok()?;
                let is_own = |object: &&Value| {
                    tool.plan.on != *tool.plan.refs.get(name).unwrap()
                        || super::filter::has_all(object, &tool.plan.with)
                };
                collection.objects().iter().find(is_own).map(|object| object[collection.reference()].clone())
            };
            let arguments = arguments_for(&tool.listed["inputSchema"], is_full, &known, odd);
            replies.push((format!("{}/{}", server.name, tool.name), demo.call(&server.name, &tool.name, &arguments)));
        }
    }
    replies
}

#[test]
fn every_tool_answers_and_always_the_same() {
    let replies = call_everything(false, None);
    assert_eq!(replies.len(), 207);
    assert_eq!(replies, call_everything(false, None));
    for (tool, reply) in &replies {
        let message = &reply["structuredContent"]["message"];
        assert!(reply["isError"] == true || message.as_str().is_some_and(|text| !text.is_empty()), "{tool}: {reply}");
    }
    // These want more than values of the right type: a free name, an older version, a backup.
    let refused = replies.iter().filter(|(_, reply)| reply["isError"] == true).map(|(tool, _)| tool.as_str());
    let expected = [
        "github/create_branch",
        "github/get_file_contents",
        "files/move_file",
        "files/create_folder",
        "files/restore_version",
        "postgres/create_record",
        "postgres/restore_backup",
        "postgres/manage_role",
        "monitoring/metric.query",
    ];
    assert_eq!(refused.collect::<Vec<_>>(), expected);
    assert_eq!(call_everything(true, None), call_everything(true, None));
}

#[test]
fn nothing_panics_on_odd_values() {
    let texts = ["", "é1:ü2", "-", "9999-12-31T23:59:59-23:59", "$0", "''", "{now}", "A10000:Z1", "=A1"];
    let numbers = [json!(i64::MAX), json!(i64::MIN), json!(1e300), json!(-0.5), json!(0), json!(u64::MAX)];
    for odd in texts.into_iter().map(Value::from).chain(numbers) {
        call_everything(true, Some(&odd));
    }
}

#[test]
fn what_is_listed_can_be_read() {
    for server in &Demo::new().0 {
        assert!(server.data.tools.is_empty(), "{} has no {:?}", server.name, server.data.tools.keys());
        let hello = server.handle("server/discover", json!({})).unwrap();
        assert_eq!(hello["supportedVersions"], json!(["2026-07-28"]));
        let lists = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];
        for list in lists.map(|method| server.handle(method, json!({})).unwrap()).iter().chain([&hello]) {
            assert!(list["ttlMs"].is_u64() && list["cacheScope"] == "public" && list["resultType"] == "complete");
        }
        for tool in &server.tools {
            let fields: Vec<&String> = tool.listed.as_object().unwrap().keys().collect();
            let known = ["name", "title", "description", "inputSchema", "annotations", "_meta"];
            assert!(fields.iter().all(|field| known.contains(&field.as_str())), "{fields:?}");
        }
        for resource in &server.resources {
            let read = server.handle("resources/read", json!({"uri": resource["uri"]})).unwrap();
            assert_eq!(read["contents"][0]["mimeType"], resource["mimeType"], "{resource}");
        }
        let unknown = server.handle("resources/read", json!({"uri": "demo://nowhere"})).unwrap_err();
        assert_eq!(unknown.code, -32602);
    }
}

#[test]
fn resources_and_prompts_see_what_tools_did() {
    let demo = Demo::new();
    demo.call("files", "write_file", &json!({"path": "/new.txt", "content": "hello"}));
    let read = demo.server("files").handle("resources/read", json!({"uri": "demo://files/files/new.txt"})).unwrap();
    assert_eq!(read["contents"][0]["text"], "hello");
    demo.call("github", "create_issue", &json!({"owner": "acme", "repo": "web", "title": "Odd colours"}));
    let get = |arguments: Value| {
        demo.server("github").handle("prompts/get", json!({"name": "triage_issue", "arguments": arguments}))
    };
    let prompt = get(json!({"issue_number": "5"})).unwrap();
    assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().starts_with("Triage issue 5"));
    assert!(prompt["messages"][1]["content"]["resource"]["text"].as_str().unwrap().contains("Odd colours"));
    assert_eq!(get(json!({})).unwrap_err().code, -32602);
    assert!(get(json!({"issue_number": "9"})).unwrap_err().message.contains("known: 1"));
}

#[test]
fn the_catalogs_servers_in_its_order() {
    let servers = super::servers().unwrap();
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, super::DATA.map(|(name, _)| name));
    assert!(servers.iter().all(|server| server.description.as_ref().is_some_and(|text| !text.is_empty())));
}
