// An engine that answers its health page and makes no token any more; a GPU that is not free; a server that never stops talking.
import { rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createProbe } from "../../../agent/reconcile/health.ts";
import { createCanary } from "../../../agent/reconcile/watch-progress.ts";
import { longer } from "../../fakes/nightly.ts";
import { type ReconciledHost, startReconciledHost } from "../../fakes/reconciled-host.ts";

const patient = { timeout: 90_000, interval: 100 };
const gib = 1024 ** 3;
/** Suspected in seconds; the one token may still take a slow machine three, or its sound neighbour would count as frozen. */
const progress = {
  canary: createCanary(3_000),
  limits: { stallMs: 1_000, perPromptTokenMs: 1, longestMs: 60_000, idleMs: 3_000 },
};

describe("a model server that is frozen", () => {
  let host: ReconciledHost | undefined;
  afterEach(async () => host?.close());

  it("is noticed with requests in flight or without, ended and started again, and its neighbour is left alone", async () => {
    const one = startReconciledHost({ progress });
    host = one;
    const [busyFile, idleFile] = ["busy", "idle"].map((name) => join(one.folder, name)) as [string, string];
    const busy = one.spec({ freezeFile: busyFile });
    const idle = one.spec({ freezeFile: idleFile });
    const sound = one.spec();
    one.want(busy, idle, sound);
    const specs = [busy, idle, sound];
    await vi.waitFor(() => {
      for (const { instanceId } of specs) expect(one.report(instanceId)?.phase).toBe("ready");
    }, patient);
    const pids = specs.map(({ instanceId }) => one.pid(instanceId));
    const at = performance.now();
    writeFileSync(busyFile, "");
    writeFileSync(idleFile, "");
    one.stats(busy.instanceId, { inFlight: 2 });

    await vi.waitFor(() => {
      for (const { instanceId } of [busy, idle])
        expect(one.report(instanceId)).toMatchObject({ failCode: "engine_frozen", restarts: 1 });
    }, patient);
    expect(performance.now() - at).toBeLessThan(longer(90_000, 45_000));
    expect(one.report(busy.instanceId)?.failMessage).toMatch(
      /answers \/health and made no token for \d+ s with 2 requests in flight/,
    );
    expect(one.report(idle.instanceId)?.failMessage).toMatch(/not answered within 3 s/);
    expect(one.report(sound.instanceId)).toMatchObject({ phase: "ready", restarts: 0 });
    expect(one.pid(sound.instanceId)).toBe(pids[2]);

    for (const file of [busyFile, idleFile]) rmSync(file);
    one.stats(busy.instanceId, {});
    await vi.waitFor(() => {
      for (const { instanceId } of [busy, idle]) expect(one.report(instanceId)?.phase).toBe("ready");
    }, patient);
    expect(one.pid(busy.instanceId)).not.toBe(pids[0]);
  }, 180_000);

  it("from its start never counts as ready", async () => {
    const one = startReconciledHost({ progress });
    host = one;
    const file = join(one.folder, "frozen");
    writeFileSync(file, "");
    const spec = one.spec({ freezeFile: file });
    one.want(spec);
    await vi.waitFor(() => expect(one.report(spec.instanceId)?.failMessage).toContain("one token"), patient);
    expect(one.report(spec.instanceId)?.phase).toBe("loading");
  }, 120_000);
});

describe("a GPU whose memory is not free yet", () => {
  let host: ReconciledHost | undefined;
  afterEach(async () => host?.close());

  it("keeps a start waiting with its reason, and lets it through once it is", async () => {
    let usedGib = 60;
    const gpu = () => ({ uuid: "GPU-1", memoryUsedBytes: usedGib * gib, memoryTotalBytes: 80 * gib, processes: [] });
    const one = startReconciledHost({
      gpuMemory: { read: async () => [gpu()], limitMs: 60_000, everyMs: 50 },
    });
    host = one;
    const spec = one.spec({}, { gpuUuids: ["GPU-1"] });
    one.want(spec);
    await vi.waitFor(() => {
      expect(one.report(spec.instanceId)).toMatchObject({
        phase: "creating",
        failMessage: expect.stringContaining("60.0 of 80.0 GiB"),
      });
    }, patient);
    usedGib = 2;
    await vi.waitFor(
      () => expect(one.report(spec.instanceId)).toMatchObject({ phase: "ready", failMessage: "" }),
      patient,
    );
  }, 120_000);

  it("is said to be held when it never is, and the start is tried again", async () => {
    const gpu = {
      uuid: "GPU-1",
      memoryUsedBytes: 60 * gib,
      memoryTotalBytes: 80 * gib,
      processes: [{ pid: 7, name: "old" }],
    };
    const one = startReconciledHost({ gpuMemory: { read: async () => [gpu], limitMs: 200, everyMs: 50 } });
    host = one;
    const spec = one.spec({}, { gpuUuids: ["GPU-1"] });
    one.want(spec);
    await vi.waitFor(() => {
      const { phase, failCode, failMessage } = one.report(spec.instanceId) ?? {};
      expect({ phase, failCode }).toEqual({ phase: "pending", failCode: "gpu_memory_held" });
      expect(failMessage).toContain("process 7 (old)");
    }, patient);
  }, 120_000);
});

describe("a server that is not ours", () => {
  let server: Server | undefined;
  afterEach(() => server?.close().closeAllConnections());

  it("and never ends its answer is read to a limit, and called by its name", async () => {
    let sent = 0;
    const endless = createServer((_, answer) => {
      const more = (): void => {
        while (!answer.destroyed && answer.write(Buffer.alloc(64 * 1024, 32))) sent += 64 * 1024;
        sent += 64 * 1024;
        if (!answer.destroyed) answer.once("drain", more);
      };
      answer.writeHead(200, { "content-type": "application/json" });
      more();
    });
    server = endless;
    await new Promise<void>((resolve) => endless.listen(0, "127.0.0.1", resolve));
    const origin = `http://127.0.0.1:${(endless.address() as AddressInfo).port}`;
    const target = { origin, instanceId: "i", servedModelName: "m", isExternal: true };
    const found = await createProbe()(target, AbortSignal.timeout(30_000));
    expect(found).toMatchObject({ kind: "bad", why: expect.stringContaining("longer than 1 MiB") });
    expect(sent).toBeLessThan(32 * 1024 * 1024);
  });
});
