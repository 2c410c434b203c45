// A small MCP client over Streamable HTTP with a session, to cause searches and calls.

export class Client {
  static async connect(endpoint, { name = "console-check", token } = {}) {
    const client = new Client(endpoint, token);
    await client.request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name, version: "1" } });
    await client.post({ jsonrpc: "2.0", method: "notifications/initialized" });
    return client;
  }

  constructor(endpoint, token) {
    Object.assign(this, { endpoint, token, session: null, lastId: 0 });
  }

  listTools() {
    return this.request("tools/list", {});
  }

  call(name, args = {}) {
    return this.request("tools/call", { name, arguments: args });
  }

  async request(method, params) {
    const id = (this.lastId += 1);
    const text = await this.post({ jsonrpc: "2.0", id, method, params });
    const messages = text.startsWith("{") ? [text] : text.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).filter((line) => line.trim() !== "");
    const answer = messages.map((message) => JSON.parse(message)).find((message) => message.id === id);
    if (!answer) throw new Error(`no answer to ${method}: ${text.slice(0, 500)}`);
    if (answer.error) throw new Error(`${method}: ${answer.error.message}`);
    return answer.result;
  }

  async post(message) {
    const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
    if (this.session) Object.assign(headers, { "Mcp-Session-Id": this.session, "MCP-Protocol-Version": "2025-06-18" });
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    const response = await fetch(this.endpoint, { method: "POST", headers, body: JSON.stringify(message) });
    this.session ??= response.headers.get("mcp-session-id");
    const text = await response.text();
    if (!response.ok) throw new Error(`HTTP status ${response.status}: ${text.slice(0, 500)}`);
    return text;
  }
}
