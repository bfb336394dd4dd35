// The GPU probes on the machines of test/fixtures/nvidia-smi, through a stand-in that is run as nvidia-smi is. The answers
// are written from the documented form: no such machine was at hand to record them.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { planInstance } from "../../../agent/engines/plan-instance.ts";
import { type FoundGpu, type GpuFacts, gpuProbe } from "../../../agent/fingerprint/gpu.ts";
import { gpuLoadProbe } from "../../../agent/fingerprint/gpu-load.ts";
import { heldMemory } from "../../../agent/reconcile/gpu-memory.ts";
import { createPlacementIndex, withPlaced } from "../../../control-plane/deployments/place-index.ts";
import { readInventory } from "../../../control-plane/rpc/wire.ts";
import type { Inventory__Output } from "../../../proto/gen/stoker/fleet/v1/Inventory.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { gib, hostView, inventory } from "../../fakes/fleet-records.ts";
import { instanceSpec } from "../../fakes/instance-spec.ts";

const tool = join(import.meta.dirname, "../../fixtures/nvidia-smi/nvidia-smi");
const mib = 1024 * 1024;
const bound = () => AbortSignal.timeout(30_000);

function onMachine(machine: string, fault = ""): void {
  process.env["STUB_MACHINE"] = machine;
  process.env["STUB_FAULT"] = fault;
}
afterEach(() => {
  delete process.env["STUB_MACHINE"];
  delete process.env["STUB_FAULT"];
});

async function gpusOf(machine: string): Promise<readonly FoundGpu[]> {
  onMachine(machine);
  const facts: GpuFacts = await gpuProbe({ nvidiaSmi: tool, boot: "b1" }).read(bound());
  if (facts.kind !== "found") throw new Error(`${machine}: ${facts.kind}`);
  return facts.gpus;
}

it.each([
  ["l4", 1, "L4-24GB", "12.4"],
  ["l40s", 4, "L40S-48GB", "12.8"],
  ["a100", 8, "A100-80GB", "12.8"],
  ["h200", 8, "H200-141GB", "12.8"],
  ["b200", 8, "B200-180GB", "13.0"],
  ["b300", 8, "B300-270GB", "13.0"],
  ["rtx-pro-6000", 2, "RTXPRO6000-96GB", "13.0"],
])("machine %s offers %i healthy %s", async (machine, count, type, cudaVersion) => {
  const gpus = await gpusOf(machine);
  expect(gpus.map((gpu) => [gpu.type, gpu.healthy])).toEqual(Array(count).fill([type, true]));
  expect(new Set(gpus.map(({ uuid }) => uuid)).size).toBe(count);
  expect(new Set(gpus.map(({ pciBusId }) => pciBusId)).size).toBe(count);
  expect(await gpuProbe({ nvidiaSmi: tool }).read(bound())).toMatchObject({ kind: "found", cudaVersion });
});

it("a GPU with uncorrected memory errors is at fault, and no other", async () => {
  const ill = (await gpusOf("h100")).filter(({ healthy }) => !healthy);
  expect(ill.map(({ index, faultId, unhealthyReason }) => [index, faultId, unhealthyReason])).toEqual([
    [2, "ecc:b1:2", "2 uncorrected memory errors since the driver started: reset the GPU"],
  ]);
});

it("of a mixed host each GPU has the name of the catalogue for its size", async () => {
  const gpus = await gpusOf("mixed");
  expect(gpus.map(({ type }) => type)).toEqual(["L4-24GB", "A100-40GB", "RTX4090-24GB", "RTXPRO6000-96GB"]);
  expect(gpus.every(({ healthy }) => healthy)).toBe(true);
});

it("a GPU split by MIG is offered as its slices, one in MIG mode without slices not at all", async () => {
  const gpus = await gpusOf("a100-mig");
  const parent = "GPU-5a1c0d3e-4000-4b7a-9c11-000000000000";
  expect(gpus.slice(0, 3).map((gpu) => [gpu.migProfile, gpu.memoryBytes / mib, gpu.type, gpu.parentUuid])).toEqual([
    ["3g.40gb", 40_192, "other", parent],
    ["2g.20gb", 19_968, "other", parent],
    ["1g.10gb", 9_728, "other", parent],
  ]);
  expect(gpus[0]).toMatchObject({ uuid: "MIG-3e0c9a52-11d4-5c1a-9d0e-000000000001", healthy: true });
  expect(gpus[3]).toMatchObject({ type: "A100-80GB", healthy: true, migProfile: "" });
  expect(gpus[4]).toMatchObject({
    healthy: false,
    faultId: "",
    unhealthyReason: expect.stringContaining("MIG mode is on"),
  });
});

it("slices are placed by size, one account on each, and given to the container by their own uuids", async () => {
  // As the wire carries them, and as the control plane reads them.
  const gpus = (await gpusOf("a100-mig")).map((gpu) => ({ ...gpu, memoryBytes: String(gpu.memoryBytes) }));
  const told = {
    ...{ os: "", cpuModel: "", drivers: [], dockerVersion: "", nvidiaDriverVersion: "", cudaVersion: "" },
    gpus,
    rentalImages: [],
    rentalsUnavailable: "",
    recordsUnavailable: "",
    disks: [],
    networks: [],
    warnings: [],
    metricsAddress: "",
  };
  const { gpus: read } = readInventory(told as unknown as Inventory__Output);
  const index = createPlacementIndex([
    hostView("h1", {
      inventory: inventory({
        ...{
          gpus: read,
          drivers: ["docker"],
          hasNvidiaRuntime: true,
          nvidiaDriverVersion: "570",
          memoryBytes: 512 * gib,
          cpuCores: 64,
        },
      }),
    }),
  ]);
  const place = (account: string, sizeGib: number) => {
    const want = { gpu: "other", gpusPerInstance: 1, memoryBytes: sizeGib * gib, engine: "stoker" } as const;
    const placed = index.place({ ...want, host: undefined, sharesWith: account as AccountId });
    const host = placed && index.get(placed.host);
    if (placed && host) index.put(withPlaced(host, placed, account as AccountId));
    return placed?.gpus.map(({ uuid }) => uuid.slice(-1));
  };
  // 9.5, 19.5 and 39.25 GiB.
  expect(place("u:ada", 5)).toEqual(["3"]);
  expect(place("u:bob", 5)).toEqual(["2"]);
  expect(place("u:ada", 4)).toEqual(["3"]);
  expect(place("u:ada", 30)).toEqual(["1"]);
  expect(place("u:eve", 1)).toBeUndefined();
  const [slice] = read;
  const planned = planInstance(instanceSpec({ gpuUuids: [slice?.uuid ?? ""] }), "/weights/m.gguf", {
    ...{ driver: "docker", runtimeImage: "runtime:1", allowedImages: [], filesDir: "/files", logLevel: "info" },
  });
  expect(planned).toMatchObject({ ok: true, plan: { gpuUuids: ["MIG-3e0c9a52-11d4-5c1a-9d0e-000000000001"] } });
});

it("a GPU whose memory is not told is not offered, and no series is made of what it does not tell", async () => {
  expect(await gpusOf("not-available")).toMatchObject([{ memoryBytes: 0, healthy: false, faultId: "" }]);
  const [sample] = await gpuLoadProbe(tool).read(bound());
  expect(Object.keys(sample ?? {})).not.toContain("memoryUsedBytes");
  expect(Object.keys(sample ?? {})).not.toContain("powerWatts");
  expect(sample?.temperatureCelsius).toBe(31);
});

describe("the load of a GPU", () => {
  it("is in base units, with the processes on it", async () => {
    onMachine("l4");
    expect(await gpuLoadProbe(tool).read(bound())).toMatchObject([
      {
        utilizationRatio: 0.63,
        memoryUsedBytes: 17_210 * mib,
        memoryTotalBytes: 23_034 * mib,
        powerWatts: 32.14,
        powerLimitWatts: 72,
        smClockHertz: 2.04e9,
        temperatureCelsius: 31,
        processes: [{ pid: 4242, memoryBytes: 17_200 * mib, name: expect.stringContaining("python3") }],
      },
    ]);
  });

  it("is read from a driver that does not know every field", async () => {
    onMachine("h100", "old");
    expect(await gpuProbe({ nvidiaSmi: tool }).read(bound())).toMatchObject({ kind: "found" });
  });

  it("survives a driver that answers [N/A] to everything", async () => {
    onMachine("h100", "na");
    const samples = await gpuLoadProbe(tool).read(bound());
    expect(samples).toHaveLength(8);
    expect(samples[0]).toEqual({
      uuid: expect.any(String),
      index: 0,
      name: expect.any(String),
      pciBusId: expect.any(String),
      driverVersion: expect.any(String),
      processes: [],
    });
  });

  it("has the memory of each MIG slice, so that a start waits for the one it is given and for no other", async () => {
    const machine = mkdtempSync(join(tmpdir(), "stoker-mig-"));
    try {
      cpSync(join(tool, "../a100-mig"), machine, { recursive: true });
      const report = join(machine, "report.xml");
      const process = `<process_info><gpu_instance_id>5</gpu_instance_id><compute_instance_id>0</compute_instance_id>
        <pid>4242</pid><type>C</type><process_name>python3</process_name><used_memory>17000 MiB</used_memory></process_info>`;
      const busy = readFileSync(report, "utf8")
        .replace("<used>25 MiB</used>", "<used>17025 MiB</used>")
        .replace("<processes>", `<processes>${process}`);
      writeFileSync(report, busy);
      onMachine(machine);
      const read = gpuLoadProbe(tool).read;
      const samples = await read(bound());
      const parent = "GPU-5a1c0d3e-4000-4b7a-9c11-000000000000";
      const slice = (n: number) => `MIG-3e0c9a52-11d4-5c1a-9d0e-00000000000${n}`;
      expect(samples.map(({ uuid }) => uuid)).toEqual([
        parent,
        ...[1, 2, 3].map(slice),
        ...[1, 2].map((n) => `GPU-5a1c0d3e-4000-4b7a-9c11-00000000000${n}`),
      ]);
      expect(samples[2]).toMatchObject({
        parentUuid: parent,
        memoryUsedBytes: 17_025 * mib,
        memoryTotalBytes: 19_968 * mib,
        processes: [{ pid: 4242, name: "python3", memoryBytes: 17_000 * mib }],
      });
      expect(samples[1]).toMatchObject({ memoryUsedBytes: 37 * mib, processes: [] });
      expect(await heldMemory([slice(2)], read, bound())).toBe(
        `${slice(2)} still holds 16.6 of 19.5 GiB, by process 4242 (python3)`,
      );
      expect(await heldMemory([slice(1)], read, bound())).toBeUndefined();
    } finally {
      rmSync(machine, { recursive: true, force: true });
    }
  });

  it("is refused in words by a driver that has failed", async () => {
    onMachine("h100", "exit9");
    await expect(gpuLoadProbe(tool).read(bound())).rejects.toThrow("couldn't communicate with the NVIDIA driver");
  });
});
