// Names of the devices that customers see for the GPU type `other`. Hosts report these names.
import { describe, expect, it } from "vitest";
import { createPlacementPreview } from "../../../../control-plane/deployments/placement-preview.ts";
import type { Gpu, HostView } from "../../../../control-plane/fleet/host.ts";
import type { DeploymentId, HostId } from "../../../../proto/ids.ts";
import { account, gpu, hostView, inventory, placedInstance } from "../../../fakes/fleet-records.ts";

const id = "D000000000000001" as DeploymentId;
const card = (index: number, name: string, over: Partial<Gpu> = {}) =>
  gpu(index, { uuid: `AMD-${index}`, name, ...over });
const host = (name: string, gpus: readonly Gpu[], over: Partial<HostView> = {}) =>
  hostView(name, { inventory: inventory({ gpus }), ...over });

function previewOf(views: readonly HostView[], instances = [] as ReturnType<typeof placedInstance>[]) {
  const reads: (readonly HostId[] | undefined)[] = [];
  const preview = createPlacementPreview({
    funds: async () => null,
    firstMinutes: async () => 0n,
    gpuDefaults: { perType: 8 },
    store: { refusalOf: async () => undefined, get: async () => undefined, instances: async () => instances },
    sealToken: async (_, token) => Buffer.from(token),
    demoModel: () => undefined,
    publicModel: async () => undefined,
    leastBytes: () => 0,
    resolve: () => undefined,
    shapeOf: async () => undefined,
    lookAtRepo: async () => ({ kind: "unreachable" }),
    hosts: async (only) => {
      reads.push(only);
      return views.filter((one) => only === undefined || only.includes(one.id));
    },
    hourRates: async () => new Map(),
    reserve: async () => ({ minimums: new Map() }),
  });
  return { preview, reads };
}

const offered = async (views: readonly HostView[]) => {
  const { preview, reads } = previewOf(views);
  const offers = await preview.gpus({ account }, { source: "", baseModel: "" });
  return { devices: offers.map(({ devices }) => devices), reads };
};

describe("names of devices of type other", () => {
  it("name a processor slot, and other GPUs by name, after one read of the fleet", async () => {
    const views = [host("a", [card(0, "Radeon"), card(1, "Radeon")]), host("b", [gpu(0, { uuid: "slot-0" })])];
    const names = ["Radeon", "processor slot"];
    expect(await offered(views)).toEqual({ devices: [names, names], reads: [undefined] });
  });

  it("leave out hosts and GPUs that cannot be used", async () => {
    const views = [
      host("a", [card(0, "Radeon"), card(1, "Faulty", { isHealthy: false })]),
      host("lost", [card(0, "Lost")], { state: "lost" }),
      host("silent", [card(0, "Silent")], { state: "unreachable" }),
      host("cordoned", [card(0, "Cordoned")], { schedulable: false, condition: "cordoned" }),
      host("bare", [card(0, "No runtime")], {
        inventory: inventory({ gpus: [card(0, "No runtime")], drivers: ["docker"], nvidiaDriverVersion: "580" }),
      }),
    ];
    expect((await offered(views)).devices[0]).toEqual(["Radeon"]);
  });

  it("are at most 8 of 64 printable characters, whatever a host reports", async () => {
    const long = Array.from({ length: 1_024 }, (_, n) =>
      card(n, `\u202e${n}\n${"pay at https://evil.example ".repeat(9)}`),
    );
    const [names = []] = (await offered([host("a", long)])).devices;
    expect(names).toHaveLength(9);
    expect(names.at(-1)).toBe("other GPUs");
    for (const name of names) expect(name).toMatch(/^[!-~][ -~]{0,62}[!-~]$/);
  });
});

describe("devices of a deployment", () => {
  const views = [host("h1", [card(0, "Radeon"), card(1, "Arc")]), host("h2", [card(0, "Instinct")])];

  it("are those of its instances, from their hosts only", async () => {
    const { preview, reads } = previewOf(views, [placedInstance("I1", { gpuUuids: ["AMD-1"] })]);
    expect(await preview.devicesOf({ id, gpu: "other" })).toEqual(["Arc"]);
    expect(reads).toEqual([["h1"]]);
  });

  it("are those that it may get while it has no instance", async () => {
    const { preview } = previewOf(views);
    expect(await preview.devicesOf({ id, gpu: "other" })).toEqual(["Arc", "Instinct", "Radeon"]);
  });

  it("are not read for a GPU type that names its GPU", async () => {
    const { preview, reads } = previewOf(views, [placedInstance("I1")]);
    expect(await preview.devicesOf({ id, gpu: "H100-80GB" })).toEqual([]);
    expect(reads).toEqual([]);
  });
});
