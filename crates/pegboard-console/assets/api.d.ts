// Generated from openapi.json by testkit/peers/console/types.mjs; do not edit.

/** Why a request was rejected. The control API answers every error like this; the listener itself answers with a JSON-RPC error, which has an object in `error`. */
export type Error = {
  /** The reason, fit to be shown. */
  readonly error: string;
  /** What to do about it. */
  readonly hint?: string;
};

/** A change was made. */
export type Done = {
  /** What was done, in one line. */
  readonly done: string;
};

/** Who asks, and what it may do. Without a credential: only `version`, `access` and `signedIn`. */
export type Console = {
  readonly version: string;
  /** `token`: tokens are configured, and one of them is the credential. `code`: the credential comes from `POST /control/console/login`. */
  readonly access: "token" | "code";
  /** Whether the request carried a valid credential. */
  readonly signedIn: boolean;
  /** The name of the token. */
  readonly name?: string | null;
  /** Whether the token sees only a part of the servers. */
  readonly restricted?: boolean;
  readonly may?: Permissions;
  readonly rankers?: readonly (string)[];
  /** The ranker of the configured dialect. */
  readonly defaultRanker?: string;
  readonly dialects?: readonly (string)[];
  readonly defaultDialect?: string;
  readonly tokens?: readonly (string)[];
  readonly activity?: ActivitySettings;
  readonly prices?: Prices | null;
  /** The URL for MCP clients. */
  readonly endpoint?: string | null;
};

/** What the caller may do. */
export type Permissions = {
  /** Start, stop and restart servers that it sees entirely. */
  readonly change: boolean;
  /** Enable and disable servers, reload the configuration. */
  readonly configure: boolean;
  /** Log in to remote servers. */
  readonly login: boolean;
  readonly logs: boolean;
  readonly callTools: boolean;
  /** Search as another token. */
  readonly searchAs: boolean;
  readonly approve: boolean;
  /** Health and configuration. */
  readonly health: boolean;
  /** Connect clients of this machine. */
  readonly clients: boolean;
  /** Save cases. */
  readonly cases: boolean;
  readonly savings: boolean;
};

/** What is kept of searches and calls. */
export type ActivitySettings = {
  /** The most entries that are kept. */
  readonly entries: number;
  /** For how long they are kept. */
  readonly days: number;
  /** Whether metadata is written to disk. */
  readonly disk: boolean;
  /** Where arguments and results are kept. */
  readonly contents: "none" | "memory" | "disk";
};

/** The single-use code of a printed URL: the fragment `#code=…`. */
export type LoginRequest = {
  readonly code: string;
};

/** Sent as `Authorization: Bearer …` with every request from now on. */
export type Credential = {
  readonly credential: string;
  /** It ends with the gateway, or after this time. */
  readonly expiresInMs: number;
};

/** A URL that opens the console once. */
export type ConsoleUrl = {
  readonly url: string;
  readonly expiresInMs: number;
};

/** Estimated from a histogram; null if there are too few calls. */
export type Latency = {
  readonly p50Us: number | null;
  readonly p99Us: number | null;
};

/** The calls of a server since the gateway started. */
export type CallCounts = {
  readonly running: number;
  readonly waiting: number;
  readonly total: number;
  /** Those that it did not answer. */
  readonly failed: number;
};

/** The circuit breaker of a server. */
export type Breaker = {
  readonly state: "closed" | "open" | "half-open";
  readonly failures: number;
  readonly retryInMs: number | null;
};

/** Connections beside the one that lists come from. */
export type ConnectionCounts = {
  readonly mode: "auto" | "shared" | "own";
  /** Whether the server has asked a client anything. */
  readonly asks: boolean;
  readonly shared: number;
  readonly own: number;
};

/** The credentials of a remote server. */
export type Auth = {
  readonly kind: "none" | "headers" | "oauth";
  /** Whether the server rejects calls until the user logs in. */
  readonly needsLogin: boolean;
  readonly loggedIn: boolean;
};

/** The status of a server. */
export type Server = {
  readonly name: string;
  readonly state: "starting" | "ready" | "lazy" | "idle" | "failed" | "disabled" | "stopped";
  /** Unix time in ms. */
  readonly since: number;
  readonly sinceMs: number;
  readonly reason: string | null;
  readonly retryInMs: number | null;
  readonly pid: number | null;
  readonly era: "legacy" | "modern" | null;
  readonly protocol: string | null;
  readonly tools: number;
  /** Tools that wait for approval. */
  readonly held: number;
  readonly prompts: number;
  readonly resources: number;
  readonly templates: number;
  /** Whether the lists are those of its last run. */
  readonly isFromManifest: boolean;
  readonly calls: CallCounts;
  readonly breaker: Breaker;
  readonly connections: ConnectionCounts;
  readonly lastError: string | null;
  /** Results that report an error of the tool. */
  readonly toolErrors: number;
  readonly latency: Latency;
  readonly transport: "stdio" | "http" | "sse" | "internal";
  /** The command or URL, without secrets. */
  readonly target: string | null;
  readonly description: string;
  /** Memory of its process and descendants, where the system tells. */
  readonly memoryBytes: number | null;
  readonly stderr: readonly (string)[];
  readonly auth: Auth;
  readonly actions: readonly ("start" | "stop" | "restart" | "enable" | "disable" | "login")[];
};

/** Totals since the start; not for restricted tokens. */
export type Totals = {
  readonly hits: number;
  readonly misses: number;
  readonly searchLatency: Latency;
  readonly lists: number;
  /** Estimated tokens of definitions omitted from lists. The answers of searches are not subtracted, unlike in `/control/savings`. */
  readonly tokensSaved: number;
  readonly suspendedCalls: number;
};

/** Sessions of clients of one name. */
export type ClientStatus = {
  readonly client: string;
  readonly profile: string;
  readonly sessions: number;
  readonly idleMs: number;
};

/** A tool that differs from its approval. */
export type Pin = {
  readonly server: string;
  readonly tool: string;
  readonly kind: string;
  readonly isHeld: boolean;
  readonly isVariant?: boolean;
  readonly since: number;
  readonly diff: readonly (string)[];
};

/** Two tools of different servers with similar names. */
export type Lookalike = {
  readonly first: ToolRef;
  readonly second: ToolRef;
  readonly likeness: "same" | "spelling" | "confusable" | "slip";
  readonly isSuspicious: boolean;
};

/** The numbers of all pairs of tools with similar names, also of those that are not listed. */
export type LookalikeCounts = {
  readonly suspicious: number;
  readonly similar: number;
  readonly same: number;
};

/** A tool by its server and its own name. */
export type ToolRef = {
  readonly server: string;
  readonly tool: string;
};

/** The embeddings endpoint. */
export type Embeddings = {
  readonly endpoint: string;
  readonly model: string;
  readonly embedded: number;
  readonly tools: number;
  readonly refused: number;
  readonly fetched: number;
  readonly known: number;
  readonly without: number;
  readonly problem?: string;
};

/** The status of the gateway. */
export type Status = {
  readonly format: number;
  readonly gateway: {
    readonly version: string;
    readonly pid: number;
    readonly since: number;
    readonly uptimeMs: number;
    readonly endpoint: string | null;
  };
  readonly configuration?: {
    readonly file: string | null;
    /** Why the current content of the file is not in use. */
    readonly refused: string | null;
  };
  readonly servers: readonly (Server)[];
  readonly tools: number;
  readonly sessions: {
    readonly count: number;
    readonly clients: readonly (ClientStatus)[];
  };
  readonly totals?: Totals;
  readonly embeddings?: Embeddings;
  readonly pins?: readonly (Pin)[];
  readonly lookalikes?: readonly (Lookalike)[];
  readonly lookalikeCounts?: LookalikeCounts;
  /** The routes of the LLM API proxy on the gateway's listener, by name. Only without a selection. */
  readonly llmProxy?: Readonly<Record<string, ProxyRoute>>;
  /** Memory of the gateway's own process. */
  readonly memoryBytes?: number | null;
};

/** A tool as `tools/list` of MCP has it. It comes from a server: text, never markup. */
export type ToolDefinition = {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema?: Readonly<Record<string, unknown>>;
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  readonly annotations?: Annotations;
  readonly icons?: readonly (unknown)[];
};

/** What a server says of its tool. */
export type Annotations = {
  readonly title?: string;
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
};

/** What the configuration changes of the tool. */
export type Override = {
  readonly keys: readonly (string)[];
};

/** A tool. */
export type Tool = {
  /** The name for models. */
  readonly name: string;
  /** Its name at the server. */
  readonly tool: string;
  readonly definition: ToolDefinition;
  /** Estimated tokens of its definition. */
  readonly tokens: number;
  readonly renamed?: string;
  readonly deferred?: boolean;
  readonly promptInstructions?: string;
  /** Whether the user approved it: `changed` and `new` differ from the approval, `off` is not watched. Tools that cannot be called until they are approved are in `held` of their server. */
  readonly pin: "approved" | "changed" | "new" | "off";
  readonly override?: Override;
  /** Calls among the kept activity; for a restricted token, its own. */
  readonly calls: number;
};

/** The numbers of one route of the LLM API proxy. */
export type ProxyRoute = {
  /** Requests that ask for an answer of a model or its tokens. */
  readonly requests: number;
  /** Tools in requests. */
  readonly toolsIn: number;
  /** Tools that were sent to the provider, for every request to it. */
  readonly toolsSent: number;
  /** Tokens (estimated) of definitions that were not sent. */
  readonly tokensSaved: number;
  /** Rounds with the provider that clients do not see. */
  readonly hiddenRounds: number;
  /** Answers that ended with an error in such a round. */
  readonly failedRounds: number;
  /** Requests whose hidden rounds were not known any more. */
  readonly misses: number;
  /** Requests that were sent to the provider again in another form, because it had refused them. */
  readonly retries: number;
  /** The time that the proxy has added to all requests. */
  readonly addedMs: number;
  /** Tokens that the provider has read from its cache. */
  readonly cacheReadTokens: number;
  /** Requests that were passed through, by reason. */
  readonly bypassed: Readonly<Record<string, number>>;
};

/** The LLM API proxies that run without a gateway. */
export type LlmProxies = {
  readonly proxies: readonly (LlmProxy)[];
};

/** An LLM API proxy that runs without a gateway. */
export type LlmProxy = {
  /** Its process. */
  readonly pid: number;
  /** The address for programs. */
  readonly endpoint: string;
  /** Its routes, by name. */
  readonly routes: Readonly<Record<string, ProxyRoute>>;
};

/** The tools of a server. */
export type ServerTools = {
  readonly name: string;
  readonly description: string;
  readonly summary?: string;
  readonly tools: readonly (Tool)[];
  readonly held: readonly (Pin)[];
};

/** All tools that the caller may see, by server. */
export type ToolList = {
  readonly format: number;
  readonly servers: readonly (ServerTools)[];
};

/** A search, as a client would make it. */
export type SearchRequest = {
  /** At most 16 KiB. */
  readonly query: string;
  /** A ranker other than the dialect's. */
  readonly ranker?: string | null;
  /** A dialect other than the configured one. */
  readonly dialect?: string | null;
  readonly limit?: number;
  /** Search as this token. Only for callers without a selection. */
  readonly token?: string | null;
  /** The name of a tool whose rank is explained. */
  readonly whyNot?: string | null;
  /** Whether hits have `why`. */
  readonly explain?: boolean;
};

/** One part of a score. */
export type Reason = {
  /** Where it was found; `meaning`, `action` and `usage` (learned habits) are not words of a field. */
  readonly field: "name" | "title" | "alias" | "description" | "parameter" | "parameter_description" | "parameter_value" | "search_hint" | "prompt_instructions" | "server" | "server_description" | "category" | "text" | "meaning" | "usage" | "action";
  readonly term: string;
  /** Its part of the score. */
  readonly weight: number;
};

/** A tool that answers the query. */
export type Hit = {
  readonly rank: number;
  /** The name for models. */
  readonly name: string;
  readonly id: string;
  readonly server: string | null;
  readonly description: string;
  readonly score: number;
  readonly why: readonly (Reason)[];
  /** Whether the text for the model names it. */
  readonly isInReply: boolean;
};

/** Where a tool ranked and what it lacks. */
export type WhyNot = {
  readonly name: string;
  /** Missing if the caller sees no tool of this name. */
  readonly id: string | null;
  readonly rank: number | null;
  readonly score: number | null;
  readonly bestScore: number | null;
  readonly matched: readonly (Reason)[];
  readonly missing: readonly (string)[];
  /** In words. */
  readonly reason: string;
};

/** What the model gets. */
export type ModelReply = {
  /** The meta-tool that was called. */
  readonly tool: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** The exact text. */
  readonly text: string;
  readonly tokens: number;
  readonly isError: boolean;
  readonly loads: readonly (string)[];
  /** Tokens of the list of tools that the model sees before the search. */
  readonly listTokens: number;
};

/** The hits, and what a model would get. */
export type SearchResult = {
  readonly query: string;
  readonly ranker: string;
  readonly dialect: string;
  /** How many tools match. */
  readonly total: number;
  /** How many were searched. */
  readonly tools: number;
  readonly hits: readonly (Hit)[];
  readonly withheld: readonly (Hit)[];
  /** The estimated probability that the first hit is right, 0 to 1. */
  readonly confidence: number | null;
  readonly unmatched: readonly (string)[];
  readonly fallback: "fuzzy" | "words" | "typo" | null;
  /** The query in English, if that was searched for. */
  readonly translated: string | null;
  /** The time of the ranking. */
  readonly tookUs: number;
  readonly reply: ModelReply;
  readonly whyNot: WhyNot | null;
  /** The token that was searched as. */
  readonly token: string | null;
};

/** A call of a tool. To cancel it, close the connection. */
export type CallRequest = {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
};

/** What the tool answered. */
export type CallResult = {
  readonly name: string;
  readonly server: string | null;
  /** Whether the tool or the gateway reports an error. */
  readonly isError: boolean;
  /** `error`: the tool reports an error; `failed`: the server did not answer; `rejected`: the gateway did not make the call. */
  readonly outcome: "ok" | "error" | "failed" | "rejected";
  /** Any JSON value. */
  readonly result: unknown;
  readonly durationUs: number;
  readonly bytes: number;
  /** Its entry in the activity. */
  readonly seq: number | null;
};

/** The action was begun. */
export type ServerAction = {
  readonly server: string;
  readonly action: string;
  /** `login`: where the user has to log in. It is to be opened by the user. */
  readonly url?: string | null;
};

/** A search, a call or a list. Metadata only. */
export type ActivityEntry = {
  /** Grows with every entry, also over restarts. */
  readonly seq: number;
  /** Unix time in ms. */
  readonly at: number;
  readonly kind: "search" | "call" | "list";
  readonly source: "client" | "console";
  /** What the client calls itself; empty if unknown. */
  readonly client: string;
  /** The handle of its session. */
  readonly session: string | null;
  /** The name of its token. */
  readonly token: string | null;
  readonly server: string | null;
  /** The called tool, by its name for models. */
  readonly tool: string | null;
  readonly query: string | null;
  readonly dialect: string | null;
  readonly hits: readonly (string)[];
  /** How many tools a search found, or a list has. */
  readonly matches: number | null;
  /** The entry of the search that the call came from. */
  readonly search: number | null;
  /** Which hit of that search was called, from 1. */
  readonly rank: number | null;
  readonly durationUs: number;
  readonly outcome: "ok" | "error" | "failed" | "rejected";
  readonly error: string | null;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Estimated tokens that the model reads. */
  readonly tokens: number;
  /** Whether arguments and result can be read. */
  readonly hasContents: boolean;
};

/** A part of the activity, newest first. */
export type ActivityPage = {
  readonly entries: readonly (ActivityEntry)[];
  /** `before` of the next part; null at the end. */
  readonly next: number | null;
  /** Entries that the caller can see, before the filter. */
  readonly total: number;
  /** The number of the newest entry; 0 without any. */
  readonly newest: number;
};

/** One entry with its contents. */
export type ActivityDetail = {
  readonly entry: ActivityEntry;
  /** As JSON, without secrets, at most 16 KiB. */
  readonly arguments: string | null;
  /** As JSON or text, without secrets, at most 16 KiB. */
  readonly result: string | null;
  readonly isCut: boolean;
  readonly calls: readonly (number)[];
};

/** A tool that a session sees. */
export type LoadedTool = {
  readonly name: string;
  readonly server: string | null;
  readonly tokens: number;
  /** Whether it is never evicted for others. */
  readonly isKept: boolean;
  /** Whether it is visible from the start. */
  readonly isFixed: boolean;
};

/** A conversation. */
export type Session = {
  /** A name of the session that gives no access to it. */
  readonly handle: string;
  readonly client: string;
  readonly era: "legacy" | "modern";
  readonly transport: "http" | "stdio";
  readonly profile: string;
  readonly dialect: string;
  readonly token: string | null;
  /** Unix time in ms. */
  readonly since: number;
  readonly idleMs: number;
  readonly loaded: readonly (LoadedTool)[];
  /** Tools that it may see. */
  readonly tools: number;
  /** Tokens of the list that it gets. */
  readonly tokensShown: number;
  /** Tokens of a list of all tools. */
  readonly tokensOfAll: number;
  readonly searches: number;
  readonly calls: number;
  readonly canUnload: boolean;
  readonly canKeep: boolean;
};

/** The sessions, the most recently used first. Clients of 2026-07-28 have none over HTTP. */
export type SessionList = {
  readonly sessions: readonly (Session)[];
  readonly total: number;
};

/** Names of loaded tools. */
export type SessionTools = {
  readonly tools: readonly (string)[];
  /** `keep`: false lets them be evicted again. */
  readonly keep?: boolean;
};

/** From `pegboard.console.prices`. */
export type Prices = {
  readonly currency: string;
  /** For the clients that are not named. */
  readonly perMillionTokens: number;
  readonly clients: readonly ({
    readonly client: string;
    readonly perMillionTokens: number;
  })[];
};

/** Sums of one day, client or server. */
export type SavingsPart = {
  /** A date as 2026-08-23 (UTC), a client or a server. */
  readonly key: string;
  readonly lists: number;
  readonly searches: number;
  readonly calls: number;
  /** Sum of the tokens of all tools, for each list. */
  readonly tokensOfAll: number;
  /** Sum of the tokens of the lists that were sent. */
  readonly tokensShown: number;
  /** Sum of the tokens of search answers. */
  readonly tokensOfReplies: number;
  /** tokensOfAll − tokensShown − tokensOfReplies. */
  readonly saved: number;
  readonly money: number | null;
};

/** One day. */
export type SavingsDay = {
  readonly date: string;
  readonly lists: number;
  readonly searches: number;
  readonly calls: number;
  readonly tokensOfAll: number;
  readonly tokensShown: number;
  readonly tokensOfReplies: number;
  readonly saved: number;
  readonly money: number | null;
  readonly clients: readonly (SavingsPart)[];
  readonly servers: readonly (SavingsPart)[];
};

/** Estimated tokens that no model had to read. */
export type Savings = {
  /** The first day. */
  readonly since: string | null;
  readonly days: readonly (SavingsDay)[];
  readonly clients: readonly (SavingsPart)[];
  readonly servers: readonly (SavingsPart)[];
  readonly total: SavingsPart;
  readonly prices: Prices | null;
  /** In words. */
  readonly formula: string;
};

/** A tool that waits for approval. */
export type Approval = {
  /** Names this form of the tool: a later change has another id. */
  readonly id: string;
  readonly server: string;
  readonly tool: string;
  readonly kind: "new" | "changed" | "removed";
  /** Whether it cannot be used until it is approved. */
  readonly isHeld: boolean;
  /** Whether it is another definition of an approved tool, which a client gets on a connection of its own. */
  readonly isVariant: boolean;
  readonly since: number;
  readonly old: ToolDefinition | null;
  readonly new: ToolDefinition | null;
  readonly diff: readonly (string)[];
};

/** Tools that wait for approval. */
export type Approvals = {
  readonly approvals: readonly (Approval)[];
  /** Whether approvals are kept at all. */
  readonly enabled: boolean;
  /** Whether servers hold tools until they are approved. */
  readonly isHolding: boolean;
  readonly rejected: readonly (ToolRef)[];
};

/** The chosen tools. An id that is no longer current is rejected with 409. */
export type ApprovalChoice = {
  readonly ids: readonly (string)[];
};

/** The result. */
export type ApprovalResult = {
  readonly changed: readonly (ToolRef)[];
  /** `reject`: the file that hides the tools now. */
  readonly configuration?: string | null;
};

/** A finding of `pegboard doctor`. */
export type Finding = {
  /** Its code; docs/doctor.md explains each. */
  readonly check: string;
  readonly severity: "error" | "warning" | "note";
  readonly server: string | null;
  readonly message: string;
  readonly details: readonly (string)[];
  /** How to fix it. */
  readonly hint: string;
  readonly fix: Fix | null;
};

/** What the console can do about it. */
export type Fix = {
  /** The action of a server, or a page. */
  readonly action: "restart" | "enable" | "login" | "approve" | "reload";
  readonly server: string | null;
  readonly label: string;
};

/** The findings. */
export type Health = {
  readonly findings: readonly (Finding)[];
  readonly servers: readonly ({
    readonly name: string;
    readonly state: string;
  })[];
  /** Unix time in ms. */
  readonly checkedAt: number;
  readonly tookMs: number;
};

/** A value of the configuration. */
export type Setting = {
  /** Such as `mcpServers.github.env.TOKEN`. */
  readonly path: string;
  /** As it is in effect. A secret is the text `••••••`. */
  readonly value: unknown;
  readonly isSecret: boolean;
  /** Whether the file does not set it. */
  readonly isDefault: boolean;
  readonly line: number | null;
};

/** The configuration as it was read. */
export type Configuration = {
  readonly file: string | null;
  /** The file, with secrets replaced. Null if it cannot be parsed, because its secrets are not known then. */
  readonly text: string | null;
  readonly settings: readonly (Setting)[];
  readonly problems: readonly ({
    readonly message: string;
    readonly line: number | null;
    readonly hint: string | null;
    readonly severity: "error" | "warning";
  })[];
  readonly refused: string | null;
};

/** An MCP client of this machine. */
export type McpClient = {
  readonly id: string;
  readonly title: string;
  /** Its configuration file. */
  readonly path: string;
  /** Whether it seems to be installed. */
  readonly found: boolean;
  readonly connected: {
    readonly name: string;
    readonly transport: "stdio" | "http";
  } | null;
  /** Its other servers. */
  readonly servers: number;
  readonly problem: string | null;
  /** Whether a backup of the console's last change exists. */
  readonly canUndo: boolean;
  readonly transports: readonly ("stdio" | "http")[];
};

/** The clients. */
export type McpClients = {
  readonly clients: readonly (McpClient)[];
};

/** A change of a client's file. */
export type ClientChange = {
  readonly client: string;
  readonly action: "preview" | "write" | "undo";
  readonly transport?: "stdio" | "http";
  /** Whether servers that the gateway has too are removed from the file. */
  readonly replace?: boolean;
  /** `write`: the `version` of the preview. If the file has changed since, the answer is 409. */
  readonly expects?: string | null;
};

/** The change. */
export type ClientPreview = {
  readonly client: string;
  readonly path: string;
  /** The text of the file, with secrets replaced; null if it does not exist. */
  readonly old: string | null;
  readonly new: string;
  /** Any JSON value. */
  readonly entry: unknown;
  /** Names this state of the file. */
  readonly version: string;
  readonly isWritten: boolean;
  readonly backup: string | null;
  readonly notes: readonly (string)[];
};

/** A labelled query. */
export type Case = {
  readonly id: string;
  readonly query: string;
  readonly expected: readonly (string)[];
  readonly note: string;
  readonly at: number;
};

/** A case to save. With an `id`, it replaces that case. */
export type CaseRequest = {
  readonly id?: string | null;
  readonly query: string;
  readonly expected: readonly (string)[];
  readonly note?: string;
};

/** A ranker on the cases. */
export type CaseScore = {
  readonly ranker: string;
  /** The share of the expected tools of a case that are among the first hits, on average over the cases. */
  readonly recallAt1: number | null;
  readonly recallAt5: number | null;
  readonly recallAt10: number | null;
  readonly mrr: number | null;
  /** The time of all searches. */
  readonly tookUs: number;
};

/** Where a case's tools ranked, by ranker. */
export type CaseResult = {
  readonly id: string;
  readonly ranks: readonly ({
    readonly ranker: string;
    /** The best rank of an expected tool; null if none is among the first 100. */
    readonly rank: number | null;
  })[];
  readonly missing: readonly (string)[];
};

/** The saved cases and how the rankers do on them. */
export type Cases = {
  readonly cases: readonly (Case)[];
  readonly scores: readonly (CaseScore)[];
  readonly results: readonly (CaseResult)[];
  /** Whether there is a state folder to keep them in. */
  readonly isSaved: boolean;
};

/** The `data` of an event, by its name. Events are hints to show or ask anew; those of one listener that reads too slowly are dropped and replaced by one `lagged`. */
export type Event = EventHello | EventActivity | EventServer | EventSession | EventApprovals | EventConfiguration | EventLagged;

/** `hello`: the first event of a stream. */
export type EventHello = {
  readonly kind: "hello";
  /** The newest activity entry. */
  readonly newest: number;
  readonly version: string;
  /** Unix time in ms of the gateway's start; another one means that it was restarted. */
  readonly started: number;
};

/** `activity`: a new entry. */
export type EventActivity = {
  readonly kind: "activity";
  readonly entry: ActivityEntry;
};

/** `server`: a server has changed its state or its lists. */
export type EventServer = {
  readonly kind: "server";
  readonly server: string;
  readonly state: string;
  /** Whether it was removed. */
  readonly isGone: boolean;
};

/** `session`: a session has begun, ended or changed its tools. */
export type EventSession = {
  readonly kind: "session";
  readonly handle: string;
  readonly change: "begun" | "ended" | "tools";
};

/** `approvals`: other tools wait for approval. */
export type EventApprovals = {
  readonly kind: "approvals";
  readonly waiting: number;
  readonly held: number;
};

/** `configuration`: it was reloaded or rejected. */
export type EventConfiguration = {
  readonly kind: "configuration";
  readonly refused: string | null;
};

/** `lagged`: events were dropped; ask anew for what is shown. */
export type EventLagged = {
  readonly kind: "lagged";
  readonly missed: number;
};

/** What a reload changed. */
export type ReloadResult = {
  readonly added: readonly (string)[];
  readonly changed: readonly (string)[];
  readonly removed: readonly (string)[];
  readonly hasSettings: boolean;
};

/** The requests of the control API. */
export interface Operations {
  "GET /control/console": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: Console;
  };
  "POST /control/console/login": {
    path: undefined;
    query: undefined;
    body: LoginRequest;
    result: Credential;
  };
  "POST /control/console/logout": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: Done;
  };
  "POST /control/console/url": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: ConsoleUrl;
  };
  "GET /control/status": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: Status;
  };
  "GET /control/tools": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: ToolList;
  };
  "POST /control/search": {
    path: undefined;
    query: undefined;
    body: SearchRequest;
    result: SearchResult;
  };
  "POST /control/call": {
    path: undefined;
    query: undefined;
    body: CallRequest;
    result: CallResult;
  };
  "POST /control/servers/{name}/start": {
    path: {
      readonly name: string;
    };
    query: undefined;
    body: undefined;
    result: ServerAction;
  };
  "POST /control/servers/{name}/stop": {
    path: {
      readonly name: string;
    };
    query: undefined;
    body: undefined;
    result: ServerAction;
  };
  "POST /control/servers/{name}/restart": {
    path: {
      readonly name: string;
    };
    query: undefined;
    body: undefined;
    result: ServerAction;
  };
  "POST /control/servers/{name}/enable": {
    path: {
      readonly name: string;
    };
    query: undefined;
    body: undefined;
    result: ServerAction;
  };
  "POST /control/servers/{name}/disable": {
    path: {
      readonly name: string;
    };
    query: undefined;
    body: undefined;
    result: ServerAction;
  };
  "POST /control/servers/{name}/login": {
    path: {
      readonly name: string;
    };
    query: undefined;
    body: undefined;
    result: ServerAction;
  };
  "POST /control/reload": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: ReloadResult;
  };
  "GET /control/logs": {
    path: undefined;
    query: {
      readonly lines?: number;
      readonly server?: string;
      readonly follow?: boolean;
    };
    body: undefined;
    result: unknown;
  };
  "GET /control/activity": {
    path: undefined;
    query: {
      readonly before?: number;
      readonly limit?: number;
      readonly kind?: "search" | "call" | "list";
      readonly server?: string;
      readonly session?: string;
      readonly client?: string;
      readonly outcome?: "ok" | "error" | "failed" | "rejected";
      readonly q?: string;
    };
    body: undefined;
    result: ActivityPage;
  };
  "GET /control/activity/{seq}": {
    path: {
      readonly seq: number;
    };
    query: undefined;
    body: undefined;
    result: ActivityDetail;
  };
  "GET /control/activity/export": {
    path: undefined;
    query: {
      readonly format?: "jsonl" | "eval";
      readonly kind?: "search" | "call" | "list";
      readonly server?: string;
      readonly session?: string;
      readonly client?: string;
      readonly outcome?: "ok" | "error" | "failed" | "rejected";
      readonly q?: string;
    };
    body: undefined;
    result: unknown;
  };
  "GET /control/sessions": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: SessionList;
  };
  "POST /control/sessions/{handle}/unload": {
    path: {
      readonly handle: string;
    };
    query: undefined;
    body: SessionTools;
    result: Session;
  };
  "POST /control/sessions/{handle}/keep": {
    path: {
      readonly handle: string;
    };
    query: undefined;
    body: SessionTools;
    result: Session;
  };
  "GET /control/savings": {
    path: undefined;
    query: {
      readonly days?: number;
    };
    body: undefined;
    result: Savings;
  };
  "GET /control/approvals": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: Approvals;
  };
  "POST /control/approvals/approve": {
    path: undefined;
    query: undefined;
    body: ApprovalChoice;
    result: ApprovalResult;
  };
  "POST /control/approvals/reject": {
    path: undefined;
    query: undefined;
    body: ApprovalChoice;
    result: ApprovalResult;
  };
  "GET /control/health": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: Health;
  };
  "GET /control/configuration": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: Configuration;
  };
  "GET /control/llm-proxies": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: LlmProxies;
  };
  "GET /control/clients": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: McpClients;
  };
  "POST /control/clients": {
    path: undefined;
    query: undefined;
    body: ClientChange;
    result: ClientPreview;
  };
  "GET /control/cases": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: Cases;
  };
  "POST /control/cases": {
    path: undefined;
    query: undefined;
    body: CaseRequest;
    result: Case;
  };
  "DELETE /control/cases/{id}": {
    path: {
      readonly id: string;
    };
    query: undefined;
    body: undefined;
    result: Done;
  };
  "GET /control/events": {
    path: undefined;
    query: undefined;
    body: undefined;
    result: unknown;
  };
}
