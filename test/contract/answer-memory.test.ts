// Answers that are kept whole before they leave: bounded, unpaid where none is given, and cut where nobody reads them.
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import type { RequestState } from "../../control-plane/http/core/request-state.ts";
import { ClientSink } from "../../control-plane/http/inference/client-sink.ts";
import { AnswerShare, ResponseBuffer } from "../../control-plane/inference/response-buffer.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";

const answers = new ResponseBuffer(1024, 1);
let edge: Edge;
beforeAll(async () => {
  edge = await startEdge({ change: (deps) => ({ ...deps, spine: { ...deps.spine, answers } }) });
});
afterAll(() => edge.close());

it("returns 503 when a response has no buffer capacity, and counts nothing as delivered", async () => {
  const first = new AnswerShare(answers, "other", { pause() {}, resume() {}, giveUp() {} });
  first.add(answers.maxBytes);
  edge.agent.script({ kind: "whole", body: JSON.stringify({ text: "x".repeat(1024 * 1024) }) });
  const answer = await edge.post("/v1/compat/chat/completions", chat({ service_tier: "flex" }));
  expect([answer.status, await answer.text()]).toEqual([503, expect.stringContaining("answers_full")]);
  expect(edge.delivered).toMatchObject([{ attempt: 1, outputTokens: 0 }]);
  expect(edge.budgets.holds[0]?.end).toEqual({ how: "waits", attempt: 1 });
  first.letGo();
  expect(answers.heldBytes).toBe(0);
});

it("replays a response when there is buffer capacity, otherwise returns 503 and allows another repeat", async () => {
  const ask = () => edge.post("/v1/chat/completions", chat(), { headers: { "idempotency-key": "again" } });
  const told = await (await ask()).text();
  const asked = edge.agent.asked.length;
  const first = new AnswerShare(answers, "other", { pause() {}, resume() {}, giveUp() {} });
  first.add(answers.maxBytes);
  const refused = await ask();
  expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining("answers_full")]);
  first.letGo();
  expect(await (await ask()).text()).toBe(told);
  expect(edge.agent.asked).toHaveLength(asked);
  await vi.waitFor(() => expect(answers.heldBytes).toBe(0), { timeout: 20_000 });
});

it.each(["whole", "again"] as const)("a client that reads nothing of a finished answer is cut: %s", async (how) => {
  const closed: boolean[] = [];
  const server = createServer((_, res: ServerResponse) => {
    res.on("close", () => closed.push(res.writableFinished));
    const state: Partial<RequestState> = { isClosed: false, headers: () => [] };
    const sink = new ClientSink(res, state as RequestState, 50);
    const body = Buffer.alloc(64 * 1024 * 1024);
    if (how === "whole") sink.whole(200, "text/plain", body);
    else sink.again({ status: 200, headers: ["content-type", "text/plain"], body });
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await vi.waitFor(() => expect(server.listening).toBe(true), { timeout: 20_000 });
  const silent = connect((server.address() as AddressInfo).port, "127.0.0.1");
  onTestFinished(() => void silent.destroy());
  silent.on("error", () => {}).pause();
  silent.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await vi.waitFor(() => expect(closed).toEqual([false]), { timeout: 20_000 });
});
