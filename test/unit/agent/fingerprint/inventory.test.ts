import { pino } from "pino";
import { describe, expect, it } from "vitest";
import type { FoundGpu, GpuFacts } from "../../../../agent/fingerprint/gpu.ts";
import { HostInventory, type InventoryOptions, virtualGpus } from "../../../../agent/fingerprint/inventory.ts";
import type { Xid } from "../../../../agent/fingerprint/xid.ts";

const [share] = virtualGpus({ hostname: "x", cpuCores: 1, memoryBytes: 1024 ** 3 }, { gpus: 1 });
const l4 = (uuid: string, index: number): FoundGpu => ({
  ...(share as FoundGpu),
  uuid,
  index,
  name: "NVIDIA L4",
  type: "L4-24GB",
  pciBusId: `00000000:${index}B:00.0`,
});
const [first, second] = [l4("GPU-a", 0), l4("GPU-b", 1)];
const found = (...gpus: FoundGpu[]): GpuFacts => ({ kind: "found", gpus, driverVersion: "550.1", cudaVersion: "12.4" });

function hostWith(
  answers: (GpuFacts | Error)[],
  xids: readonly Xid[] = [],
  isolation?: InventoryOptions["isolation"],
  more: Partial<InventoryOptions> = {},
): HostInventory {
  const next = async (): Promise<GpuFacts> => {
    const answer = answers.shift();
    if (!answer || answer instanceof Error) throw answer;
    return answer;
  };
  return new HostInventory({
    dataDir: "/",
    overrides: {},
    log: pino({ level: "silent" }),
    hostname: "box",
    bootId: "b1",
    xids: { xids, trouble: "" },
    ...(isolation ? { isolation } : {}),
    ...more,
    probes: {
      gpu: { name: "gpu", read: next },
      cpuMemory: { name: "cpu", read: async () => ({ cpuModel: "x", cpuCores: 2, memoryBytes: 4 * 1024 ** 3 }) },
      disk: { name: "disk", read: () => Promise.reject(new Error("no such file system")) },
      docker: { name: "docker", read: async () => ({ dockerVersion: "", hasNvidiaRuntime: false, cdiDevices: [] }) },
      hostParts: { name: "parts", read: async () => ({ cpuPhysicalCores: 1, disks: [], networks: [] }) },
      operatingSystem: { name: "os", read: async () => ({ os: "Debian" }) },
    },
  });
}
const healthOf = async (host: HostInventory): Promise<unknown> =>
  (await host.read(AbortSignal.timeout(10_000))).gpus?.map(({ uuid, healthy }) => [uuid, healthy]);

describe("the inventory", () => {
  it("warns of containers that reach their host as long as they do", async () => {
    const said = ["iptables cannot be used here", undefined];
    const host = hostWith([found(first), found(first)], [], async () => said.shift());
    const warnings = async () => (await host.read(AbortSignal.timeout(10_000))).warnings;
    expect(await warnings()).toContain("firewall: iptables cannot be used here");
    expect((await warnings())?.join()).not.toContain("firewall");
  });

  it("keeps a GPU that vanished as unhealthy, until it is back", async () => {
    const host = hostWith([found(first, second), found(first), found(first, second)]);
    expect(await healthOf(host)).toEqual([
      ["GPU-a", true],
      ["GPU-b", true],
    ]);
    expect(await healthOf(host)).toEqual([
      ["GPU-a", true],
      ["GPU-b", false],
    ]);
    expect(await healthOf(host)).toEqual([
      ["GPU-a", true],
      ["GPU-b", true],
    ]);
  });

  it("reports one occurrence for as long as a GPU is missing, and another one the next time", async () => {
    const host = hostWith([found(first), found(), found(), found(first), found()]);
    const faults: unknown[] = [];
    for (let look = 0; look < 5; look++) faults.push((await host.read(AbortSignal.timeout(10_000))).gpus?.[0]?.faultId);
    expect(faults[0]).toBe("");
    expect(faults[1]).toMatch(/^gone:/);
    expect(faults[2]).toBe(faults[1]);
    expect(faults[3]).toBe("");
    expect(faults[4]).toMatch(/^gone:/);
  });

  it("holds a fatal Xid against its GPU, also once that has fallen off the list", async () => {
    const xids = [{ pciAddress: "0000:1b:00", code: 79, bootUs: 7, text: "" }];
    const host = hostWith([found(first, second), found(first)], xids);
    for (let look = 0; look < 2; look++) {
      const { gpus } = await host.read(AbortSignal.timeout(10_000));
      expect(gpus?.map(({ healthy, faultId }) => [healthy, faultId])).toEqual([
        [true, ""],
        [false, "xid:79:b1:7"],
      ]);
    }
  });

  it("offers no rentals of GPUs where the container engine has no nvidia runtime", async () => {
    const rentals = async () => ({ rentalImages: ["torch"], rentalsUnavailable: "" });
    const offer = async (rentalsUseGpus: boolean) => {
      const host = hostWith([found(first)], [], undefined, { rentals, rentalsUseGpus });
      const { rentalImages, rentalsUnavailable } = await host.read(AbortSignal.timeout(10_000));
      return [rentalImages, rentalsUnavailable];
    };
    expect(await offer(true)).toEqual([[], "the Docker engine has no nvidia runtime"]);
    expect(await offer(false)).toEqual([["torch"], ""]);
  });

  it("reports why a probe failed", async () => {
    const { warnings } = await hostWith([{ kind: "none" }]).read(AbortSignal.timeout(10_000));
    expect(warnings).toEqual(["disk: no such file system"]);
  });

  it.each<[string, GpuFacts | Error]>([
    ["breaks", { kind: "broken", reason: "nvidia-smi: it did not answer within 5 s" }],
    ["is removed", { kind: "none" }],
    ["cannot be probed", new Error("EMFILE")],
  ])("of a host whose driver %s never turns into one of processor shares", async (_, failure) => {
    const host = hostWith([found(first), failure]);
    await host.read(AbortSignal.timeout(10_000));
    expect(await healthOf(host)).toEqual([["GPU-a", false]]);
  });

  it("leaves GPUs of one maker usable while the tool of another fails", async () => {
    const amd = { ...first, uuid: "AMD-b" };
    const broken = new Map([["amd", "amd-smi: timeout"]] as const);
    const host = hostWith([found(first, amd), { ...found(first), broken } as GpuFacts, found(first, amd)]);
    expect(await healthOf(host)).toEqual([
      ["GPU-a", true],
      ["AMD-b", true],
    ]);
    const { gpus, warnings } = await host.read(AbortSignal.timeout(10_000));
    expect(gpus).toMatchObject([
      { uuid: "GPU-a", healthy: true },
      { uuid: "AMD-b", healthy: false, unhealthyReason: "amd-smi: timeout", faultId: "" },
    ]);
    expect(warnings).toContain("gpu amd: amd-smi: timeout");
    const next = await host.read(AbortSignal.timeout(10_000));
    expect(next.gpus).toMatchObject([{ healthy: true }, { healthy: true }]);
    expect(next.warnings).not.toContain("gpu amd: amd-smi: timeout");
  });

  it("offers no GPUs that never replied, and everything else", async () => {
    const inventory = await hostWith([{ kind: "broken", reason: "exit 9" }]).read(AbortSignal.timeout(10_000));
    expect(inventory).toMatchObject({ gpus: [], cpuCores: 2, diskFreeBytes: 0, nvidiaDriverVersion: "" });
  });

  it("offers processor shares and no driver version without NVIDIA GPUs", async () => {
    const inventory = await hostWith([{ kind: "none" }]).read(AbortSignal.timeout(10_000));
    expect(inventory.gpus?.length).toBeGreaterThanOrEqual(3);
    expect(inventory).toMatchObject({ nvidiaDriverVersion: "", cudaVersion: "" });
  });
});
