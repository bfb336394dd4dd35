import { describe, expect, it } from "vitest";
import type { Want } from "../../../../control-plane/deployments/place-fit.ts";
import { createPlacementIndex, withPlaced } from "../../../../control-plane/deployments/place-index.ts";
import { sleepersPerGpu } from "../../../../control-plane/fleet/host.ts";
import type { AccountId } from "../../../../proto/ids.ts";
import { gib, gpu, hostView, inventory } from "../../../fakes/fleet-records.ts";

const gpus = [0, 1].map((index) => gpu(index, { type: "H100-80GB", memoryBytes: 80 * gib }));
const host = (sleeps = true) =>
  hostView("host-1", {
    inventory: { ...inventory({ gpus, nvidiaDriverVersion: "570", memoryBytes: 2_000 * gib }), sleeps },
  });
const want: Want = {
  gpu: "H100-80GB",
  gpusPerInstance: 1,
  memoryBytes: 60 * gib,
  engine: "stoker",
  host: undefined,
  sleeps: true,
};

/** GPUs of instances that are placed one after the other, until none fits. */
function placed(
  index: ReturnType<typeof createPlacementIndex>,
  wants: readonly Want[],
): readonly (string | undefined)[] {
  return wants.map((one, n) => {
    const found = index.place(one);
    if (!found) return undefined;
    const at = index.get(found.host);
    if (at) index.put(withPlaced(at, found, `account-${n % 3}` as AccountId));
    return found.gpus[0]?.uuid;
  });
}

it("gives instances that sleep free GPUs first, then the one with the fewest in turn, of any account, up to a limit", () => {
  const found = placed(
    createPlacementIndex([host()]),
    Array.from({ length: 2 * sleepersPerGpu + 1 }, () => want),
  );
  expect(found.slice(0, 6)).toEqual(["GPU-0", "GPU-1", "GPU-0", "GPU-1", "GPU-0", "GPU-1"]);
  expect(found.filter((uuid) => uuid === "GPU-0")).toHaveLength(sleepersPerGpu);
  expect(found.at(-1)).toBeUndefined();
});

it("gives a GPU that is used in turn to none that stays awake, nor to one that is larger than it", () => {
  const awake = { ...want, sleeps: false };
  const large = { ...want, memoryBytes: 90 * gib };
  expect(placed(createPlacementIndex([host()]), [want, want, awake, large])).toEqual([
    "GPU-0",
    "GPU-1",
    undefined,
    undefined,
  ]);
});

it("shares nothing in turn on a host whose agent is too old for it", () => {
  expect(placed(createPlacementIndex([host(false)]), [want, want, want])).toEqual(["GPU-0", "GPU-1", undefined]);
});

describe("an instance whose memory is bounded", () => {
  const bounded = { ...want, memoryBytes: 20 * gib, isMemoryBound: true };
  const on = (wakesByAccount: boolean) => {
    const { inventory: found, ...rest } = host();
    return createPlacementIndex([{ ...rest, inventory: { ...found, wakesByAccount } }]);
  };

  it("has its part of the GPU while it is awake, alone and beside others, and claims no more of it in turn", () => {
    const index = on(true);
    const part = { gpuShare: 0.25, gpuMemoryBytes: 20 * gib, isInTurn: true };
    expect(index.place(bounded)).toMatchObject(part);
    expect(placed(index, [bounded, bounded])).toEqual(["GPU-0", "GPU-1"]);
    expect(index.place(bounded)).toMatchObject({ ...part, gpus: [{ uuid: "GPU-0" }] });
    const more = placed(
      index,
      Array.from({ length: 2 * sleepersPerGpu - 1 }, () => bounded),
    );
    expect(more.filter((uuid) => uuid === undefined)).toHaveLength(1);
  });

  it("has all of it on a host whose agent would have two accounts awake there, and as long as its memory is not bounded", () => {
    const whole = { gpuShare: 1, gpuMemoryBytes: 0, isInTurn: true };
    expect(on(false).place(bounded)).toMatchObject(whole);
    expect(on(true).place({ ...bounded, isMemoryBound: false })).toMatchObject(whole);
  });
});
