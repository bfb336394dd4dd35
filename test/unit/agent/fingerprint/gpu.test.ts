import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { cudaVersionIn } from "../../../../agent/fingerprint/driver.ts";
import { parseNvidiaSmi } from "../../../../agent/fingerprint/gpu.ts";
import { gpuTypeOf } from "../../../../agent/fingerprint/gpu-type.ts";

const fixture = (name: string): string =>
  readFileSync(join(import.meta.dirname, "../../../fixtures/nvidia-smi", name), "utf8");
const mib = 1024 * 1024;

describe("nvidia-smi's list", () => {
  it("becomes GPUs with their contract type, memory in bytes and uuid", () => {
    const { gpus, driverVersion } = parseNvidiaSmi(fixture("eight-h100.csv"));
    expect(gpus).toHaveLength(8);
    expect(driverVersion).toBe("570.86.15");
    expect(gpus[0]).toMatchObject({ index: 0, type: "H100-80GB", memoryBytes: 81559 * mib, healthy: true });
    expect(new Set(gpus.map(({ uuid }) => uuid)).size).toBe(8);
  });

  it("marks a GPU with uncorrected memory errors as unhealthy, and no other", () => {
    const ill = parseNvidiaSmi(fixture("eight-h100.csv")).gpus.filter(({ healthy }) => !healthy);
    expect(ill.map(({ index, unhealthyReason }) => [index, unhealthyReason])).toEqual([
      [2, "2 uncorrected memory errors since the driver started"],
    ]);
  });

  it("takes what is not of the contract's sizes as other", () => {
    const { gpus } = parseNvidiaSmi(fixture("mixed.csv"));
    expect(gpus.map(({ type }) => type)).toEqual(["L4-24GB", "other", "other", "RTXPRO6000-96GB"]);
    expect(gpus.every(({ healthy }) => healthy)).toBe(true);
  });

  it("offers no GPU whose memory it does not tell", () => {
    const { gpus } = parseNvidiaSmi(fixture("memory-not-available.csv"));
    expect(gpus).toMatchObject([
      { memoryBytes: 0, healthy: false, unhealthyReason: expect.stringContaining("memory") },
    ]);
  });

  it("leaves out lines that are no GPU", () => {
    expect(parseNvidiaSmi("No devices were found\n\n").gpus).toEqual([]);
  });
});

it.each([
  ["NVIDIA B300 SXM6 AC", 275_040, "B300-270GB"],
  ["NVIDIA B200", 183_359, "B200-180GB"],
  ["NVIDIA H200", 143_771, "H200-141GB"],
  ["NVIDIA H100 NVL", 95_830, "H100-80GB"],
  ["NVIDIA A100 80GB PCIe", 81_920, "A100-80GB"],
  ["NVIDIA L40S", 46_068, "L40S-48GB"],
  ["NVIDIA L40", 46_068, "other"],
  ["Tesla T4", 15_360, "other"],
])("%s with %i MiB is a %s", (name, memoryMib, type) => {
  expect(gpuTypeOf(name, memoryMib * mib)).toBe(type);
});

it("reads the CUDA version from the banner, of both spellings", () => {
  expect(cudaVersionIn("| NVIDIA-SMI 570.86.15    Driver Version: 570.86.15    CUDA Version: 12.8     |")).toBe("12.8");
  expect(cudaVersionIn("CUDA Version        : 13.0\n")).toBe("13.0");
  expect(cudaVersionIn("nothing of the kind")).toBe("");
});
