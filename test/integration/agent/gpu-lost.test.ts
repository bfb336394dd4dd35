// A GPU that fails under a model server: what the host says of the end, and what it does not blame on the GPU.
import { afterEach, expect, it, vi } from "vitest";
import type { GpuFault } from "../../../agent/reconcile/ports.ts";
import { type ReconciledHost, startReconciledHost } from "../../fakes/reconciled-host.ts";

const patient = { timeout: 30_000, interval: 50 };
const uuid = "cpu-host-0";
const fault = (id: string, reason: string): GpuFault => ({ uuid, id, reason });
let host: ReconciledHost | undefined;
afterEach(() => host?.close());

async function killedUnder(before: readonly GpuFault[], after: readonly GpuFault[]) {
  let faults = before;
  const restarts: string[] = [];
  const none = () => {};
  const running = startReconciledHost({
    gpuFaults: async (uuids) => faults.filter((one) => uuids.includes(one.uuid)),
    metrics: {
      phase: none,
      took: none,
      downloadFailed: none,
      restarted: (_, reason) => void restarts.push(reason),
      gone: none,
    },
  });
  host = running;
  const spec = running.spec({}, { gpuUuids: [uuid] });
  running.want(spec);
  await vi.waitFor(() => expect(running.report(spec.instanceId)?.phase).toBe("ready"), patient);
  faults = after;
  process.kill(running.pid(spec.instanceId), "SIGKILL");
  await vi.waitFor(() => expect(restarts).toHaveLength(1), patient);
  return { reason: restarts[0], told: () => running.report(spec.instanceId) };
}

it("an end after a fault of its GPU is told and counted as the GPU's, with what the fault means", async () => {
  const { reason, told } = await killedUnder([], [fault("xid:79:boot:1", "Xid 79: it has fallen off the bus")]);
  expect(reason).toBe("gpu_lost");
  await vi.waitFor(() => {
    expect(told()?.failCode).toBe("gpu_lost");
    expect(told()?.failMessage).toMatch(/cpu-host-0: Xid 79: it has fallen off the bus/);
  }, patient);
});

it("a fault that the GPU had before the model server started, or another GPU has, is not blamed", async () => {
  const old = fault("ecc:boot:1", "1 uncorrected memory error");
  const other = { ...fault("gone:now", "it is not listed any more"), uuid: "cpu-host-1" };
  const { reason } = await killedUnder([old], [old, other]);
  expect(reason).toBe("exit");
});

it("a second instance that is given the same GPU is not started, and the host says why; the first one serves on", async () => {
  const running = startReconciledHost({});
  host = running;
  const [first, second] = [running.spec({}, { gpuUuids: [uuid] }), running.spec({}, { gpuUuids: [uuid] })];
  running.want(first);
  await vi.waitFor(() => expect(running.report(first.instanceId)?.phase).toBe("ready"), patient);
  const pid = running.pid(first.instanceId);
  running.want(first, second);
  await vi.waitFor(() => {
    const { phase, failCode, failMessage } = running.report(second.instanceId) ?? {};
    expect({ phase, failCode }).toEqual({ phase: "pending", failCode: "gpu_in_use" });
    expect(failMessage).toContain(`another instance on this host has the GPU ${uuid}`);
    expect(failMessage).not.toContain(first.instanceId);
  }, patient);
  expect(running.report(first.instanceId)).toMatchObject({ phase: "ready", restarts: 0 });
  expect(running.pid(first.instanceId)).toBe(pid);
});
