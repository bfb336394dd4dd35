import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { openGpuCatalogue, readGpuTypes } from "../../../../control-plane/catalog/gpu-catalogue.ts";
import { gpuLimits } from "../../../../control-plane/quotas/gpu-limits.ts";
import {
  gpuTypeOf,
  gpuTypes,
  inDisplayOrder,
  isGpuType,
  nominalBytes,
  reportedGpuType,
} from "../../../../proto/gpu.ts";

const folder = mkdtempSync(join(tmpdir(), "stoker-gpu-types-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const gb = 1e9;
const amd = (name: string, memoryBytes: number) => ({ uuid: "AMD-1", name, memoryBytes });

describe("GPU types before an operator's file", () => {
  it("have the contract's nine names first", () => {
    expect(gpuTypes.slice(0, 9)).toEqual([
      ...["B300-270GB", "B200-180GB", "H200-141GB", "H100-80GB", "A100-80GB", "L40S-48GB", "L4-24GB"],
      ...["RTXPRO6000-96GB", "other"],
    ]);
  });

  it("are chosen by the longest mark of the vendor, then by the largest memory that fits", () => {
    expect(gpuTypeOf({ uuid: "APPLE-a-0", name: "Apple M3 Max", memoryBytes: 96 * gb })).toBe("M3Max");
    expect(gpuTypeOf({ uuid: "NPU-a-0", name: "Ascend 910B", memoryBytes: 34 * gb })).toBe("Ascend910B-32GB");
    expect(gpuTypeOf({ uuid: "XPU-a-0", name: "AMD Instinct MI300X", memoryBytes: 200 * gb })).toBe("other");
    expect(gpuTypeOf({ uuid: "cpu-host-0", name: "MI300X", memoryBytes: 200 * gb })).toBe("other");
  });

  it("replace the type other of an older agent and unknown types of a newer one, but not those of slices", () => {
    const gpu = amd("AMD Instinct MI300X", 200 * gb);
    expect(reportedGpuType({ ...gpu, type: "other" })).toBe("MI300X-192GB");
    expect(reportedGpuType({ ...gpu, type: "MI999-1GB" })).toBe("MI300X-192GB");
    expect(reportedGpuType({ ...gpu, name: "Unknown", type: "MI999-1GB" })).toBe("other");
    expect(reportedGpuType({ ...gpu, type: "other", migProfile: "1g.5gb" })).toBe("other");
    expect(reportedGpuType({ ...gpu, name: "Unknown", type: "H100-80GB" })).toBe("H100-80GB");
  });
});

it.each([
  ["{}", /types/],
  ['{"types":[{"name":"a b","vendor":"amd","marks":["MI"]}]}', /name/],
  ['{"types":[{"name":"a","vendor":"acme","marks":["MI"]}]}', /vendor/],
  ['{"types":[{"name":"a","vendor":"amd","marks":[]}]}', /marks/],
  ['{"types":[{"name":"a","vendor":"amd","marks":["MI"],"memory":4}]}', /types\/0/],
  ["[", /JSON/],
])("refuses %s with the place of the error", (text, place) => {
  expect(() => readGpuTypes(text)).toThrow(place);
});

describe("an operator's file", () => {
  let removeTypes = () => {};
  // Files of one worker share the module.
  afterAll(() => removeTypes());

  it("names the setting when it cannot be read", async () => {
    await expect(openGpuCatalogue(join(folder, "missing.json"))).rejects.toThrow(/STOKER_GPU_TYPES.*ENOENT/);
  });

  it("adds types, wins over the agent's type, and keeps chosen devices at other", async () => {
    expect(isGpuType("Frontier-500GB")).toBe(false);
    const file = join(folder, "types.json");
    const types = [
      { name: "Frontier-500GB", vendor: "amd", memory_gb: 500, marks: ["Frontier"] },
      { name: "other", vendor: "nvidia", marks: ["T4"] },
    ];
    writeFileSync(file, JSON.stringify({ types }));
    removeTypes = await openGpuCatalogue(file);
    expect(isGpuType("Frontier-500GB")).toBe(true);
    expect(nominalBytes("Frontier-500GB")).toBe(500 * gb);
    expect(gpuTypes.at(-1)).toBe("Frontier-500GB");
    expect(reportedGpuType({ ...amd("Frontier 1", 500 * gb), type: "other" })).toBe("Frontier-500GB");
    const t4 = { uuid: "GPU-1", name: "Tesla T4", memoryBytes: 16 * gb, type: "T4-16GB" };
    expect(reportedGpuType(t4)).toBe("other");
    expect(inDisplayOrder(["Frontier-500GB", "other", "H100-80GB"])).toEqual(["H100-80GB", "other", "Frontier-500GB"]);
  });

  it("gives limits to its types where the installation has them", () => {
    const record = { isAdmin: false, max: { "H100-80GB": 4 }, min: {} };
    const { max } = gpuLimits(record, { perType: 8 }, ["Frontier-500GB"]);
    expect(max).toMatchObject({ "H100-80GB": 4, other: 8, "Frontier-500GB": 8 });
    expect(Object.keys(gpuLimits(record, { perType: 8 }).max)).toHaveLength(9);
  });

  it("has no effect after it is removed", () => {
    removeTypes();
    expect(isGpuType("Frontier-500GB")).toBe(false);
    expect(nominalBytes("Frontier-500GB")).toBe(0);
    expect(gpuTypes).not.toContain("Frontier-500GB");
    const t4 = { uuid: "GPU-1", name: "Tesla T4", memoryBytes: 16 * gb, type: "T4-16GB" };
    expect(reportedGpuType(t4)).toBe("T4-16GB");
  });
});
