// What the gateway does with a request under which model servers or their hosts stop.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { chat, type Edge, startEdge } from "../fakes/edge.ts";

const path = "/v1/chat/completions";

describe("a request that stops model servers", () => {
  let edge: Edge;
  beforeEach(async () => {
    edge = await startEdge({ agents: 2 });
  });
  afterEach(() => edge.close());
  const asked = () => edge.agents.flatMap((agent) => agent.asked);

  it("is tried twice when its connections break, also where equal requests broke before", async () => {
    for (let i = 0; i < 5; i++) edge.routes.add(edge.agent.origin);
    for (const agent of edge.agents) agent.script({ kind: "break", afterFrames: 0 });
    expect((await edge.post(path, chat({ user: "a" }))).status).toBe(502);
    expect(asked()).toHaveLength(2);
    expect(edge.budgets.holds[0]?.end).toEqual({ how: "waits", attempt: 2 });
    expect((await edge.post(path, chat({ user: "b" }))).status).toBe(502);
    expect(asked()).toHaveLength(4);
    for (const agent of edge.agents) agent.script({ kind: "whole" });
    expect((await edge.post(path, chat())).status).toBe(200);
  });

  it("is refused for ten minutes at most, whatever one host says", async () => {
    for (const agent of edge.agents)
      agent.script({ kind: "refuse", refusal: "stops_server", status: 422, retryAfter: 1_000_000_000 });
    const seconds = async () => Number((await edge.post(path, chat())).headers.get("retry-after"));
    expect(await seconds()).toBe(600);
    expect(await seconds()).toBeLessThanOrEqual(600);
    expect(asked()).toHaveLength(1);
  });

  it("is not tried elsewhere once a host refuses it", async () => {
    for (const agent of edge.agents)
      agent.script({ kind: "refuse", refusal: "stops_server", status: 422, retryAfter: 600 }, { kind: "whole" });
    const answer = await edge.post(path, chat());
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([422, "600"]);
    expect(await answer.json()).toMatchObject({ error: { code: "request_stops_server" } });
    expect(edge.budgets.holds[0]?.end).toEqual({ how: "released" });
    const again = await edge.post(path, chat({ seed: 7 }));
    expect([again.status, asked().length]).toEqual([422, 1]);
    for (const agent of edge.agents) agent.script({ kind: "whole" });
    expect((await edge.post(path, chat({ temperature: 0 }))).status).toBe(200);
  });
});
