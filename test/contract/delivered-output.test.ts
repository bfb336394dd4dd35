// What the gateway reports as delivered of a stream whose agent gives no figures.
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { frame } from "../fakes/agent-data-plane.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";

let edge: Edge;
beforeEach(async () => {
  edge = await startEdge();
});
afterEach(() => edge.close());

const stream = async () => (await edge.post("/v1/compat/chat/completions", chat({ stream: true }))).text();

it.each([0, 1, 3])("counts %i tokens after the frame of the role when the stream breaks", async (tokens) => {
  const role = frame("").replace('"delta":{', '"delta":{"role":"assistant",');
  const partial = role + Array.from({ length: tokens }, (_, i) => frame(`t${i}`)).join("");
  edge.agent.script({ kind: "break", afterFrames: 0, partial });
  expect(await stream()).toContain("upstream_error");
  expect(edge.delivered).toEqual([expect.objectContaining({ attempt: 1, outputTokens: tokens })]);
  expect(edge.agent.asked).toHaveLength(1);
});

it("counts what was delivered of a whole stream whose record the agent could not write", async () => {
  edge.agent.script({ kind: "stream", frames: [frame("a"), frame("b")], usage: null });
  await stream();
  expect(edge.budgets.holds[0]?.end).toEqual({ how: "waits", attempt: 1 });
  expect(edge.delivered).toEqual([expect.objectContaining({ attempt: 1, outputTokens: 2 })]);
});

it("counts nothing of a complete reply that the agent withheld because it could not record it", async () => {
  const body = JSON.stringify({ error: { message: "could not be recorded", code: "usage_not_recorded" } });
  edge.agent.script({ kind: "error", status: 503, body, usage: null });
  const reply = await edge.post("/v1/compat/chat/completions", chat({}));
  expect([reply.status, (await reply.json()).error.message]).toEqual([502, expect.any(String)]);
  expect(edge.budgets.holds[0]?.end).toEqual({ how: "waits", attempt: 1 });
  expect(edge.delivered).toEqual([expect.objectContaining({ attempt: 1, outputTokens: 0 })]);
  expect(edge.agent.asked).toHaveLength(1);
});

it("counts what was delivered to a client that left only once its record is overdue", async () => {
  const { promise: open, resolve: end } = Promise.withResolvers<void>();
  let sent = 0;
  const gate = async () => {
    sent += 1;
    if (sent > 2) await open;
  };
  edge.agent.script({ kind: "stream", frames: [frame("a"), frame("b"), frame("c")], gate });
  const client = new AbortController();
  const reply = await edge.post("/v1/compat/chat/completions", chat({ stream: true }), { signal: client.signal });
  let text = "";
  const reading = (async () => {
    for await (const bytes of reply.body as ReadableStream<Uint8Array>) {
      text += Buffer.from(bytes).toString();
      if (text.includes('"b"')) client.abort();
    }
  })();
  await expect(reading).rejects.toThrow();
  await vi.waitFor(() => expect(edge.budgets.holds[0]?.end).toEqual({ how: "waits", attempt: 1 }));
  end();
  expect(edge.delivered).toEqual([]);
  edge.budgets.holds[0]?.overdue?.();
  expect(edge.delivered).toEqual([expect.objectContaining({ attempt: 1, outputTokens: 2 })]);
});
