// Inference POSTs are entered by the server, which knows their URLs, and by Fastify's router (`inject`, a query, a trailing slash): the
// same code serves both.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AddressLimits } from "../../control-plane/http/connections/address-limits.ts";
import { chat, type Edge, startEdge, text } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";

const bodies = { "/v1/completions": text, "/v1/compat/chat/completions": chat, "/v1/chat/completions": chat };
type Path = keyof typeof bodies;
const paths = Object.keys(bodies) as Path[];

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge.close());

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

/** Without what is different in every answer. */
const lasting = ({ status, headers, body }: Answer) => {
  const { date, "keep-alive": _, connection: __, ...rest } = headers;
  const ids = {
    "x-request-id": 1,
    "x-stoker-request-id": 1,
    "openai-processing-ms": 1,
    "x-ratelimit-remaining-tokens": 1,
    "x-ratelimit-reset-tokens": 1,
  };
  const told = Object.fromEntries(
    Object.entries(rest).map(([name, value]) => [name, name in ids ? typeof value : String(value)]),
  );
  return { status, headers: told, body: body.replace(/\b[A-Za-z0-9]{24}\b/g, "ID") };
};

async function both(path: string, body: string, more: Record<string, string> = {}) {
  const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json", ...more };
  const {
    statusCode,
    headers: told,
    body: said,
  } = await edge.app.inject({ method: "POST", url: path, headers, payload: body });
  const answer = await fetch(edge.url + path, { method: "POST", headers, body });
  return {
    route: lasting({ status: statusCode, headers: told, body: said }),
    direct: lasting({
      status: answer.status,
      headers: Object.fromEntries(answer.headers),
      body: await answer.text(),
    }),
  };
}

const wrong: readonly (readonly [what: string, change: Record<string, unknown>])[] = [
  ["an unknown model", { model: "org/none" }],
  ["a model that is no text", { model: 7 }],
  ["too many tokens", { max_tokens: 1_000_001 }],
  ["a text for a number", { temperature: "1" }],
  ["a list with a wrong item", { stop_token_ids: [1, "2"] }],
  ["stream options of a wrong type", { stream_options: { include_usage: "no" } }],
];

describe.each(paths)("POST %s", (path) => {
  it.each(wrong)("refuses %s in the same words by either entry", async (_, change) => {
    const { route, direct } = await both(path, JSON.stringify(bodies[path](change)));
    expect(direct).toEqual(route);
    expect(direct.status).toBeGreaterThanOrEqual(400);
  });

  it.each([
    ["a body that is no JSON", "{", {}],
    ["a list for a body", "[]", {}],
    ["null for a body", "null", {}],
    ["an unknown key", JSON.stringify(bodies[path]()), { authorization: "Bearer nobody" }],
    ["two different keys", JSON.stringify(bodies[path]()), { "x-api-key": "other" }],
    [
      "a seed beyond 2^64",
      JSON.stringify(bodies[path]({ seed: 1 })).replace('"seed":1', '"seed":18446744073709551616'),
      {},
    ],
    ["a compressed body", JSON.stringify(bodies[path]()), { "content-encoding": "gzip" }],
    ["a bad Idempotency-Key", JSON.stringify(bodies[path]()), { "idempotency-key": "x".repeat(256) }],
    ["a body above the limit", "x".repeat(50 * 1024 * 1024 + 1), {}],
    ["an empty body", "", {}],
    ["a body of another type", "a=b", { "content-type": "application/x-www-form-urlencoded" }],
  ])("refuses %s in the same words by either entry", async (_, body, headers) => {
    const { route, direct } = await both(path, body, headers);
    expect(direct).toEqual(route);
    expect(direct.status).toBeGreaterThanOrEqual(400);
  });

  it.each([false, true])("gives the same reply by either entry (stream: %s)", async (stream) => {
    const { route, direct } = await both(path, JSON.stringify(bodies[path]({ stream })), { "x-request-id": "mine" });
    expect(direct).toEqual(route);
    expect(direct.status).toBe(200);
  });

  it("writes one log line and one series of metrics for both entries", async () => {
    const requests = async () => {
      const found = /http_request_duration_seconds_count\{([^}]*)\} (\d+)/g;
      const page = await edge.registry.metrics();
      return [...page.matchAll(found)]
        .filter(([, labels = ""]) => labels.includes('status="200"') && labels.includes("completions"))
        .reduce((sum, [, , count]) => sum + Number(count), 0);
    };
    const before = await requests();
    await both(path, JSON.stringify(bodies[path]()));
    await expect.poll(requests).toBe(before + 2);
  });
});

it.each(["?a=b", "/"])("serves a URL that ends in %s", async (end) => {
  expect((await edge.post(`/v1/completions${end}`, text())).status).toBe(200);
});

describe("behind a trusted proxy", () => {
  // Loopback is exempt. Ten requests at once, as the burst lasts ten seconds.
  const addresses = new AddressLimits({ requestsPerSecond: 1, connections: 256 }, () => false);
  let proxied: Edge;
  beforeAll(async () => {
    proxied = await startEdge({ change: (deps) => ({ ...deps, trustedProxies: ["127.0.0.1"], addresses }) });
  });
  afterAll(() => proxied.close());

  it.each(["", "?a=b"])(
    "sends HSTS to a client that reached the proxy over TLS, at a URL that ends in '%s'",
    async (end) => {
      const secureness = async (protocol: string) => {
        const init = { headers: { "x-forwarded-for": "203.0.113.9", "x-forwarded-proto": protocol } };
        return (await proxied.post(`/v1/completions${end}`, text(), init)).headers.has("strict-transport-security");
      };
      expect([await secureness("http"), await secureness("https")]).toEqual([false, true]);
    },
  );

  it("counts a wrong key by the client's address, not by the proxy's", async () => {
    const statusFrom = async (address: string) => {
      const headers = { authorization: "Bearer wrong", "x-forwarded-for": address };
      return (await proxied.post("/v1/completions", text(), { headers })).status;
    };
    await expect.poll(() => statusFrom("203.0.113.9"), { timeout: 20_000, interval: 1 }).toBe(429);
    expect(await statusFrom("203.0.113.10")).toBe(401);
  });
});

it("ends a request whose client leaves in the middle of its body, and goes on", async () => {
  const { connect } = await import("node:net");
  const { hostname, port } = new URL(edge.url);
  const socket = connect(Number(port), hostname);
  socket.write(
    `POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${apiKey}\r\ncontent-length: 500\r\n\r\n{"model"`,
  );
  await expect.poll(async () => (await edge.registry.metrics()).includes("http_requests_in_flight")).toBe(true);
  socket.destroy();
  expect((await edge.post("/v1/completions", text())).status).toBe(200);
});
