import { pino } from "pino";
import { expect, it } from "vitest";
import type { GpuSample } from "../../../../agent/fingerprint/gpu-load.ts";
import type { KernelRecord } from "../../../../agent/fingerprint/kernel-log.ts";
import { createXidWatch } from "../../../../agent/fingerprint/xid.ts";
import { gpuFaults } from "../../../../agent/wiring/inventory-watch.ts";

const signal = AbortSignal.timeout(30_000);
const gpus = [
  { uuid: "GPU-0", pciBusId: "00000000:3B:00.0" },
  { uuid: "GPU-1", pciBusId: "00000000:5E:00.0", faultId: "ecc:boot:1", unhealthyReason: "1 uncorrected memory error" },
];

const silent = async () => [];

function machine(sample: (signal: AbortSignal) => Promise<readonly GpuSample[]> = silent) {
  const unread: KernelRecord[] = [];
  const xids = createXidWatch({ read: async () => unread.splice(0) }, pino({ level: "silent" }));
  let looks = 0;
  const inventory = { current: () => ({ gpus }), lookSoon: () => void looks++ };
  return { unread, faults: gpuFaults(inventory, xids, sample), looks: () => looks };
}

it("returns an unread fault in the kernel log and reports it to the inventory", async () => {
  const { unread, faults, looks } = machine();
  expect(await faults(["GPU-0"], signal)).toEqual([]);
  unread.push({ bootUs: 5, message: "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus." });
  const found = await faults(["GPU-0"], signal);
  expect(found).toMatchObject([{ uuid: "GPU-0", reason: expect.stringContaining("fallen off the bus") }]);
  expect(looks()).toBe(1);
  // The same occurrence keeps its name.
  expect(await faults(["GPU-0"], signal)).toEqual(found);
});

it("returns only faults of the requested GPUs, with the facts of the inventory", async () => {
  const { faults } = machine();
  expect(await faults(["GPU-1"], signal)).toEqual([
    { uuid: "GPU-1", id: "ecc:boot:1", reason: "1 uncorrected memory error" },
  ]);
  expect(await faults([], signal)).toEqual([]);
});

it("reports a GPU that is no longer listed, or has new memory errors, at once; none if the tool does not reply", async () => {
  const told = (samples: readonly object[]) => machine(async () => samples as readonly GpuSample[]);
  const gone = told([{ uuid: "GPU-7" }]);
  expect(await gone.faults(["GPU-0"], signal)).toMatchObject([
    { uuid: "GPU-0", reason: expect.stringContaining("not listed any more") },
  ]);
  expect(gone.looks()).toBe(1);
  const ill = told([{ uuid: "GPU-0", eccUncorrected: 2 }]);
  expect(await ill.faults(["GPU-0"], signal)).toMatchObject([
    { uuid: "GPU-0", reason: "2 uncorrected memory errors since the driver started: reset the GPU" },
  ]);
  expect(await told([{ uuid: "GPU-0", eccUncorrected: 0 }]).faults(["GPU-0"], signal)).toEqual([]);
  const broken = machine(async () => Promise.reject(new Error("nvidia-smi: it has failed")));
  expect(await broken.faults(["GPU-0"], signal)).toEqual([]);
  expect(broken.looks()).toBe(0);
});
