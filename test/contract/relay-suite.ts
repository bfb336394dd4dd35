import { setTimeout as wait } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AttemptLimits } from "../../control-plane/inference/attempt.ts";
import type { HostId } from "../../proto/ids.ts";
import type { Ticket } from "../../proto/ticket.ts";
import { figures, frame, gateAfter, wholeChat } from "../fakes/agent-data-plane.ts";
import { chat, type Edge, startEdge, text } from "../fakes/edge.ts";
import { promisedMs } from "../fakes/nightly.ts";
import { ada, servedModel } from "../fakes/ports.ts";

/** The relay over one shared connection per agent, or, as with an agent of an older version, over one per request. */
export function relaySuite(shared: boolean): void {
  let edge: Edge;
  beforeEach(async () => {
    edge = await startEdge({ agents: 2, shared });
  });
  afterEach(() => edge.close());

  const path = "/v1/compat/chat/completions";
  const [first, second] = [() => edge.agents[0] as Edge["agent"], () => edge.agents[1] as Edge["agent"]];
  const asked = () => edge.agents.flatMap((agent) => agent.asked);
  /** Only the first agent is there. */
  const alone = () => edge.routes.routes.splice(1);

  describe("a complete answer", () => {
    it("reaches the client as the agent sent it, without the agent's own headers", async () => {
      const answer = await edge.post(path, chat());
      expect(answer.status).toBe(200);
      expect(await answer.text()).toBe(wholeChat);
      expect(answer.headers.get("content-type")).toBe("application/json");
      expect(answer.headers.get("content-length")).toBe(String(wholeChat.length));
      expect(answer.headers.get("x-stoker-usage")).toBeNull();
      expect(answer.headers.get("x-stoker-request-id")).toMatch(/^[A-Za-z0-9]{24}$/);
      expect(answer.headers.get("openai-processing-ms")).toMatch(/^\d+$/);
    });

    it("comes whole when it arrives in pieces", async () => {
      const body = JSON.stringify({ text: "x".repeat(300_000) });
      first().script({ kind: "whole", body });
      alone();
      expect(await (await edge.post(path, chat())).text()).toBe(body);
    });

    it("shrinks the hold to the agent's figures", async () => {
      await (await edge.post(path, chat())).text();
      // 4 fresh prompt tokens, 2 cached, 3 generated at 20, 10 and 40 nano-USD.
      expect(edge.budgets.holds[0]?.end).toEqual({ how: "settled", cost: 220n, attempt: 1 });
    });

    it("keeps the whole hold when no figures came", async () => {
      first().script({ kind: "whole", usage: null });
      alone();
      await (await edge.post(path, chat())).text();
      expect(edge.budgets.holds[0]?.end).toEqual({ how: "waits", attempt: 1 });
    });
  });

  describe("a stream", () => {
    it("is forwarded byte for byte with the headers of server-sent events", async () => {
      first().script({ kind: "stream", frames: [frame("a"), frame("b")] });
      alone();
      const answer = await edge.post(path, chat({ stream: true }));
      expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
      expect(answer.headers.get("cache-control")).toBe("no-store");
      expect(answer.headers.get("x-accel-buffering")).toBe("no");
      expect(await answer.text()).toBe(`${frame("a")}${frame("b")}data: [DONE]\n\n`);
      expect(edge.budgets.holds[0]?.end).toEqual({ how: "settled", cost: 220n, attempt: 1 });
    });

    it("delivers each frame while the engine still works on the next", async () => {
      const { gate, release } = gateAfter(1);
      first().script({ kind: "stream", frames: [frame("a"), frame("b")], gate });
      alone();
      const answer = await edge.post(path, chat({ stream: true }));
      const reader = answer.body?.getReader();
      const { value } = (await reader?.read()) ?? {};
      expect(Buffer.from(value as Uint8Array).toString()).toBe(frame("a"));
      release();
      let rest = "";
      for (let part = await reader?.read(); part && !part.done; part = await reader?.read())
        rest += Buffer.from(part.value);
      expect(rest).toBe(`${frame("b")}data: [DONE]\n\n`);
    });

    it("that breaks ends with an error frame, without [DONE], and its delivered frames are reported", async () => {
      first().script({ kind: "break", afterFrames: 2, partial: 'data: {"id":"chat' });
      alone();
      const body = await (await edge.post(path, chat({ stream: true }))).text();
      expect(body.startsWith(`${frame("t0")}${frame("t1")}data: {"id":"chat\n\n`)).toBe(true);
      const last = body.trimEnd().split("\n\n").at(-1) ?? "";
      expect(JSON.parse(last.slice(6)).error).toMatchObject({ type: "server_error", code: "upstream_error" });
      expect(body).not.toContain("[DONE]");
      expect(edge.delivered).toHaveLength(1);
      expect(edge.delivered[0]).toMatchObject({ attempt: 1, outputTokens: 2, account: ada.account });
      expect(edge.budgets.holds[0]?.end).toEqual({ how: "waits", attempt: 1 });
      expect(second().asked).toHaveLength(0);
    });

    it("is never sent again once a data frame was forwarded", async () => {
      first().script({ kind: "break", afterFrames: 1 });
      second().script({ kind: "stream" });
      await (await edge.post(path, chat({ stream: true }))).text();
      expect(asked()).toHaveLength(1);
    });

    it("holds back nothing for a reader that is slow, and loses nothing", async () => {
      const frames = Array.from({ length: 400 }, (_, i) => frame(`${i}:${"y".repeat(20_000)}`));
      first().script({ kind: "stream", frames });
      alone();
      const answer = await edge.post(path, chat({ stream: true }));
      const reader = answer.body?.getReader();
      let bytes = 0;
      for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
        bytes += part.value.length;
        if (bytes < 100_000) await wait(50);
      }
      expect(bytes).toBe(frames.join("").length + "data: [DONE]\n\n".length);
    });
  });

  describe("a retry on another instance", () => {
    it("when one breaks before its first byte, with a higher attempt and a count of nothing for the first", async () => {
      first().script({ kind: "break", afterFrames: 0 });
      const answer = await edge.post(path, chat());
      expect(answer.status).toBe(200);
      const tickets = asked().map((one) => one.ticket as Ticket);
      expect(tickets.map((ticket) => ticket.attempt)).toEqual([1, 2]);
      expect(new Set(tickets.map((ticket) => ticket.requestId)).size).toBe(1);
      expect(edge.delivered).toEqual([expect.objectContaining({ attempt: 1, outputTokens: 0 })]);
      expect(edge.budgets.holds[0]?.end).toEqual({ how: "settled", cost: 220n, attempt: 2 });
      expect(edge.routes.failures).toEqual(["instance-1"]);
    });

    it("when one refuses the connection, and nothing is reported for it", async () => {
      await first().close();
      expect((await edge.post(path, chat())).status).toBe(200);
      expect(edge.delivered).toEqual([]);
      expect(edge.routes.failures).toEqual(["instance-1"]);
    });

    it.each(["draining", "not_ready", "unknown_instance", "spool", "ticket"] as const)(
      "when one is %s",
      async (refusal) => {
        first().script({ kind: "refuse", refusal, status: 503 });
        expect((await edge.post(path, chat())).status).toBe(200);
        expect(edge.routes.routes.map((route) => route.inFlight)).toEqual([0, 0]);
      },
    );

    it("when no host can record usage the caller hears it", async () => {
      for (const agent of [first(), second()]) agent.script({ kind: "refuse", refusal: "spool", status: 503 });
      const answer = await edge.post(path, chat());
      expect([answer.status, await answer.text()]).toEqual([503, expect.stringContaining("cannot record usage")]);
      expect(edge.budgets.holds[0]?.end).toEqual({ how: "released" });
    });

    it("when one is busy; when all are, the caller hears when to come back", async () => {
      first().script({ kind: "refuse", refusal: "busy", status: 429, retryAfter: 7 });
      expect((await edge.post(path, chat())).status).toBe(200);
      second().script({ kind: "refuse", refusal: "busy", status: 429, retryAfter: 4 });
      const answer = await edge.post(path, chat());
      expect(answer.status).toBe(429);
      expect(answer.headers.get("retry-after")).toBe("4");
      expect(await answer.json()).toEqual({
        error: {
          message: "Model busy, retry later",
          type: "rate_limit_error",
          param: null,
          code: "engine_overloaded",
          request_id: answer.headers.get("x-stoker-request-id"),
        },
      });
      expect(edge.budgets.holds[1]?.end).toEqual({ how: "released" });
    });

    it("at most three times", async () => {
      for (let i = 0; i < 5; i++) edge.routes.add(first().origin);
      for (const agent of edge.agents) agent.script({ kind: "refuse", refusal: "draining", status: 503 });
      const answer = await edge.post(path, chat());
      expect(answer.status).toBe(503);
      expect(asked()).toHaveLength(3);
      expect(edge.budgets.holds[0]?.end).toEqual({ how: "released" });
    });
  });

  describe("without an instance that can serve", () => {
    it("returns 503 with the phase, never 404, for a deployment that exists", async () => {
      edge.routes.routes = [];
      edge.models.models = [servedModel({ status: "downloading" })];
      const answer = await edge.post(path, chat());
      expect(answer.status).toBe(503);
      expect(answer.headers.get("x-stoker-phase")).toBe("downloading");
      expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
      expect(edge.budgets.holds[0]?.end).toEqual({ how: "released" });
    });

    it("returns 503 for an unreachable host and frees the hold", async () => {
      alone();
      await first().close();
      const answer = await edge.post(path, chat());
      expect(answer.status).toBe(503);
      expect(((await answer.json()) as { error: { code: string } }).error.code).toBe("model_unavailable");
      expect(edge.budgets.holds[0]?.end).toEqual({ how: "released" });
    });
  });

  describe("an engine's error", () => {
    const told = (message: string, code: string) =>
      JSON.stringify({ error: { message, type: "invalid_request_error", code, param: "tools" } });

    it.each([
      [400, "context_length_exceeded"],
      [405, "tools_not_supported"],
    ])("%i passes through in the engine's words", async (status, code) => {
      first().script({ kind: "error", status, body: told("too long", code) });
      alone();
      const answer = await edge.post(path, chat());
      expect(answer.status).toBe(status);
      expect(await answer.json()).toEqual({
        error: {
          message: "too long",
          type: "invalid_request_error",
          param: "tools",
          code,
          request_id: answer.headers.get("x-stoker-request-id"),
        },
      });
      expect(edge.budgets.holds[0]?.end).toEqual({ how: "settled", cost: 0n, attempt: 1 });
    });

    it("422 carries detail[] beside it", async () => {
      first().script({ kind: "error", status: 422, body: told("no such tool", "invalid") });
      alone();
      const answer = await edge.post(path, chat());
      expect(answer.status).toBe(422);
      expect(await answer.json()).toMatchObject({
        detail: [{ loc: ["body", "tools"], msg: "no such tool" }],
        error: {},
      });
    });

    it.each([500, 503, 401, 404])("%i becomes 502 without the engine's words", async (status) => {
      first().script({ kind: "error", status, body: told("secret of the engine", "x") });
      alone();
      const answer = await edge.post(path, chat());
      expect(answer.status).toBe(502);
      expect(await answer.text()).not.toContain("secret");
    });
  });

  describe("a client that hangs up", () => {
    it("aborts the agent's request within a second and keeps the hold for the record", async () => {
      first().script({ kind: "hang" });
      alone();
      const abort = new AbortController();
      const answer = edge.post(path, chat({ stream: true }), { signal: abort.signal }).catch(() => undefined);
      await expect.poll(() => first().asked.length, { timeout: 10_000 }).toBe(1);
      const hungUpAtMs = performance.now();
      abort.abort();
      await answer;
      await expect.poll(() => first().asked[0]?.abortedAtMs, { timeout: 10_000 }).toBeDefined();
      expect((first().asked[0]?.abortedAtMs as number) - hungUpAtMs).toBeLessThan(promisedMs(1_000));
      await expect.poll(() => edge.budgets.holds[0]?.end).toEqual({ how: "waits", attempt: 1 });
      await expect.poll(() => edge.routes.routes[0]?.inFlight).toBe(0);
      const line = () => edge.logLines.find((one) => one["error"] === "client_gone");
      await expect.poll(line).toMatchObject({ status: 499, model: "org/model" });
    });

    it("before an instance was asked frees its money", async () => {
      let granted: (() => void) | undefined;
      const hold = edge.budgets.hold.bind(edge.budgets);
      edge.budgets.hold = (request) =>
        new Promise((resolve) => {
          granted = () => resolve(hold(request));
        });
      const abort = new AbortController();
      const answer = edge.post(path, chat(), { signal: abort.signal }).catch(() => undefined);
      await expect.poll(() => granted).toBeDefined();
      abort.abort();
      await answer;
      await expect.poll(() => edge.logLines.some((line) => line["error"] === "client_gone")).toBe(true);
      granted?.();
      await expect.poll(() => edge.budgets.holds[0]?.end).toEqual({ how: "released" });
      expect(asked()).toHaveLength(0);
    });
  });

  describe("time", () => {
    const slow = (limits: Partial<AttemptLimits>) =>
      startEdge({
        change: (deps) => ({
          ...deps,
          spine: {
            ...deps.spine,
            limits: { maxFirstByteMs: 60_000, gapMs: 60_000, stalledClientMs: 60_000, keepAliveMs: 60_000, ...limits },
          },
        }),
      });

    it("sends comments to a stream that waits for its first token", async () => {
      const own = await slow({ keepAliveMs: 50 });
      const { gate, release } = gateAfter(0);
      own.agent.script({ kind: "stream", frames: [frame("a")], gate });
      const answer = await own.post(path, chat({ stream: true }));
      expect(answer.status).toBe(200);
      const reader = answer.body?.getReader();
      // One, or as many as came due while nobody read.
      expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toMatch(/^(: keep-alive\n\n)+$/);
      release();
      let rest = "";
      for (let part = await reader?.read(); part && !part.done; part = await reader?.read())
        rest += Buffer.from(part.value);
      expect(rest.endsWith(`${frame("a")}data: [DONE]\n\n`)).toBe(true);
      await own.close();
    });

    it("retries elsewhere when an instance fails after a comment only", async () => {
      const own = await slow({ keepAliveMs: 50 });
      own.agent.script({ kind: "hang" }, { kind: "stream", frames: [frame("a")] });
      own.routes.add(own.agent.origin);
      const answer = await own.post(path, chat({ stream: true }));
      expect(answer.status).toBe(200);
      // The first attempt hangs: its connection is cut from the agent's side.
      await expect.poll(() => own.agent.asked.length).toBe(1);
      own.agent.cut();
      const body = await answer.text();
      expect(body.endsWith(`${frame("a")}data: [DONE]\n\n`)).toBe(true);
      expect(own.agent.asked.map((one) => (one.ticket as Ticket).attempt)).toEqual([1, 2]);
      await own.close();
    });

    it("returns 504 when an instance never responds", async () => {
      const own = await slow({ maxFirstByteMs: 100 });
      own.agent.script({ kind: "hang" });
      expect((await own.post(path, chat())).status).toBe(504);
      expect(own.budgets.holds[0]?.end).toEqual({ how: "waits", attempt: 1 });
      // The time may be over before the request has left.
      while (own.agent.asked.length === 0) await own.post(path, chat());
      await expect.poll(() => own.agent.asked[0]?.abortedAtMs).toBeDefined();
      await own.close();
    });
  });

  describe("the ticket", () => {
    it("says who may do what at which rates, until its lease or a minute ends", async () => {
      edge.budgets.leaseMs = 10_000;
      alone();
      await (await edge.post("/v1/completions", text({ max_tokens: 12, n: 2, stream: false }))).text();
      const { ticket, path: agentPath } = first().asked[0] ?? {};
      expect(agentPath).toBe("/i/instance-1/v1/completions");
      expect(ticket).toMatchObject({
        attempt: 1,
        instanceId: "instance-1",
        account: ada.account,
        keyId: ada.key,
        model: "org/model",
        leaseIds: ["lease-1"],
        permits: 2,
        maxTokens: 12,
        stream: false,
        usage: "merge",
        rates: ["20000000", "10000000", "40000000"],
        priceVersion: 3,
      });
      expect((ticket as Ticket).expiresAtMs).toBeLessThanOrEqual(Date.now() + 10_000);
    });

    it.each([
      [undefined, "merge"],
      [{ include_usage: true }, "extra"],
      [{ include_usage: false }, "drop"],
      [{ continuous_usage_stats: true }, "continuous_merge"],
      [{ continuous_usage_stats: true, include_usage: true }, "continuous"],
    ])("stream options %j place usage as %s, and the engine is asked for usage", async (options, usage) => {
      first().script({ kind: "stream" });
      alone();
      const body = chat({ stream: true, max_tokens: 5, ...(options ? { stream_options: options } : {}) });
      await (await edge.post(path, body)).text();
      expect(first().asked[0]?.ticket).toMatchObject({ usage, stream: true });
      expect(JSON.parse(String(first().asked[0]?.body)).stream_options).toMatchObject({ include_usage: true });
    });
  });

  it("spreads requests over instances by their load", async () => {
    first().script({ kind: "hang" });
    const abort = new AbortController();
    const hanging = edge.post(path, chat(), { signal: abort.signal }).catch(() => undefined);
    await expect.poll(() => first().asked.length).toBe(1);
    await (await edge.post(path, chat())).text();
    expect(second().asked).toHaveLength(1);
    abort.abort();
    await hanging;
  });

  it("counts a response on the data path as a sign of life", async () => {
    await (await edge.post(path, chat())).text();
    expect(edge.routes.answers).toEqual(["host-1" as HostId]);
    expect(figures.output).toBe(3);
  });

  it("lets a running stream finish at shutdown", async () => {
    const { gate, release, passed } = gateAfter(1);
    first().script({ kind: "stream", frames: [frame("a"), frame("b")], gate });
    alone();
    const answer = await edge.post(path, chat({ stream: true }));
    const body = answer.text();
    await expect.poll(passed).toBe(2);
    const closed = edge.app.close();
    release();
    expect((await body).endsWith("data: [DONE]\n\n")).toBe(true);
    await closed;
  });
}
