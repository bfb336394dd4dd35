import { pino } from "pino";
import { describe, expect, it } from "vitest";
import { type FoundGpu, type GpuFacts, parseNvidiaSmi } from "../../../../agent/fingerprint/gpu.ts";
import { createInventory, type HostInventory } from "../../../../agent/fingerprint/inventory.ts";

const [first, second] = parseNvidiaSmi(
  "0, GPU-a, NVIDIA L4, 23034, 550.1, 0\n1, GPU-b, NVIDIA L4, 23034, 550.1, 0",
).gpus;
const found = (...gpus: (FoundGpu | undefined)[]): GpuFacts => ({
  kind: "found",
  gpus: gpus.filter((gpu) => gpu !== undefined),
  driverVersion: "550.1",
});

function hostWith(answers: (GpuFacts | Error)[]): HostInventory {
  const next = async (): Promise<GpuFacts> => {
    const answer = answers.shift();
    if (!answer || answer instanceof Error) throw answer;
    return answer;
  };
  return createInventory({
    dataDir: "/",
    overrides: {},
    log: pino({ level: "silent" }),
    hostname: "box",
    probes: {
      gpu: { name: "gpu", read: next },
      cpuMemory: { name: "cpu", read: async () => ({ cpuModel: "x", cpuCores: 2, memoryBytes: 4 * 1024 ** 3 }) },
      disk: { name: "disk", read: () => Promise.reject(new Error("no such file system")) },
      docker: { name: "docker", read: async () => ({ dockerVersion: "", hasNvidiaRuntime: false }) },
      operatingSystem: { name: "os", read: async () => ({ os: "Debian" }) },
    },
  });
}
const healthOf = async (host: HostInventory): Promise<unknown> =>
  (await host.read(AbortSignal.timeout(10_000))).gpus?.map(({ uuid, healthy }) => [uuid, healthy]);

describe("the inventory", () => {
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

  it.each<[string, GpuFacts | Error]>([
    ["breaks", { kind: "broken", reason: "nvidia-smi: it did not answer within 5 s" }],
    ["is removed", { kind: "none" }],
    ["cannot be probed", new Error("EMFILE")],
  ])("of a host whose driver %s never turns into one of processor shares", async (_, failure) => {
    const host = hostWith([found(first), failure]);
    await host.read(AbortSignal.timeout(10_000));
    expect(await healthOf(host)).toEqual([["GPU-a", false]]);
  });

  it("of a host whose GPUs never answered offers none, with everything else in place", async () => {
    const inventory = await hostWith([{ kind: "broken", reason: "exit 9" }]).read(AbortSignal.timeout(10_000));
    expect(inventory).toMatchObject({ gpus: [], cpuCores: 2, diskFreeBytes: 0, nvidiaDriverVersion: "" });
  });

  it("of a host without NVIDIA GPUs has processor shares and no driver version", async () => {
    const inventory = await hostWith([{ kind: "none" }]).read(AbortSignal.timeout(10_000));
    expect(inventory.gpus?.length).toBeGreaterThanOrEqual(3);
    expect(inventory).toMatchObject({ nvidiaDriverVersion: "", cudaVersion: "" });
  });
});
