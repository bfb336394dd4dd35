import { describe, expect, it } from "vitest";
import { summarize } from "../../../../control-plane/deployments/place-reasons.ts";
import { dryRun, gpuOffers } from "../../../../control-plane/deployments/placement-preview.ts";
import { account, gib, gpu, hostView, inventory } from "../../../fakes/fleet-records.ts";

const host = (id: string, type: "H100-80GB" | "L4-24GB", count: number, claimed = 0) => {
  const bytes = (type === "L4-24GB" ? 24 : 80) * gib;
  const gpus = Array.from({ length: count }, (_, n) => gpu(n, { type, memoryBytes: bytes }));
  const claims = gpus.slice(0, claimed).map(({ uuid }) => ({ gpuUuid: uuid, account }));
  return hostView(id, { inventory: inventory({ gpus, memoryBytes: 512 * gib, nvidiaDriverVersion: "580" }), claims });
};
const rates = new Map([
  ["H100-80GB", 2_000_000_000n],
  ["L4-24GB", 500_000_000n],
]);

describe("GPU availability", () => {
  it("is what placement would do now, for every GPU size, with its price", () => {
    expect(gpuOffers([host("a", "H100-80GB", 4, 3), host("b", "L4-24GB", 1)], 0, rates)).toEqual([
      { gpu: "H100-80GB", count: 1, hourRate: 2_000_000_000n, isAvailable: true, isRecommended: false, devices: [] },
      { gpu: "H100-80GB", count: 2, hourRate: 4_000_000_000n, isAvailable: false, isRecommended: false, devices: [] },
      { gpu: "H100-80GB", count: 4, hourRate: 8_000_000_000n, isAvailable: false, isRecommended: false, devices: [] },
      { gpu: "L4-24GB", count: 1, hourRate: 500_000_000n, isAvailable: true, isRecommended: true, devices: [] },
    ]);
  });

  it("leaves out hosts whose container engine cannot run GPU containers", () => {
    const base = host("a", "H100-80GB", 1);
    const withDocker = (hasNvidiaRuntime: boolean) => ({
      ...base,
      inventory: { ...base.inventory, drivers: ["docker", "external"], hasNvidiaRuntime },
    });
    expect(gpuOffers([withDocker(false)], 0, rates)).toEqual([]);
    expect(gpuOffers([withDocker(true)], 0, rates)).toMatchObject([{ gpu: "H100-80GB", isAvailable: true }]);
    const want = { gpu: "H100-80GB", gpusPerInstance: 1, memoryBytes: 0, engine: "stoker", host: undefined } as const;
    expect(dryRun(want, [withDocker(false)])).toEqual({
      host: undefined,
      refused: [{ host: "a", why: expect.stringContaining("NVIDIA container toolkit") }],
    });
  });

  it("lets an installed engine use GPUs without a container engine", () => {
    const base = host("a", "H100-80GB", 1);
    const withVllm = (unavailable: string) => ({
      ...base,
      inventory: {
        ...base.inventory,
        drivers: ["process", "vllm"],
        hasNvidiaRuntime: false,
        containers: { unavailable, images: { own: [], allowed: [] }, volumesUnavailable: "" },
      },
    });
    const want = { gpu: "H100-80GB", gpusPerInstance: 1, memoryBytes: 0, engine: "vllm", host: undefined } as const;
    expect(dryRun(want, [withVllm("it starts processes")])).toMatchObject({ host: "a" });
    expect(dryRun(want, [withVllm("")])).toMatchObject({ host: undefined });
  });

  it("offers the slices of a GPU separately: together they are not a larger GPU", () => {
    const slices = [40, 20, 10].map((size, n) =>
      gpu(n, { uuid: `MIG-${n}`, memoryBytes: size * gib, migProfile: `${n}g`, parentUuid: "GPU-7" }),
    );
    const split = hostView("a", {
      inventory: inventory({ gpus: slices, memoryBytes: 512 * gib, nvidiaDriverVersion: "580" }),
    });
    const one = { gpu: "other", count: 1, hourRate: 0n, devices: ["virtual"] };
    expect(gpuOffers([split], 30 * gib, rates)).toEqual([{ ...one, isAvailable: true, isRecommended: true }]);
    expect(gpuOffers([split], 50 * gib, rates)).toEqual([{ ...one, isAvailable: true, isRecommended: false }]);
    const all = { ...split, claims: slices.map(({ uuid }) => ({ gpuUuid: uuid, account })) };
    expect(gpuOffers([all], 30 * gib, rates)).toEqual([{ ...one, isAvailable: false, isRecommended: false }]);
  });

  it("recommends the cheapest GPU that holds the model, and nothing if none does", () => {
    const recommended = (bytes: number) =>
      gpuOffers([host("a", "H100-80GB", 2), host("b", "L4-24GB", 2)], bytes, rates)
        .filter(({ isRecommended }) => isRecommended)
        .map(({ gpu: type, count }) => `${count}x${type}`);
    expect(recommended(20 * gib)).toEqual(["1xL4-24GB"]);
    expect(recommended(40 * gib)).toEqual(["2xL4-24GB"]);
    expect(recommended(60 * gib)).toEqual(["1xH100-80GB"]);
    expect(recommended(200 * gib)).toEqual([]);
  });
});

describe("why a deployment waits", () => {
  it("names each host in a small fleet, and counts hosts by reason in a large one", () => {
    const hosts = Array.from({ length: 500 }, (_, n) => ({ host: `h${n}`, why: n === 7 ? "asleep" : "full" }));
    expect(summarize(hosts.slice(0, 3))).toEqual(hosts.slice(0, 3));
    expect(summarize(hosts)).toEqual([
      { host: "499 hosts", why: "full" },
      { host: "h7", why: "asleep" },
    ]);
  });
});
