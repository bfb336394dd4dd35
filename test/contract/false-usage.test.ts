// What a host can do with false figures in its answer, and what the gateway signs for it.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openSealed, ticketText } from "../../proto/ticket.ts";
import type { UsageFigures } from "../../proto/usage.ts";
import { figures, frame } from "../fakes/agent-data-plane.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";
import { testSeals } from "../fakes/seals.ts";

const path = "/v1/compat/chat/completions";
let edge: Edge;
beforeEach(async () => {
  edge = await startEdge();
});
afterEach(() => edge.close());

const answerWith = async (usage: UsageFigures, stream = false) => {
  edge.agent.script(stream ? { kind: "stream", frames: [frame("a")], usage } : { kind: "whole", usage });
  const answer = await edge.post(path, chat({ max_tokens: 10, stream }));
  await answer.text();
  expect(answer.status).toBe(200);
  return edge.budgets.holds[0]?.end;
};

describe.each([false, true])("figures of an answer (stream: %s)", (stream) => {
  it.each<[what: string, change: Partial<UsageFigures>]>([
    ["more output than the ticket allows", { output: 11 }],
    ["the largest safe integer of prompt tokens", { input: Number.MAX_SAFE_INTEGER }],
    ["more cached tokens than prompt tokens", { cachedInput: 7 }],
    ["a source that does not exist", { source: "free" as "engine" }],
  ])("free no money when they name %s", async (_, change) => {
    expect(await answerWith({ ...figures, ...change }, stream)).toEqual({ how: "waits", attempt: 1 });
  });

  it("free what the ticket's bounds leave", async () => {
    expect(await answerWith({ ...figures, output: 10 }, stream)).toMatchObject({ how: "settled" });
  });
});

it("seals each ticket for the host that it is sent to", async () => {
  await (await edge.post(path, chat())).text();
  const sealed = openSealed(ticketText(edge.agent.asked[0]?.header ?? ""), () => testSeals.newest().bytes);
  expect(sealed).toMatchObject({ hostId: edge.routes.routes[0]?.hostId, attempt: 1 });
});
