// What no route answers: bytes that are no text, methods that a path does not take, connections that send no request, bodies
// that break off. Over a socket, as clients send them.
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ByteBudget } from "../../control-plane/inference/byte-budget.ts";
import { Deadlines } from "../../proto/deadlines.ts";
import { frame } from "../fakes/agent-data-plane.ts";
import { chat, type Edge, startEdge, text } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";

const patience = { timeout: 20_000 };
const bodies = new ByteBudget(64 * 1024 * 1024);
/** Of the bodies that are waited for. */
let nowMs = 0;
const waits = new Deadlines(() => nowMs, 10);
let edge: Edge;
beforeAll(async () => {
  edge = await startEdge({ change: (deps) => ({ ...deps, bodies, bodyWaits: waits }) });
});
afterAll(async () => {
  await edge.close();
  waits.close();
});

const withKey = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
const send = async (method: string, path: string, body?: Buffer | string, headers: object = withKey) => {
  const answer = await fetch(edge.url + path, {
    method,
    headers: { ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : new Uint8Array(body) }),
  });
  const said = await answer.text();
  return { status: answer.status, headers: answer.headers, body: said === "" ? undefined : JSON.parse(said) };
};

describe("a body that is not UTF-8", () => {
  /** Bytes in the middle of a text of the body. */
  const broken: readonly (readonly [string, number[]])[] = [
    ["a character that is cut off", [0xe2, 0x82]],
    ["Latin-1", [0xe9]],
    ["half of a surrogate pair", [0xed, 0xa0, 0x80]],
    ["an overlong form", [0xc0, 0xaf]],
    ["a code point beyond Unicode", [0xf5, 0x80, 0x80, 0x80]],
  ];
  const bodyOf = (fields: object, bytes: readonly number[]) => {
    const [before = "", after = ""] = JSON.stringify(fields).split("HERE");
    return Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)]);
  };
  const paths: readonly (readonly [string, object])[] = [
    ["/v1/chat/completions", chat({ messages: [{ role: "user", content: "HERE" }] })],
    ["/v1/completions", text({ prompt: "HERE" })],
    ["/v1/inference/org/model", { input: "HERE" }],
    ["/v1/embeddings", { model: "org/model", input: "HERE" }],
    ["/v1/api-tokens", { name: "HERE" }],
    ["/deploy/llm", { model_name: "HERE", gpu: "H100-80GB" }],
  ];

  it.each(broken)(
    "is 400 with a sentence where it holds %s, on every surface and by both entries",
    async (_, bytes) => {
      for (const [path, fields] of paths) {
        const answer = await send("POST", path, bodyOf(fields, bytes));
        expect(answer.status, path).toBe(400);
        const { message, code } = answer.body.error.message
          ? answer.body.error
          : { ...answer.body, message: answer.body.error };
        expect([path, code]).toEqual([path, "json_invalid"]);
        expect(message).toContain("not valid UTF-8");
      }
      const byRoute = await edge.app.inject({
        method: "POST",
        url: "/v1/chat/completions",
        headers: withKey,
        payload: bodyOf(paths[0]?.[1] ?? {}, bytes),
      });
      expect([byRoute.statusCode, byRoute.json().error.code]).toEqual([400, "json_invalid"]);
    },
  );

  it("nor is an escaped half of a pair any character: 422 with a sentence, on every surface and by both entries", async () => {
    for (const [path, fields] of paths) {
      const body = JSON.stringify(fields).replace("HERE", "a\\ud800b");
      const [answer, byRoute] = [
        await send("POST", path, body),
        await edge.app.inject({ method: "POST", url: path, headers: withKey, payload: body }),
      ];
      expect([path, answer.status, byRoute.statusCode]).toEqual([path, 422, 422]);
      const at = [path, answer.body.detail[0].loc.slice(0, 2), answer.body.detail[0].msg];
      const field = Object.entries(fields).find(([, value]) => JSON.stringify(value).includes("HERE"))?.[0];
      expect(at).toEqual([path, ["body", field], expect.stringContaining("unpaired surrogate")]);
      expect(byRoute.json().detail).toEqual(answer.body.detail);
    }
  });

  it("nests lists and objects no deeper than anybody writes, by both ways", async () => {
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const body = JSON.stringify(chat({ chat_template_kwargs: { a: "HERE" }, odd: 1 })).replace('"HERE"', deep);
    const answer = await send("POST", "/v1/chat/completions", body);
    const byRoute = await edge.app.inject({
      method: "POST",
      url: "/v1/chat/completions",
      headers: withKey,
      payload: body,
    });
    expect([answer.status, byRoute.statusCode]).toEqual([422, 422]);
    expect(answer.body.error.message).toContain("at most 256 levels");
  });

  it("is none for every character there is", async () => {
    const body = JSON.stringify(chat({ messages: [{ role: "user", content: "ü € 😀 \u{10ffff}" }] }));
    expect((await send("POST", "/v1/chat/completions", body)).status).toBe(200);
  });
});

describe("a method that a path does not allow", () => {
  const rows: readonly (readonly [string, string, string, "service" | "compat" | "voices"])[] = [
    ["GET", "/v1/chat/completions", "POST", "compat"],
    ["DELETE", "/v1/openai/chat/completions/", "POST", "compat"],
    ["PUT", "/v1/files", "GET, HEAD, POST", "compat"],
    ["DELETE", "/v1/models/org/model", "GET, HEAD", "compat"],
    ["POST", "/v1/me", "DELETE, GET, HEAD, PATCH", "service"],
    ["PATCH", "/v1/api-tokens?x=1", "GET, HEAD, POST", "service"],
    ["GET", "/v1/inference/org/model", "POST", "service"],
    ["PATCH", "/models/org/model", "DELETE, GET, HEAD", "service"],
    ["GET", "/v1/text-to-speech/one", "POST", "voices"],
  ];
  it.each(rows)("%s %s is 405 with Allow: %s, in the words of its surface", async (method, path, allowed, dialect) => {
    const answer = await send(method, path, method === "GET" ? undefined : "{}");
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, allowed]);
    const sentence = `Method ${method} not allowed. Allowed: ${allowed}.`;
    const shapes = {
      service: { error: sentence, detail: { error: sentence }, code: "method_not_allowed" },
      compat: { error: { message: sentence, type: "invalid_request_error", param: null, code: "method_not_allowed" } },
      voices: { detail: { status: "method_not_allowed", message: sentence } },
    };
    expect(answer.body).toMatchObject(shapes[dialect]);
    expect(answer.headers.get("x-stoker-request-id")).toMatch(/^\w{24}$/);
    expect(anyPath()).toContain(405);
  });

  it("is told without a key, and what a known method finds nothing at stays 404", async () => {
    expect((await send("PUT", "/v1/files", "{}", {})).status).toBe(405);
    expect((await send("GET", "/v1/files/nowhere")).status).toBe(404);
    expect((await send("OPTIONS", "/v1/files")).status).toBe(404);
    expect((await send("HEAD", "/healthz")).status).toBe(200);
  });

  it.each(["GET", "POST", "PUT", "DELETE"])("%s of an unknown path is 404, whatever comes with it", async (method) => {
    const answer = await send(method, "/v1/nowhere", method === "GET" ? undefined : '{"a": 1}');
    expect([answer.status, answer.body, answer.headers.get("allow")]).toMatchObject([
      404,
      { detail: "Not Found" },
      null,
    ]);
  });
});

describe("a path that no route has", () => {
  it.each([
    ["GET", "/v1/modelz", "GET /v1/models"],
    ["GET", "/v1/gpu_pools", "GET /v1/me/gpu_pool"],
  ])("%s %s names the nearest", async (method, path, nearest) => {
    const { status, body, headers } = await send(method, path);
    const error = `No such path. Did you mean ${nearest}?`;
    const request_id = headers.get("x-stoker-request-id");
    expect([status, body]).toMatchObject([404, { detail: "Not Found" }]);
    expect(body).toMatchObject(
      path.includes("model") ? { error: { message: error, request_id } } : { error, request_id },
    );
  });

  it("is not repeated in the response", async () => {
    const { body } = await send("GET", "/v1/modelz-secret-4711");
    expect(JSON.stringify(body)).not.toContain("4711");
  });
});

describe("a path that cannot be routed", () => {
  it.each([
    ["has a broken escape", "/v1/files/%E0%A4%A", 400, "bad_request"],
    ["has a part longer than any name", `/v1/files/${"x".repeat(600)}`, 414, "path_too_long"],
  ])("for it %s is told in a sentence, counted and logged", async (_what, path, status, code) => {
    const answer = await send("GET", path, undefined);
    const { error, detail, code: told, request_id: id } = answer.body;
    expect([answer.status, told, detail]).toEqual([status, code, { error }]);
    expect(error).toMatch(/^(The|A) .*path.*\.$/);
    expect(answer.headers.get("x-stoker-request-id")).toBe(id);
    await vi.waitFor(
      () =>
        expect(edge.logLines.find((line) => line["requestId"] === id)).toMatchObject({
          route: "_unknown",
          status,
          error: code,
        }),
      patience,
    );
    expect(anyPath()).toContain(status);
  });
});

/** Statuses that the description tells of any path. */
const anyPath = () => Object.keys((edge.app.swagger() as { "x-any-path"?: object })["x-any-path"] ?? {}).map(Number);

/** What comes back for these bytes until the server closes. */
async function raw(...pieces: readonly string[]): Promise<{ readonly head: string; readonly body: string }> {
  const { hostname, port } = new URL(edge.url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  for (const piece of pieces) socket.write(piece);
  const all = await textOf(socket);
  const [head = "", body = ""] = all.split("\r\n\r\n");
  return { head, body };
}

const post = (headers: string) => `POST /v1/api-tokens HTTP/1.1\r\n${headers}`;
const key = `authorization: Bearer ${apiKey}\r\n`;

describe("a connection with malformed bytes", () => {
  it.each([
    ["has no Host", "GET /healthz HTTP/1.1\r\n\r\n", 400, "host_missing"],
    ["speaks no HTTP", "\x16\x03\x01 hello\r\n\r\n", 400, "bad_request"],
    ["has a malformed header", "GET /healthz HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n", 400, "bad_request"],
    ["has a length that is no number", post("host: x\r\ncontent-length: ten\r\n\r\n"), 400, "bad_request"],
    [
      "has a malformed chunk",
      `${post(`host: x\r\n${key}transfer-encoding: chunked\r\n\r\n`)}zz\r\n{}\r\n`,
      400,
      "bad_request",
    ],
    [
      "has too many headers",
      `GET /healthz HTTP/1.1\r\nhost: x\r\ncookie: ${"c".repeat(20_000)}\r\n\r\n`,
      431,
      "headers_too_large",
    ],
    [
      "expects what nobody knows",
      post("host: x\r\nexpect: tea\r\ncontent-length: 2\r\n\r\n{}"),
      417,
      "expectation_failed",
    ],
  ])("that %s is answered as every error is, and closed", async (_what, bytes, status, code) => {
    const { head, body } = await raw(bytes);
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} [A-Z]`));
    expect(head).toMatch(/^connection: close$/im);
    expect(head).toMatch(/^content-type: application\/json/im);
    const { error, detail, code: told, request_id: id } = JSON.parse(body);
    expect([told, detail]).toEqual([code, { error }]);
    expect(error).toMatch(/^[A-Z].*\.$/s);
    expect(head).toContain(id);
    expect(anyPath()).toContain(status);
    const counted = new RegExp(`^stoker_http_connections_refused_total\\{error="${code}"\\} [1-9]`, "m");
    expect(await edge.registry.metrics()).toMatch(counted);
  });

  it("of HTTP/1.0 needs no Host", async () => {
    expect((await raw("GET /healthz HTTP/1.0\r\n\r\n")).head).toContain(" 200 ");
  });

  it("that broke off a body leaves nothing of it held", async () => {
    const headers = `host: x\r\n${key}transfer-encoding: chunked\r\n\r\n`;
    await raw(`${post(headers)}5\r\n{"a":\r\nzz\r\n`);
    await vi.waitFor(() => expect(bodies.heldBytes).toBe(0), patience);
    expect((await send("GET", "/healthz")).status).toBe(200);
  });
});

describe("a stalled body", () => {
  it.each(["/v1/chat/completions", "/v1/api-tokens"])(
    "to %s is 408 after 30 s of silence, and holds nothing",
    async (path) => {
      expect((await edge.post(path, path.includes("chat") ? chat() : { name: "x" })).status).toBe(200);
      await vi.waitFor(() => expect(bodies.heldBytes).toBe(0), patience);
      const call = request(edge.url + path, { method: "POST", headers: { ...withKey, "content-length": 120_000 } });
      call.on("error", () => {});
      const answered = once(call, "response");
      call.write(" ".repeat(100_000));
      await vi.waitFor(() => expect(bodies.heldBytes).toBe(100_000), patience);
      // Whoever sends a little now and then is waited for.
      nowMs += 29_000;
      call.write(" ".repeat(1_000));
      await vi.waitFor(() => expect(bodies.heldBytes).toBe(101_000), patience);
      nowMs += 29_000;
      call.write(" ".repeat(1_000));
      await vi.waitFor(() => expect(bodies.heldBytes).toBe(102_000), patience);
      nowMs += 31_000;
      const [answer] = await answered;
      expect([answer.statusCode, answer.headers.connection]).toEqual([408, "close"]);
      expect(await textOf(answer)).toContain("No data of the request body was received for 30 s");
      expect(anyPath()).toContain(408);
      await vi.waitFor(() => expect(bodies.heldBytes).toBe(0), patience);
      call.destroy();
    },
  );

  /** What is answered to these headers and pieces while time goes by and nothing more is sent. */
  async function afterSilence(path: string, headers: object, ...pieces: readonly string[]) {
    const call = request(edge.url + path, { method: "POST", headers: { ...withKey, ...headers } });
    call.on("error", () => {});
    let answer: IncomingMessage | undefined;
    call.once("response", (came) => {
      answer = came;
    });
    call.flushHeaders();
    for (const piece of pieces) call.write(piece);
    await vi.waitFor(() => {
      nowMs += 31_000;
      expect(answer).toBeDefined();
    }, patience);
    const { statusCode, headers: told } = answer as IncomingMessage;
    const said = await textOf(answer as IncomingMessage);
    call.destroy();
    return [statusCode, told.connection, said] as const;
  }
  const stalled = [408, "close", expect.stringContaining("No data of the request body was received for 30 s")];

  it.each(["/v1/chat/completions", "/v1/api-tokens"])("to %s is also one that never begins", async (path) => {
    expect((await edge.post(path, path.includes("chat") ? chat() : { name: "x" })).status).toBe(200);
    expect(await afterSilence(path, { "content-length": 120_000 })).toEqual(stalled);
    expect(await afterSilence(path, { "transfer-encoding": "chunked" })).toEqual(stalled);
  });

  it("is also a file that breaks off, or never begins", async () => {
    const headers = { "content-type": "multipart/form-data; boundary=b", "content-length": 200_000 };
    const begun = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{"custom_id":';
    expect(await afterSilence("/v1/files", headers)).toEqual(stalled);
    expect(await afterSilence("/v1/files", headers, begun)).toEqual(stalled);
  });

  it("is no matter of one that came whole, however long its answer takes", async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    edge.agent.script({ kind: "stream", gate: () => released, frames: [frame("a")] });
    const before = edge.agent.asked.length;
    const large = "x".repeat(300_000);
    const answer = edge.post(
      "/v1/chat/completions",
      chat({ stream: true, messages: [{ role: "user", content: large }] }),
    );
    await vi.waitFor(() => expect(edge.agent.asked.length).toBeGreaterThan(before), patience);
    nowMs += 3_600_000;
    release();
    expect((await answer).status).toBe(200);
    edge.agent.script({ kind: "whole" });
  });
});
