// A real ingress and reconciler over real processes: a request that ends or stalls its model server is found and refused.
import { afterEach, describe, expect, it, vi } from "vitest";
import { createCanary } from "../../agent/reconcile/watch-progress.ts";
import { type DataPath, openCall, startDataPath } from "../fakes/data-path.ts";
import { type ReconciledHost, startReconciledHost } from "../fakes/reconciled-host.ts";

const patient = { timeout: 30_000, interval: 25 };
const unused = "http://127.0.0.1:9";

describe("a request that stops its model server", () => {
  let host: ReconciledHost;
  let path: DataPath;
  let aheadMs = 0;
  afterEach(async () => {
    await host.close();
    await path.close();
  });

  async function start(script: object) {
    aheadMs = 0;
    path = await startDataPath(unused);
    host = startReconciledHost({
      dataPath: path.ingress,
      clock: () => performance.now() + aheadMs,
      progress: {
        canary: createCanary(500),
        limits: { stallMs: 500, perPromptTokenMs: 1, longestMs: 60_000, idleMs: 600_000 },
      },
    });
    const spec = host.spec(script);
    const instanceId = spec.instanceId as never;
    const ready = () =>
      vi.waitFor(() => expect(host.report(spec.instanceId)?.phase).toBe("ready"), patient).then(() => undefined);
    host.want(spec);
    await ready();
    return {
      spec,
      ready,
      ask: (prompt: string, user = "a", signal?: AbortSignal) =>
        openCall(path.port, {
          path: `/i/${spec.instanceId}/v1/completions`,
          ticket: { instanceId, stream: false },
          body: { prompt, user },
          ...(signal && { signal }),
        }).reply,
      inFlight: (count: number) =>
        vi.waitFor(() => expect(path.ingress.stats(instanceId).inFlight).toBe(count), patient),
      /** Waits for this many restarts, then lets the back-off pass. */
      async restarted(count: number) {
        await vi.waitFor(() => {
          // Probes are seconds apart on this clock.
          aheadMs += 4_000;
          host.want(spec);
          expect(host.report(spec.instanceId)?.restarts).toBe(count);
        }, patient);
        aheadMs += 6 * 60_000;
        host.want(spec);
        await ready();
      },
    };
  }

  it("is refused at its third coming, and its deaths do not count against the restart limit", async () => {
    const one = await start({ dieOn: "BOMB" });
    expect((await one.ask("hello")).status).toBe(200);
    for (const death of [1, 2]) {
      expect((await one.ask("BOMB", `user ${death}`)).status).toBe(502);
      await one.restarted(death);
    }
    const pid = host.pid(one.spec.instanceId);
    const refused = await one.ask("BOMB", "another user");
    expect([refused.status, refused.refusal]).toEqual([422, "stops_server"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect(refused.text).toMatch(/running each time the model server stopped.*Change the request/);
    expect((await one.ask("hello")).status).toBe(200);
    expect(host.pid(one.spec.instanceId)).toBe(pid);

    // Five crashes in 30 minutes fail an instance: with those two there are five.
    for (const death of [3, 4, 5]) {
      process.kill(host.pid(one.spec.instanceId), "SIGKILL");
      await one.restarted(death);
    }
    expect(host.report(one.spec.instanceId)?.phase).toBe("ready");
  }, 60_000);

  it("is found when the server freezes instead, also if its client hangs up at once", async () => {
    const one = await start({ stallOn: "BOMB" });
    expect((await one.ask("hello")).status).toBe(200);
    for (const death of [1, 2]) {
      const client = new AbortController();
      const gone = one.ask("BOMB", `user ${death}`, client.signal);
      const hasLeft = expect(gone).rejects.toThrow();
      await one.inFlight(1);
      const waiting = one.ask(`waiting ${death}`);
      await one.inFlight(2);
      client.abort();
      await hasLeft;
      await one.restarted(death);
      expect((await waiting).status).toBe(502);
    }
    expect(await one.ask("BOMB")).toMatchObject({ status: 422, refusal: "stops_server" });
    expect((await one.ask("waiting 1")).status).toBe(200);
  }, 60_000);
});
