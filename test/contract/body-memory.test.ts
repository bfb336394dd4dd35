// The bodies of all requests together are bounded.
import { once } from "node:events";
import { request } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { ByteBudget } from "../../control-plane/inference/byte-budget.ts";
import { frame } from "../fakes/agent-data-plane.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";

const mib = 1024 * 1024;
const largeBytes = 700 * 1024;
const path = "/v1/compat/chat/completions";
const large = chat({ messages: [{ role: "user", content: "x".repeat(largeBytes) }] });
const bodies = new ByteBudget(mib);
let edge: Edge;
beforeAll(async () => {
  edge = await startEdge({ change: (deps) => ({ ...deps, bodies }) });
});
afterEach(() => edge.agent.script({ kind: "whole" }));
afterAll(() => edge.close());

const allGone = () => vi.waitFor(() => expect(bodies.heldBytes).toBe(0), { timeout: 20_000 });

/** A large request that runs until it is let go. */
async function running(): Promise<{ end(): Promise<void> }> {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  edge.agent.script({ kind: "stream", gate: () => released, frames: [frame("a")] });
  const before = edge.agent.asked.length;
  const answer = edge.post(path, { ...large, stream: true });
  await vi.waitFor(() => expect(edge.agent.asked.length).toBeGreaterThan(before), { timeout: 20_000 });
  expect(bodies.heldBytes).toBeGreaterThan(largeBytes);
  return {
    async end() {
      release();
      expect(await (await answer).text()).toContain("[DONE]");
      await allGone();
      edge.agent.script({ kind: "whole" });
    },
  };
}

it.each([
  ["a text", "/v1/completions", { model: "org/model", prompt: "x".repeat(largeBytes) }],
  ["a chat", path, large],
  ["one that is no inference", "/v1/request-costs", { requestIds: ["x".repeat(largeBytes)] }],
])("%s is refused with 503 while another holds the memory, small ones are not", async (_, at, body) => {
  expect((await edge.post(path, chat())).status).toBe(200);
  const other = await running();
  const refused = await edge.post(at, body);
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "2"]);
  expect(await refused.text()).toContain("memory for request bodies is full");
  edge.agent.script({ kind: "whole" });
  expect((await edge.post(path, chat())).status).toBe(200);
  await other.end();
  expect((await edge.post(at, body)).status).not.toBe(503);
  await allGone();
});

it("refuses a body of unknown length as soon as it exceeds the limit, and serves one below it", async () => {
  const send = () => {
    const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
    const call = request(edge.url + path, { method: "POST", headers });
    call.on("error", () => {});
    const text = JSON.stringify(large);
    for (let at = 0; at < text.length; at += 32_768) call.write(text.slice(at, at + 32_768));
    return call;
  };
  const other = await running();
  const endless = send();
  const [answer] = await once(endless, "response");
  expect([answer.statusCode, answer.headers["retry-after"]]).toEqual([503, "2"]);
  endless.destroy();
  await other.end();
  const whole = send();
  whole.end();
  const [served] = await once(whole, "response");
  expect(served.statusCode).toBe(200);
  served.resume();
  await allGone();
});

it("releases the memory when a client disconnects during its body", async () => {
  for (const at of [path, "/v1/request-costs"]) {
    const headers = {
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/json",
      "content-length": largeBytes,
    };
    const call = request(edge.url + at, { method: "POST", headers });
    call.on("error", () => {});
    call.write(" ".repeat(100_000));
    await vi.waitFor(() => expect(bodies.heldBytes).toBe(100_000), { timeout: 20_000 });
    call.destroy();
    await allGone();
  }
});

it("reserves no memory for bodies that are announced and never sent", async () => {
  const silent = ["/payment/stripe/webhook", path, "/v1/request-costs", path].map((at) => {
    const headers = { authorization: `Bearer ${apiKey}`, "content-length": 900 * 1024 };
    const call = request(edge.url + at, { method: "POST", headers });
    call.on("error", () => {});
    call.write("{");
    return call;
  });
  await vi.waitFor(() => expect(bodies.heldBytes).toBe(silent.length), { timeout: 20_000 });
  expect((await edge.post(path, large)).status).toBe(200);
  for (const call of silent) call.destroy();
  await allGone();
});

it("serves a small body however much memory large ones hold", async () => {
  const full = bodies.maxBytes;
  bodies.add("others", full);
  expect((await edge.post(path, large)).status).toBe(503);
  expect((await edge.post(path, chat())).status).toBe(200);
  bodies.give("others", full);
  await allGone();
});

it("refuses a body that is too large with the limit, whether announced or not", async () => {
  const headers = { authorization: `Bearer ${apiKey}`, "content-length": 11 * mib };
  const announced = request(`${edge.url}/v1/deploy`, { method: "POST", headers });
  announced.on("error", () => {});
  announced.end(" ".repeat(11 * mib));
  const [refused] = await once(announced, "response");
  expect([refused.statusCode, await text(refused)]).toEqual([413, expect.stringContaining("128 KiB")]);
  announced.destroy();
  const call = request(`${edge.url}/v1/deploy`, { method: "POST", headers: { authorization: `Bearer ${apiKey}` } });
  call.on("error", () => {});
  const answered = once(call, "response");
  for (let n = 0; n < 11; n++) call.write(" ".repeat(mib));
  call.end();
  const [answer] = await answered;
  expect(answer.statusCode).toBe(413);
  call.destroy();
  await allGone();
});
