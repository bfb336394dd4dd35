// The short way of inference POSTs (relay-front.ts) answers as their route does. `inject` always takes the route; a socket
// takes the short way once a request of the same path was answered.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chat, type Edge, startEdge, text } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";

const bodies = { "/v1/completions": text, "/v1/compat/chat/completions": chat, "/v1/chat/completions": chat };
type Path = keyof typeof bodies;
const paths = Object.keys(bodies) as Path[];

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
  for (const path of paths) expect((await edge.post(path, bodies[path]())).status).toBe(200);
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
    short: lasting({
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
  it.each(wrong)("refuses %s in the same words either way", async (_, change) => {
    const { route, short } = await both(path, JSON.stringify(bodies[path](change)));
    expect(short).toEqual(route);
    expect(short.status).toBeGreaterThanOrEqual(400);
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
    ["a body of another type", "a=b", { "content-type": "application/x-www-form-urlencoded" }],
  ])("refuses %s in the same words either way", async (_, body, headers) => {
    const { route, short } = await both(path, body, headers);
    expect(short).toEqual(route);
    expect(short.status).toBeGreaterThanOrEqual(400);
  });

  it.each([false, true])("answers the same either way (stream: %s)", async (stream) => {
    const { route, short } = await both(path, JSON.stringify(bodies[path]({ stream })), { "x-request-id": "mine" });
    expect(short).toEqual(route);
    expect(short.status).toBe(200);
  });

  it("writes one log line and one series of metrics for both ways", async () => {
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
