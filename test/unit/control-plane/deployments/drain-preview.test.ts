import { describe, expect, it } from "vitest";
import type { Deployment, Instance } from "../../../../control-plane/deployments/deployment.ts";
import { createDrainPreview } from "../../../../control-plane/deployments/drain-preview.ts";
import type { Active } from "../../../../control-plane/deployments/store.ts";
import type { HostView } from "../../../../control-plane/fleet/host.ts";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../../../proto/ids.ts";
import { deployment } from "../../../fakes/deployment-ports.ts";
import { gib, gpu, hostView, inventory, placedInstance } from "../../../fakes/fleet-records.ts";

const h100 = (index: number) => gpu(index, { type: "H100-80GB", memoryBytes: 80 * gib });
const host = (id: string, gpus: number, over: Partial<HostView> = {}): HostView =>
  hostView(id, {
    inventory: inventory({
      gpus: Array.from({ length: gpus }, (_, index) => h100(index)),
      memoryBytes: 512 * gib,
      nvidiaDriverVersion: "570",
    }),
    ...over,
  });
const claimed = (...indexes: number[]) =>
  indexes.map((index) => ({ gpuUuid: `GPU-${index}`, account: "u:another" as AccountId }));

const model = (name: string, over: Partial<Deployment> = {}): Deployment =>
  deployment({ id: name as DeploymentId, modelName: name, numGpus: 1, minInstances: 1, target: 1, ...over });
const on = (hostId: string, id: string, over: Partial<Instance> = {}): Instance => ({
  ...placedInstance(id, { hostId: hostId as HostId, phase: "ready", gpuUuids: ["GPU-0"] }),
  ...over,
});

/** `fate host` by instance. */
async function preview(hosts: readonly HostView[], running: readonly (readonly [Deployment, ...Instance[]])[]) {
  const active = running.map(
    ([one, ...instances]): Active => ({
      deployment: one,
      instances: instances.map((instance) => ({ ...instance, deployId: one.id })),
      claimedUntilMs: 0,
    }),
  );
  const previewDrain = createDrainPreview({
    placed: async () =>
      active.flatMap(({ deployment: { id, modelName, account, kind }, instances }) =>
        instances.map((one) => ({
          ...{ id: one.id, deployId: id, modelName, account, hostId: one.hostId, gpuUuids: one.gpuUuids },
          ...{ isMovable: kind === "model", kind, email: "ada@example.com" },
        })),
      ),
    active: async (ids) => active.filter(({ deployment: { id } }) => ids?.includes(id)),
    snapshot: async () => hosts,
    reserves: {
      reserve: async (type) => ({ gpu: type, minimums: new Map(), revision: 0n }),
      sharing: async (keys) => keys.map((key) => ({ ...key, revision: 0n })),
    },
    nowMs: () => 0,
  });
  return previewDrain("old" as HostId);
}
const lines = (found: Awaited<ReturnType<typeof preview>>) =>
  found.map(({ id, outcome, to }) => [id, outcome, ...(to ? [to.hostname] : [])].join(" "));

describe("preview of a drain", () => {
  it("places each instance on the free GPUs of other hosts, and says why the last one waits", async () => {
    const found = await preview(
      [host("old", 2), host("a", 2, { claims: claimed(0) }), host("b", 1, { claims: claimed(0) })],
      [
        [model("one"), on("old", "i1")],
        [model("two"), on("old", "i2", { gpuUuids: ["GPU-1"] })],
      ],
    );
    expect(lines(found)).toEqual(["i1 moves a", "i2 waits"]);
    expect(found[1]?.reasons).toEqual([
      { host: "a", why: "0 of 2 H100-80GB GPUs are free; 1 needed" },
      { host: "b", why: "0 of 1 H100-80GB GPUs are free; 1 needed" },
    ]);
  });

  it("moves every instance of a deployment, apart where it can", async () => {
    const two = model("two", { minInstances: 2, maxInstances: 2, target: 2 });
    const found = await preview(
      [host("old", 2), host("a", 1), host("b", 4)],
      [[two, on("old", "i1"), on("old", "i2", { gpuUuids: ["GPU-1"] })]],
    );
    expect(lines(found)).toEqual(["i1 moves a", "i2 moves b"]);
  });

  it("leaves alone what is bound to the host's disk, and replaces nothing that is not needed", async () => {
    const found = await preview(
      [host("old", 2), host("a", 4)],
      [
        [model("rental", { kind: "container" }), on("old", "box")],
        [model("ended", { status: "stopping" }), on("old", "ending")],
        [model("spare", { maxInstances: 2 }), on("old", "extra"), on("a", "kept")],
      ],
    );
    expect(lines(found)).toEqual(["box stays", "ending stops", "extra stops"]);
    expect(found.map(({ servingElsewhere }) => servingElsewhere)).toEqual([0, 0, 1]);
  });

  it("does not use a cordoned or silent host, and says so where the host is the only one", async () => {
    const one = [model("one"), on("old", "i1")] as const;
    const cordoned = host("a", 4, { schedulable: false, condition: "cordoned: taken out of use by an operator" });
    const found = await preview([host("old", 1), cordoned, host("b", 4, { state: "lost", silentMs: 90_000 })], [one]);
    expect(found[0]?.reasons).toEqual([
      { host: "a", why: "cordoned: taken out of use by an operator" },
      { host: "b", why: "lost: silent for 90 s" },
    ]);
    const alone = await preview([host("old", 1)], [one]);
    expect(alone[0]).toMatchObject({
      outcome: "waits",
      reasons: [{ host: "old", why: "it would be drained; there is no other host" }],
    });
  });

  it("is empty for a host without instances", async () => {
    expect(await preview([host("old", 1)], [])).toEqual([]);
  });

  it("counts a replacement that already starts elsewhere", async () => {
    const starting = on("a", "new" as InstanceId, { phase: "loading" });
    const found = await preview([host("old", 1), host("a", 4)], [[model("one"), on("old", "i1"), starting]]);
    expect(lines(found)).toEqual(["i1 stops"]);
  });
});
