import { describe, expect, it } from "vitest";
import { carriers, openCall, startDataPath } from "../../fakes/data-path.ts";
import { startFakeEngine } from "../../fakes/engine.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";

const frame = 16 * 1024;
const frames = 4_000;

describe.each(carriers)("over a connection %s", (carrier) => {
  it("pauses the engine behind a slow reader instead of buffering, and then delivers every byte", async () => {
    const engine = await startFakeEngine({ tokens: frames, token: "x".repeat(frame) });
    const path = await startDataPath(engine.origin);
    let bytes = 0;
    let resume: (() => void) | undefined;
    const { reply } = openCall(path.port, {
      carrier,
      ticket: { maxTokens: frames },
      onData: (piece, res) => {
        bytes += piece.length;
        if (resume) return;
        res.pause();
        resume = () => res.resume();
      },
    });
    await expect.poll(() => engine.log[0]?.sentTokens ?? 0, { timeout: 10_000 }).toBeGreaterThan(10);
    // The engine comes to a stop: what lies between it and the reader is socket buffers, not the whole answer.
    let before = -1;
    await expect
      .poll(
        () => {
          const now = engine.log[0]?.sentTokens ?? 0;
          const isStill = now === before;
          before = now;
          return isStill;
        },
        { timeout: 20_000, interval: 500 },
      )
      .toBe(true);
    expect(before * frame).toBeLessThan(24 * 1024 * 1024);
    expect(engine.log[0]?.end).toBeUndefined();
    resume?.();
    const end = await reply;
    expect(end.usage).toMatchObject({ output: frames, source: "engine", endReason: "stop" });
    expect(bytes).toBeGreaterThan(frame * frames);
    await path.close();
    await engine.close();
  });

  it("does not wait for ever for a reader that never reads", async () => {
    const engine = await startFakeEngine({ tokens: frames, token: "x".repeat(frame) });
    const path = await startDataPath(engine.origin, { limits: { stalledClientMs: 300 } });
    const { reply } = openCall(path.port, { carrier, ticket: { maxTokens: frames }, onData: (_, res) => res.pause() });
    reply.catch(() => {});
    await expect.poll(() => engine.log[0]?.end, { timeout: 20_000 }).toBe("aborted");
    await expect.poll(() => path.spool.depth().records).toBe(1);
    const [record] = await pendingRecords(path.spool, 1);
    expect(record?.endReason).toBe("client_gone");
    await path.close();
    await engine.close();
  });
});
