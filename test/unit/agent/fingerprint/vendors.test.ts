// Makers besides NVIDIA, by outputs that are written from their tools' documentation (test/fixtures/gpu-tools).
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { allGpuLoads, allGpus, otherVendors } from "../../../../agent/fingerprint/all-gpus.ts";
import type { GpuFacts } from "../../../../agent/fingerprint/gpu.ts";
import { amdVendor } from "../../../../agent/fingerprint/vendors/amd.ts";
import { appleVendor } from "../../../../agent/fingerprint/vendors/apple.ts";
import { ascendVendor } from "../../../../agent/fingerprint/vendors/ascend.ts";
import { intelVendor } from "../../../../agent/fingerprint/vendors/intel.ts";
import { plainGpu, type RunVendorTool } from "../../../../agent/fingerprint/vendors/vendor.ts";

const gib = 1024 ** 3;
const signal = AbortSignal.timeout(30_000);
const fixture = (name: string) => readFileSync(join(import.meta.dirname, "../../../fixtures/gpu-tools", name), "utf8");
/** Replies by the tool and its arguments; other tools are not installed, other arguments fail. */
const tools =
  (answers: Readonly<Record<string, string>>): RunVendorTool =>
  async (tool, args) => {
    const name = Object.keys(answers).find((key) => key === [tool, ...args].join(" "));
    if (name !== undefined) return { kind: "ok", output: answers[name] ?? "" };
    const isInstalled = Object.keys(answers).some((key) => key.split(" ")[0] === tool);
    return isInstalled ? { kind: "failed", reason: "unknown option" } : { kind: "missing" };
  };
const nodes = async () =>
  new Map([
    ["0000:83:00.0", "/dev/dri/renderD128"],
    ["0000:29:00.0", "/dev/dri/renderD129"],
  ]);
const amd = {
  "amd-smi static --json": fixture("amd-static.json"),
  "amd-smi metric --json": fixture("amd-metric.json"),
};
const rocm = "rocm-smi --showproductname --showuniqueid --showbus --showmeminfo vram --showuse --json";
const xpu = {
  "xpu-smi discovery -j": fixture("xpu-discovery.json"),
  "xpu-smi discovery -d 0 -j": fixture("xpu-device.json"),
  "xpu-smi health -d 0 -j": fixture("xpu-health.json"),
  "xpu-smi stats -d 0 -j": fixture("xpu-stats.json"),
};

describe("AMD GPUs", () => {
  it("are listed by amd-smi with memory, figures, device files and health", async () => {
    const found = await amdVendor(tools(amd), nodes).read(signal);
    expect(found).toMatchObject({
      kind: "found",
      driverVersion: "6.12.12",
      gpus: [
        {
          gpu: {
            uuid: "AMD-6F1F0A2B3C4D5E6F",
            name: "AMD Instinct MI300X",
            type: "MI300X-192GB",
            memoryBytes: 196_592 * 1024 ** 2,
            healthy: true,
            pciBusId: "0000:83:00.0",
            powerLimitWatts: 750,
          },
          access: { vendor: "amd", cdi: ["amd.com/gpu=0"], devices: ["/dev/kfd", "/dev/dri/renderD128"] },
          load: { utilizationRatio: 0.4, memoryUsedBytes: gib, temperatureCelsius: 51, powerWatts: 310 },
        },
        {
          gpu: { uuid: "AMD-6F1F0A2B3C4D5E70", healthy: false, eccUncorrected: 2 },
          access: { devices: [] },
        },
      ],
    });
  });

  it("are listed by rocm-smi where only that is installed", async () => {
    const found = await amdVendor(tools({ [rocm]: fixture("rocm.json") }), nodes).read(signal);
    expect(found).toMatchObject({
      kind: "found",
      gpus: [
        {
          gpu: {
            uuid: "AMD-9b1c2d3e4f506172",
            name: "Radeon RX 7900 XTX",
            type: "RX7900XTX-24GB",
            memoryBytes: 25_753_026_560,
          },
          load: { utilizationRatio: 0.07, memoryUsedBytes: 416_378_880 },
        },
      ],
    });
  });

  it("are broken, not absent, when the tool fails or prints something else", async () => {
    const failing = async () => ({ kind: "failed", reason: "no permission" }) as const;
    expect(await amdVendor(failing, nodes).read(signal)).toEqual({ kind: "broken", reason: "amd-smi: no permission" });
    const other = tools({ "amd-smi static --json": "GPU: 0" });
    expect(await amdVendor(other, nodes).read(signal)).toMatchObject({ kind: "broken" });
    expect(await amdVendor(tools({}), nodes).read(signal)).toEqual({ kind: "none" });
  });
});

it("lists Intel GPUs with their memory, figures and device files", async () => {
  const found = await intelVendor(tools(xpu), nodes, "box").read(signal);
  expect(found).toMatchObject({
    kind: "found",
    gpus: [
      {
        gpu: { uuid: "XPU-box-0000:29:00.0", memoryBytes: 128 * gib, healthy: true, type: "Max1550-128GB" },
        access: { vendor: "intel", devices: ["/dev/dri/renderD129"], visible: { variable: "ZE_AFFINITY_MASK" } },
        load: { utilizationRatio: 0.25, memoryUsedBytes: 2 * gib, temperatureCelsius: 41, powerWatts: 212.5 },
      },
    ],
  });
  const unknown = await intelVendor(tools(xpu), async () => new Map(), "box").read(signal);
  expect(unknown).toMatchObject({ gpus: [{ access: { devices: [] } }] });
  const sick = fixture("xpu-health.json").replace('channels are healthy.", "status": "OK"', '", "status": "Critical"');
  const ill = await intelVendor(tools({ ...xpu, "xpu-smi health -d 0 -j": sick }), nodes, "box").read(signal);
  expect(ill).toMatchObject({
    gpus: [{ gpu: { healthy: false, unhealthyReason: expect.stringContaining("memory") } }],
  });
});

it("lists Ascend NPUs with their memory, health and device files", async () => {
  const found = await ascendVendor(tools({ "npu-smi info": fixture("npu-info.txt") }), "box").read(signal);
  expect(found).toMatchObject({
    kind: "found",
    driverVersion: "24.1.0",
    gpus: [
      {
        gpu: {
          uuid: "NPU-box-0000:c1:00.0",
          name: "Ascend 910B3",
          type: "Ascend910B-64GB",
          memoryBytes: 64 * gib,
          healthy: true,
        },
        access: { devices: expect.arrayContaining(["/dev/davinci0", "/dev/davinci_manager"]) },
        load: { utilizationRatio: 0.1, memoryUsedBytes: 3318 * 1024 ** 2, powerWatts: 101.8, temperatureCelsius: 43 },
      },
      { gpu: { index: 1, healthy: false, unhealthyReason: "npu-smi reports Alarm" } },
    ],
  });
});

it("lists the GPU of a Mac with a share of its memory, and none elsewhere", async () => {
  const run = tools({ "/usr/sbin/system_profiler SPDisplaysDataType -json": fixture("apple-displays.json") });
  expect(await appleVendor(run, "mac", 32 * gib, "darwin").read(signal)).toMatchObject({
    kind: "found",
    gpus: [{ gpu: { uuid: "APPLE-mac-0", name: "Apple M2 Pro", type: "M2Pro", memoryBytes: 24 * gib } }],
  });
  expect(await appleVendor(run, "mac", 32 * gib, "linux").read(signal)).toEqual({ kind: "none" });
});

describe("GPUs of all makers", () => {
  const none = { name: "gpu", read: async (): Promise<GpuFacts> => ({ kind: "none" }) };
  const vendors = otherVendors({ run: tools(amd), host: "box", drm: "/nowhere" });

  it("are one list, with the ways to each", async () => {
    const all = allGpus(none, vendors);
    expect(await all.probe.read(signal)).toMatchObject({
      kind: "found",
      driverVersion: "",
      gpus: [{ uuid: "AMD-6F1F0A2B3C4D5E6F" }, { uuid: "AMD-6F1F0A2B3C4D5E70" }],
    });
    expect(all.accessOf("AMD-6F1F0A2B3C4D5E6F")).toMatchObject({ vendor: "amd", cdi: ["amd.com/gpu=0"], groups: [] });
    expect(all.accessOf("AMD-other")).toBeUndefined();
    expect(await allGpuLoads(vendors).read(signal)).toMatchObject([
      { uuid: "AMD-6F1F0A2B3C4D5E6F", utilizationRatio: 0.4, memoryUsedBytes: gib },
      { uuid: "AMD-6F1F0A2B3C4D5E70" },
    ]);
  });

  it("are listed beside a maker whose tool fails, which is named", async () => {
    const failing: RunVendorTool = async (tool) =>
      tool === "xpu-smi" ? { kind: "failed", reason: "timeout" } : { kind: "missing" };
    const nvidia: GpuFacts = {
      kind: "found",
      driverVersion: "580",
      cudaVersion: "13.0",
      gpus: [plainGpu({ uuid: "GPU-a", index: 0, name: "H100", memoryBytes: 80 * gib })],
    };
    const probe = { name: "gpu", read: async () => nvidia };
    expect(await allGpus(probe, otherVendors({ run: failing })).probe.read(signal)).toMatchObject({
      ...nvidia,
      gpus: [{ uuid: "GPU-a", healthy: true }],
      broken: new Map([["intel", "xpu-smi: timeout"]]),
    });
    const broken = { name: "gpu", read: async (): Promise<GpuFacts> => ({ kind: "broken", reason: "exit 9" }) };
    expect(await allGpus(broken, vendors).probe.read(signal)).toMatchObject({
      kind: "found",
      gpus: [{ uuid: "AMD-6F1F0A2B3C4D5E6F" }, { uuid: "AMD-6F1F0A2B3C4D5E70" }],
      broken: new Map([["nvidia", "exit 9"]]),
    });
  });

  it("are none without any tool, and broken while one fails", async () => {
    expect(await allGpus(none, otherVendors({ run: tools({}) })).probe.read(signal)).toEqual({ kind: "none" });
    const failing: RunVendorTool = async () => ({ kind: "failed", reason: "timeout" });
    expect(await allGpus(none, otherVendors({ run: failing })).probe.read(signal)).toMatchObject({ kind: "broken" });
  });
});
