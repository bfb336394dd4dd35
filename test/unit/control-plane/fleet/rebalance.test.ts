import { expect, it } from "vitest";
import { type PlacedOn, proposeRebalance } from "../../../../control-plane/fleet/rebalance.ts";
import type { DeploymentId, HostId, InstanceId } from "../../../../proto/ids.ts";
import { account, gpu, hostView, inventory } from "../../../fakes/fleet-records.ts";

/** A host of four GPUs; each entry of `used` is an instance that has so many. */
function host(id: string, used: readonly number[], isMovable = true) {
  const gpus = [0, 1, 2, 3].map((n) => gpu(n, { uuid: `${id}-${n}`, type: "H100-80GB" }));
  const placed: PlacedOn[] = used.map((_, n) => ({
    id: `${id}-i${n}` as InstanceId,
    deployId: `${id}-d${n}` as DeploymentId,
    modelName: "ada/llm",
    account,
    hostId: id as HostId,
    gpuUuids: gpus.slice(sum(used.slice(0, n)), sum(used.slice(0, n + 1))).map(({ uuid }) => uuid),
    isMovable,
  }));
  const claims = placed.flatMap(({ gpuUuids }) => gpuUuids.map((gpuUuid) => claim(gpuUuid)));
  return { view: hostView(id, { inventory: inventory({ gpus }), claims }), placed };
}
const sum = (counts: readonly number[]) => counts.reduce((all, one) => all + one, 0);
const claim = (gpuUuid: string) => ({ gpuUuid, account, memoryBytes: 0, share: 1 }) as never;
const propose = (...hosts: ReturnType<typeof host>[]) =>
  proposeRebalance(
    hosts.map(({ view }) => view),
    hosts.flatMap(({ placed }) => placed),
  );

it("scattered small models are consolidated so that one host is empty, with the fewest moves", () => {
  const found = propose(host("a", [1]), host("b", [1]), host("c", [2, 1]));
  expect(found).toMatchObject({ gpu: "H100-80GB", largestNow: 3, largestAfter: 4 });
  // Onto the fullest host that still takes it.
  expect(found?.moves).toEqual([expect.objectContaining({ from: "a", to: "c", gpus: 1, gapSeconds: 0 })]);
});

it("nothing is proposed if no move frees a larger gap", () => {
  expect(propose(host("a", [4]), host("b", [4]))).toBeUndefined();
  expect(propose(host("a", []), host("b", [2]))).toBeUndefined();
});

it("instances with data on their host, and drained hosts, are not moved", () => {
  expect(propose(host("a", [1], false), host("b", [3], false))).toBeUndefined();
  const cordoned = host("c", []);
  const away = { ...cordoned, view: { ...cordoned.view, schedulable: false } };
  expect(propose(host("a", [1, 3]), host("b", [3, 1]), away)).toBeUndefined();
});

it("an instance that fits nowhere else stays, and others may still move", () => {
  const found = propose(host("a", [2, 1]), host("b", [2, 1]), host("c", [3]));
  expect(found).toMatchObject({ largestNow: 1, largestAfter: 2 });
  expect(found?.moves).toHaveLength(1);
});
