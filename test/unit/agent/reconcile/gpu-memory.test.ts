import { describe, expect, it } from "vitest";
import { type GpuMemory, heldMemory, untilFree } from "../../../../agent/reconcile/gpu-memory.ts";

const gib = 1024 ** 3;
const signal = new AbortController().signal;
const gpu = (uuid: string, usedGib: number, processes: GpuMemory["processes"] = []): GpuMemory => ({
  uuid,
  memoryUsedBytes: usedGib * gib,
  memoryTotalBytes: 80 * gib,
  processes,
});

describe("the memory of a GPU", () => {
  it("is free once three quarters of it are back", async () => {
    expect(await heldMemory(["GPU-1"], async () => [gpu("GPU-1", 20)], signal)).toBeUndefined();
    expect(await heldMemory(["GPU-1"], async () => [gpu("GPU-1", 20.5)], signal)).toContain("20.5 of 80.0 GiB");
  });

  it("is free on a shared GPU once the requested share is free, whatever the neighbour uses", async () => {
    const read = async () => [gpu("GPU-1", 60)];
    expect(await heldMemory(["GPU-1"], read, signal, 20 * gib)).toBeUndefined();
    expect(await heldMemory(["GPU-1"], read, signal, 40 * gib)).toContain("60.0 of 80.0 GiB");
  });

  it("is ignored for other GPUs", async () =>
    expect(await heldMemory(["GPU-1"], async () => [gpu("GPU-2", 79)], signal)).toBeUndefined());

  it("is named with the process that holds it", async () => {
    const held = await heldMemory(["GPU-1"], async () => [gpu("GPU-1", 61, [{ pid: 42, name: "python3" }])], signal);
    expect(held).toBe("GPU-1 still holds 61.0 of 80.0 GiB, by process 42 (python3)");
  });

  it("delays no start if it cannot be read", async () => {
    const silent = async (): Promise<readonly GpuMemory[]> => {
      throw new Error("nvidia-smi: it did not answer within 10 s");
    };
    expect(await heldMemory(["GPU-1"], silent, signal)).toBeUndefined();
    expect(await heldMemory(["GPU-1"], async () => [{ uuid: "GPU-1", processes: [] }], signal)).toBeUndefined();
  });

  it("delays the start, with the reason reported, up to the limit", async () => {
    const used = [70, 40, 1];
    const told: string[] = [];
    let paused = 0;
    const pause = async () => void paused++;
    const read = async () => [gpu("GPU-1", used.shift() ?? 1)];
    expect(
      await untilFree(["GPU-1"], { read, limitMs: 60_000, everyMs: 1_000 }, pause, (held) => told.push(held), signal),
    ).toBeUndefined();
    expect(told).toHaveLength(2);
    expect(paused).toBe(2);

    const never = { read: async () => [gpu("GPU-1", 70)], limitMs: 5_000, everyMs: 1_000 };
    paused = 0;
    expect(await untilFree(["GPU-1"], never, pause, () => {}, signal)).toContain("70.0 of 80.0 GiB");
    expect(paused).toBe(5);
  });
});
