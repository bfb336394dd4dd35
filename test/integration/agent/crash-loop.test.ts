// P14: a server that served and dies again and again. The clock is stepped over the pauses between its lives.
import { afterEach, describe, expect, it, vi } from "vitest";
import { type ReconciledHost, startReconciledHost } from "../../fakes/reconciled-host.ts";

const patient = { timeout: 30_000, interval: 50 };
const minute = 60_000;

describe("a model server that dies again and again after it served", () => {
  let host: ReconciledHost | undefined;
  afterEach(async () => host?.close());

  it("is started after 10, 20, 40 and 80 s, and after the fifth death within 30 minutes fails with its last 40 lines", async () => {
    let aheadMs = 0;
    const clock = () => performance.now() + aheadMs;
    const one = startReconciledHost({ clock, random: () => 0.5 });
    host = one;
    const lines = Array.from({ length: 60 }, (_, index) => `said ${index + 1}`);
    const [dying, sound] = [one.spec({ lines }), one.spec()];
    const all = [dying, sound];
    one.want(...all);
    const ready = (spec: typeof dying) => expect(one.report(spec.instanceId)?.phase).toBe("ready");
    await vi.waitFor(() => all.forEach(ready), patient);
    const neighbour = one.pid(sound.instanceId);

    for (const pauseMs of [10_000, 20_000, 40_000, 80_000]) {
      const pid = one.pid(dying.instanceId);
      process.kill(pid, "SIGKILL");
      const diedMs = clock();
      await vi.waitFor(() => {
        expect(one.report(dying.instanceId)).toMatchObject({ phase: "pending", failCode: "signal_sigkill" });
      }, patient);
      // The last second passes by itself: a start before its time would be seen.
      aheadMs += pauseMs - 1_000;
      one.want(...all);
      await vi.waitFor(() => expect(one.pid(dying.instanceId)).not.toBe(pid), patient);
      expect(clock() - diedMs).toBeGreaterThanOrEqual(pauseMs);
      await vi.waitFor(() => ready(dying), patient);
    }
    process.kill(one.pid(dying.instanceId), "SIGKILL");
    await vi.waitFor(() => expect(one.report(dying.instanceId)?.phase).toBe("failed"), patient);

    const { failCode, failMessage = "" } = one.report(dying.instanceId) ?? {};
    expect(failCode).toBe("signal_sigkill");
    expect(failMessage).toContain("ended 5 times within 30 minutes");
    const tail = failMessage.split("Last lines of its log:\n")[1]?.split("\n") ?? [];
    expect(tail).toHaveLength(40);
    expect(tail.filter((line) => line.startsWith("said ")).at(-1)).toBe("said 60");
    expect(tail).not.toContain("said 20");

    // It stays so, and nobody else was touched.
    aheadMs += 60 * minute;
    one.want(...all);
    await vi.waitFor(() => expect(one.report(sound.instanceId)?.phase).toBe("ready"), patient);
    expect(one.report(dying.instanceId)?.phase).toBe("failed");
    expect(one.pid(sound.instanceId)).toBe(neighbour);
  });
});
