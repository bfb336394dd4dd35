import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { carriers, type DataPath, openCall, startDataPath } from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { sendAndReset, sendHalf } from "../../fakes/half-request.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";

describe.each(carriers)("over a connection %s", (carrier) => {
  let engine: FakeEngine;
  let path: DataPath;

  beforeEach(async () => {
    engine = await startFakeEngine({ tokens: 10_000, tokenMs: 20 });
    path = await startDataPath(engine.origin);
  });
  afterEach(async () => {
    await path.close();
    await engine.close();
  });

  /** Hangs up after some bytes; the time it did, Unix ms. */
  async function hangUp(afterPieces: number, ticket = {}): Promise<number> {
    const client = new AbortController();
    let pieces = 0;
    let at = 0;
    const { reply } = openCall(path.port, {
      carrier,
      ticket: { maxTokens: 10_000, ...ticket },
      signal: client.signal,
      onData: () => {
        pieces += 1;
        if (pieces < afterPieces || at) return;
        at = Date.now();
        client.abort();
      },
    });
    await reply.catch(() => {});
    return at;
  }

  it("stops the engine within a second and bills what the engine says it generated", async () => {
    const at = await hangUp(5);
    await expect.poll(() => engine.log[0]?.end).toBe("aborted");
    expect((engine.log[0]?.endedAtMs ?? 0) - at).toBeLessThan(promisedMs(1_000));
    await expect.poll(() => path.spool.depth().records).toBe(1);
    const [record] = await pendingRecords(path.spool, 10);
    expect(record).toMatchObject({ source: "engine", endReason: "client_gone", inputTokens: 3 });
    expect(record?.outputTokens).toBe(engine.log[0]?.sentTokens);
    expect(record?.outputTokens).toBeGreaterThanOrEqual(5);
  });

  it("bills the frames that came when the engine cannot say", async () => {
    engine.behave({ usageEndpoint: false });
    await hangUp(5);
    await expect.poll(() => path.spool.depth().records).toBe(1);
    const [record] = await pendingRecords(path.spool, 10);
    expect(record).toMatchObject({ source: "counted", endReason: "client_gone", inputTokens: 10 });
    const sent = engine.log[0]?.sentTokens ?? 0;
    expect(Number(record?.outputTokens)).toBeGreaterThanOrEqual(5);
    expect(Number(record?.outputTokens)).toBeLessThanOrEqual(sent);
  });

  it.each([
    ["its own count", 7, 7, "engine"],
    ["an estimate where it cannot count", undefined, 10, "estimated"],
  ] as const)("bills a prompt without a first event by vLLM's: %s", async (_, tokenizes, inputTokens, source) => {
    path.target({ countsPrompts: true });
    engine.behave({ usageEndpoint: false, until: new Promise(() => {}), tokenizes });
    const client = new AbortController();
    const { reply } = openCall(path.port, { carrier, signal: client.signal });
    await expect.poll(() => engine.running).toBe(1);
    client.abort();
    await reply.catch(() => {});
    await expect.poll(() => path.spool.depth().records).toBe(1);
    const [record] = await pendingRecords(path.spool, 10);
    expect(record).toMatchObject({ source, endReason: "client_gone", inputTokens, outputTokens: 0 });
  });

  it("frees the place for the next one", async () => {
    path.target({ maxBatchSize: 1 });
    await hangUp(2);
    engine.behave({ tokens: 2, tokenMs: 0 });
    const reply = await openCall(path.port, { carrier }).reply;
    expect(reply.usage?.endReason).toBe("stop");
    expect(engine.maxRunning).toBe(1);
  });

  const nothing = { endReason: "client_gone", source: "counted", inputTokens: 0, outputTokens: 0, firstByteMs: 0 };

  it("leaves the queue at once and records that nothing ran", async () => {
    path.target({ maxBatchSize: 1 });
    const running = new AbortController();
    const first = openCall(path.port, { carrier, ticket: { maxTokens: 10_000 }, signal: running.signal });
    await expect.poll(() => engine.running).toBe(1);
    const waiting = new AbortController();
    const second = openCall(path.port, { carrier, signal: waiting.signal });
    await expect.poll(() => path.ingress.stats(first.ticket.instanceId as never).waiting).toBe(1);
    waiting.abort();
    await second.reply.catch(() => {});
    await expect.poll(() => path.ingress.stats(first.ticket.instanceId as never).waiting).toBe(0);
    await expect.poll(() => path.spool.depth().records).toBe(1);
    const [record] = await pendingRecords(path.spool, 10);
    expect(record).toMatchObject({ ...nothing, requestId: second.ticket.requestId, attempt: 1 });
    expect(engine.log).toHaveLength(1);
    running.abort();
    await first.reply.catch(() => {});
    await expect.poll(() => path.spool.depth().records).toBe(2);
  });

  it("records that nothing ran of a request whose body never arrived whole", async () => {
    const { ticket, cut } = await sendHalf(path.port, carrier);
    cut();
    await expect.poll(() => path.spool.depth().records).toBe(1);
    const [record] = await pendingRecords(path.spool, 10);
    expect(record).toMatchObject({ ...nothing, requestId: ticket.requestId });
    expect(engine.log).toHaveLength(0);
  });

  it("writes no record of a refusal that the gateway reads", async () => {
    path.target({ ready: false });
    expect(await openCall(path.port, { carrier }).reply).toMatchObject({ refusal: "not_ready" });
    path.target({ ready: true });
    engine.behave({ tokens: 1, tokenMs: 0 });
    await openCall(path.port, { carrier }).reply;
    await expect.poll(() => path.spool.depth().records).toBe(1);
  });

  it.runIf(carrier === "shared")(
    "records that nothing ran when the refusal and the gateway's reset cross",
    async () => {
      path.target({ ready: false });
      const ticket = await sendAndReset(path.port, {});
      await expect.poll(() => path.spool.depth().records).toBe(1);
      const [record] = await pendingRecords(path.spool, 10);
      expect(record).toMatchObject({ ...nothing, requestId: ticket.requestId });
    },
  );
});
