import { describe, expect, it } from "vitest";
import { virtualGpus } from "../../../../agent/fingerprint/inventory.ts";
import { demoModels } from "../../../../control-plane/catalog/demo-models.ts";

const gib = 1024 ** 3;

describe("a host without NVIDIA GPUs", () => {
  it("fits three deployments of every demo model at once on two cores and 4 GB", () => {
    // A machine sold as 4 GB shows a little less.
    const gpus = virtualGpus({ hostname: "h", cpuCores: 2, memoryBytes: 3.8 * gib }, {});
    expect(gpus.length).toBeGreaterThanOrEqual(3);
    expect(demoModels.length).toBeGreaterThan(0);
    for (const model of demoModels) for (const gpu of gpus) expect(gpu.memoryBytes).toBeGreaterThan(model.memoryBytes);
  });

  it.each([
    [1, 1],
    [2, 4],
    [8, 16],
    [64, 256],
  ])("never offers more memory than three quarters of its own with %i cores and %i GB", (cpuCores, gb) => {
    const gpus = virtualGpus({ hostname: "h", cpuCores, memoryBytes: gb * gib }, {});
    expect(gpus.length).toBeGreaterThanOrEqual(1);
    expect(gpus.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0)).toBeLessThanOrEqual(0.75 * gb * gib);
  });

  it("offers two per core, or one per 3 GiB where that is more, at most 64", () => {
    const count = (cpuCores: number, memoryGib: number) =>
      virtualGpus({ hostname: "h", cpuCores, memoryBytes: memoryGib * gib }, {}).length;
    expect(count(8, 16)).toBe(14);
    expect(count(8, 32)).toBe(16);
    expect(count(8, 96)).toBe(32);
    expect(count(2, 24)).toBe(8);
    expect(count(96, 512)).toBe(64);
  });

  it("names its GPUs the same at every start", () => {
    const host = { hostname: "box", cpuCores: 2, memoryBytes: 8 * gib };
    expect(virtualGpus(host, {})).toEqual(virtualGpus(host, {}));
    expect(virtualGpus(host, {})[1]).toMatchObject({ uuid: "cpu-box-1", index: 1, type: "other", healthy: true });
  });

  it("offers the number of the operator's setting", () => {
    const host = { hostname: "box", cpuCores: 2, memoryBytes: 8 * gib };
    expect(virtualGpus(host, { gpus: 8, gpuMemoryBytes: gib })).toHaveLength(8);
    expect(virtualGpus(host, { gpuMemoryBytes: gib }).every(({ memoryBytes }) => memoryBytes === gib)).toBe(true);
    expect(virtualGpus(host, { gpus: 0 })).toEqual([]);
  });
});
