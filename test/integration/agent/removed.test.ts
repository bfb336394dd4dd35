// The data path of an instance that a tombstone removes.
import { afterEach, expect, it, vi } from "vitest";
import { type ReconciledHost, startReconciledHost } from "../../fakes/reconciled-host.ts";

const patient = { timeout: 30_000, interval: 50 };
let host: ReconciledHost | undefined;
afterEach(() => host?.close());

it("makes the data path forget an instance once it is removed, not before", async () => {
  const calls: string[] = [];
  const running = startReconciledHost({
    dataPath: {
      setTargets: (targets) => void calls.push(targets.length > 0 ? "routed" : "not routed"),
      stats: () => ({ inFlight: 0, waiting: 0, tokensPerSecond: 0 }),
      rest: () => true,
      resume: () => {},
      onIdle: () => {},
      markDraining: () => {},
      serverEnded: () => 0,
      forget: (id) => void calls.push(`forget ${id}`),
      drained: async () => true,
      cut: async () => {},
    },
  });
  host = running;
  const spec = running.spec();
  running.want(spec);
  await vi.waitFor(() => expect(running.report(spec.instanceId)?.phase).toBe("ready"), patient);
  expect(calls).not.toContain(`forget ${spec.instanceId}`);
  running.remove(spec.instanceId);
  await vi.waitFor(() => expect(calls).toContain(`forget ${spec.instanceId}`), patient);
  expect(calls[calls.indexOf(`forget ${spec.instanceId}`) - 1]).toBe("not routed");
  expect(running.report(spec.instanceId)).toBeUndefined();
});
