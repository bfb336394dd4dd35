// A request under which two connections to hosts broke: it is not sent a third time, and its hold waits for the record.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Ticket } from "../../proto/ticket.ts";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";

describe.each([
  ["over one connection per agent", true],
  ["over a connection per request", false],
] as const)("a request whose connections break, %s", (_, shared) => {
  let edge: Edge;
  beforeEach(async () => {
    edge = await startEdge({ agents: 3, shared });
    for (const agent of edge.agents) agent.script({ kind: "break", afterFrames: 0 });
  });
  afterEach(() => edge.close());

  it("is sent twice, and its hold waits for the record of attempt 2", async () => {
    const answer = await edge.post("/v1/compat/chat/completions", chat());
    expect([answer.status, await answer.json()]).toEqual([
      502,
      { error: expect.objectContaining({ code: "upstream_error" }) },
    ]);
    const attempts = edge.agents.flatMap(({ asked }) => asked.map(({ ticket }) => (ticket as Ticket).attempt));
    expect(attempts.toSorted()).toEqual([1, 2]);
    expect(edge.delivered.map(({ attempt, outputTokens }) => [attempt, outputTokens])).toEqual([
      [1, 0],
      [2, 0],
    ]);
    expect(edge.budgets.holds.map(({ end }) => end)).toEqual([{ how: "waits", attempt: 2 }]);
    expect(edge.routes.routes.map(({ inFlight }) => inFlight)).toEqual([0, 0, 0]);
  });
});
