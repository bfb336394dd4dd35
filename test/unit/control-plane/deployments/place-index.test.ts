// The index gives the answer of a comparison of every host, whatever it contained before; GPUs are never shared between accounts.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fitOn, refuse, type Want } from "../../../../control-plane/deployments/place-fit.ts";
import { compare, createPlacementIndex, score, withPlaced } from "../../../../control-plane/deployments/place-index.ts";
import { place } from "../../../../control-plane/deployments/placement-preview.ts";
import type { GpuClaim, HostView } from "../../../../control-plane/fleet/host.ts";
import type { AccountId, HostId } from "../../../../proto/ids.ts";
import { gib, gpu, hostView, inventory } from "../../../fakes/fleet-records.ts";

const ada = "u:ada" as AccountId;
const bob = "u:bob" as AccountId;
const types = ["other", "H100-80GB"] as const;
const claims = ["none", "whole", "ada", "bob"] as const;

const arbitraryHost = (id: string) =>
  fc
    .record({
      gpus: fc.array(
        fc.record({
          type: fc.constantFrom(...types),
          memory: fc.constantFrom(24, 80),
          name: fc.constantFrom("one", "two"),
          /** Of this GPU of the host, which its agent does not offer whole any more. */
          slice: fc.constantFrom(undefined, undefined, 7, 8),
          healthy: fc.constantFrom(true, true, true, false),
          claim: fc.constantFrom(...claims),
          claimed: fc.integer({ min: 1, max: 70 }),
          used: fc.constantFrom(undefined, 0, 2, 30),
        }),
        { maxLength: 4 },
      ),
      /** Given whole before it was split. */
      split: fc.constantFrom(undefined, undefined, undefined, 8),
      hasDriver: fc.boolean(),
      live: fc.constantFrom(true, true, true, false),
      schedulable: fc.constantFrom(true, true, true, false),
      granted: fc.integer({ min: 0, max: 64 }),
      kept: fc.boolean(),
    })
    .map((shape): HostView => {
      const gpus = shape.gpus.map((one, n) =>
        gpu(n, {
          uuid: `GPU-${n}`,
          type: one.type,
          name: one.name,
          memoryBytes: one.memory * gib,
          isHealthy: one.healthy,
          ...(one.slice && one.type === "other" ? { migProfile: "3g.40gb", parentUuid: `GPU-${one.slice}` } : {}),
        }),
      );
      const held = shape.gpus.flatMap(({ claim, claimed, memory }, n): GpuClaim[] => {
        if (claim === "none") return [];
        const account = claim === "bob" ? bob : ada;
        if (claim === "whole" || claimed >= memory) return [{ gpuUuid: `GPU-${n}`, account }];
        return [{ gpuUuid: `GPU-${n}`, account, memoryBytes: claimed * gib }];
      });
      return hostView(id, {
        inventory: inventory({ gpus, memoryBytes: 64 * gib, nvidiaDriverVersion: shape.hasDriver ? "580" : "" }),
        state: shape.live ? "live" : "unreachable",
        schedulable: shape.schedulable,
        claims: [...held, ...(shape.split ? [{ gpuUuid: `GPU-${shape.split}`, account: bob }] : [])],
        grantedMemoryBytes: shape.granted * gib,
        keptWeights: new Set(shape.kept ? ["org/w@main"] : []),
        gpuMemoryUsed: new Map(
          shape.gpus.flatMap(({ used }, n) => (used === undefined ? [] : [[`GPU-${n}`, used * gib] as const])),
        ),
      });
    });
const arbitraryHosts = fc
  .integer({ min: 0, max: 7 })
  .chain((count) => fc.tuple(...Array.from({ length: count }, (_, n) => arbitraryHost(`h${n}`))));
const arbitraryWant = fc
  .record({
    gpu: fc.constantFrom(...types),
    gpusPerInstance: fc.constantFrom(0, 1, 1, 1, 2, 4),
    memory: fc.constantFrom(0, 5, 20, 60, 150),
    engine: fc.constantFrom("stoker" as const, "stoker" as const, "agent_instance" as const, "container" as const),
    shares: fc.boolean(),
    weights: fc.constantFrom(undefined, "org/w@main"),
    host: fc.constantFrom(undefined, undefined, undefined, "h1"),
    spread: fc.constantFrom(undefined, new Map([["h0" as HostId, 1]]), new Map([["h1" as HostId, 2]])),
  })
  .map(
    ({ memory, shares, ...rest }): Want => ({
      ...rest,
      memoryBytes: memory * gib,
      sharesWith: shares ? ada : undefined,
    }),
  );

/** Every host, compared. */
function byComparing(want: Want, hosts: readonly HostView[]) {
  const scored = hosts.flatMap((host) => {
    const found = refuse(want, host) === undefined ? fitOn(want, host) : undefined;
    return found ? [score(want, host, found)] : [];
  });
  const best = scored.sort(compare)[0]?.fit;
  if (!best) return undefined;
  const { left: _, isJoining: __, ...placed } = best;
  return placed;
}

describe("the placement index", () => {
  it("gives the answer of a comparison of every host, whatever the order of insertion and the previous content", () => {
    fc.assert(
      fc.property(arbitraryWant, arbitraryHosts, arbitraryHosts, (want, before, hosts) => {
        const index = createPlacementIndex(before);
        for (const { id } of before) if (!hosts.some((host) => host.id === id)) index.remove(id);
        for (const host of [...hosts].reverse()) index.put(host);
        expect(index.place(want)).toEqual(byComparing(want, hosts));
      }),
      { numRuns: 400 },
    );
  });

  it("never gives a GPU to two accounts, never exceeds its memory, and never exceeds the free memory of a host", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(arbitraryWant, fc.boolean()), { maxLength: 12 }),
        arbitraryHosts,
        (wants, hosts) => {
          const index = createPlacementIndex(hosts);
          for (const [want, isAda] of wants) {
            const account = isAda ? ada : bob;
            const asked = { ...want, sharesWith: want.sharesWith && account };
            const found = index.place(asked);
            if (!found) continue;
            const host = index.get(found.host) as HostView;
            for (const one of found.gpus) {
              const claim = host.claims.find(({ gpuUuid }) => gpuUuid === one.uuid);
              if (claim) expect(claim.account).toBe(account);
              expect(host.claims.map(({ gpuUuid }) => gpuUuid)).not.toContain(one.parentUuid);
              expect((claim?.memoryBytes ?? 0) + (found.gpuMemoryBytes || one.memoryBytes)).toBeLessThanOrEqual(
                one.memoryBytes,
              );
              if (claim) expect(claim.memoryBytes).toBeDefined();
            }
            if (found.grantBytes > 0 && asked.engine === "agent_instance")
              expect(host.grantedMemoryBytes + found.grantBytes).toBeLessThanOrEqual(host.inventory.memoryBytes);
            index.put(withPlaced(host, found, account));
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it("never fails because of an additional host", () => {
    fc.assert(
      fc.property(arbitraryWant, arbitraryHosts, arbitraryHost("more"), (want, hosts, more) => {
        if (place(want, hosts).ok) expect(place(want, [...hosts, more]).ok).toBe(true);
      }),
    );
  });

  it("gives a reason for every host it cannot use, and none for hosts it could use", () => {
    fc.assert(
      fc.property(arbitraryWant, arbitraryHosts, (want, hosts) => {
        const placed = place(want, hosts);
        if (!placed.ok) expect(placed.rejections.map((one) => one.host)).toEqual(hosts.map(({ id }) => id).sort());
      }),
    );
  });
});

describe("where an instance goes", () => {
  const h100 = (n: number) => gpu(n, { type: "H100-80GB", memoryBytes: 80 * gib });
  const real = (id: string, over: Partial<HostView> = {}) =>
    hostView(id, {
      inventory: inventory({ gpus: [h100(0), h100(1)], memoryBytes: 256 * gib, nvidiaDriverVersion: "580" }),
      ...over,
    });
  const want: Want = {
    ...{ gpu: "H100-80GB", gpusPerInstance: 1, memoryBytes: 20 * gib, engine: "stoker", host: undefined },
    sharesWith: ada,
  };
  const beside = { gpuUuid: "GPU-1", account: ada, memoryBytes: 50 * gib };

  it("joins other small models of its account in the smallest gap that fits, and pays only for its part", () => {
    const ample = real("a", { claims: [{ ...beside, memoryBytes: 10 * gib }] });
    expect(place(want, [ample, real("b", { claims: [beside] }), real("c")])).toMatchObject({
      ...{ ok: true, host: "b", gpuShare: 0.25, gpuMemoryBytes: 20 * gib },
      gpus: [{ uuid: "GPU-1" }],
    });
    const foreign = { ...beside, account: bob };
    expect(place(want, [real("b", { claims: [foreign] })])).toMatchObject({ ok: true, gpus: [{ uuid: "GPU-0" }] });
  });

  it("believes a report of more memory in use than was claimed", () => {
    const leaking = real("b", { claims: [beside], gpuMemoryUsed: new Map([["GPU-1", 70 * gib]]) });
    expect(place(want, [leaking])).toMatchObject({ ok: true, gpus: [{ uuid: "GPU-0" }] });
    const strangers = new Map([0, 1].map((n) => [`GPU-${n}`, 40 * gib]));
    expect(place(want, [real("a", { gpuMemoryUsed: strangers })])).toMatchObject({
      ok: false,
      rejections: [{ why: expect.stringContaining("0 of 2 H100-80GB GPUs are free, 2 with memory still in use") }],
    });
  });

  it("keeps instances of one deployment on two hosts while there are two, and takes one host rather than none", () => {
    const spread = new Map([["a" as HostId, 1]]);
    const whole = { ...want, sharesWith: undefined, spread };
    const tight = real("a", { claims: [{ gpuUuid: "GPU-0", account: ada }] });
    expect(place(whole, [tight, real("b")])).toMatchObject({ ok: true, host: "b" });
    expect(place(whole, [tight])).toMatchObject({ ok: true, host: "a" });
  });

  it("prefers the host that has its weights, before the tighter one", () => {
    const weights = "org/w@main";
    const tight = real("a", { claims: [{ gpuUuid: "GPU-0", account: ada }] });
    const hosts = [tight, real("b", { keptWeights: new Set([weights]) })];
    expect(place({ ...want, sharesWith: undefined, weights }, hosts)).toMatchObject({ ok: true, host: "b" });
    expect(place({ ...want, sharesWith: undefined }, hosts)).toMatchObject({ ok: true, host: "a" });
  });

  it("splits a model over GPUs of one type that each hold their part, never over slices", () => {
    const other = (n: number, name: string, size: number, migProfile = "") =>
      gpu(n, { name, memoryBytes: size * gib, migProfile });
    const mixed = (gpus: ReturnType<typeof other>[]) => [
      real("a", { inventory: inventory({ gpus, memoryBytes: 256 * gib, nvidiaDriverVersion: "580" }) }),
    ];
    const two: Want = { ...want, gpu: "other", gpusPerInstance: 2, memoryBytes: 60 * gib };
    const big = [other(0, "x", 48), other(1, "y", 48), other(2, "y", 48), other(3, "x", 16)];
    expect(place(two, mixed(big))).toMatchObject({ ok: true, gpus: [{ uuid: "GPU-1" }, { uuid: "GPU-2" }] });
    const sliced = [other(0, "x", 48, "3g.40gb"), other(1, "x", 48, "3g.40gb")];
    expect(place(two, mixed(sliced))).toMatchObject({
      ok: false,
      rejections: [
        { why: expect.stringContaining("2 other GPUs are slices of a GPU (MIG), and slices cannot be combined") },
      ],
    });
    expect(place({ ...two, gpusPerInstance: 1, memoryBytes: 20 * gib }, mixed(sliced)).ok).toBe(true);
  });

  it("reserves the memory of a host only once", () => {
    const agent: Want = { ...want, gpusPerInstance: 0, engine: "agent_instance", memoryBytes: 8 * gib };
    const docker = inventory({ drivers: ["docker"], memoryBytes: 16 * gib });
    const at = (granted: number) => [hostView("a", { inventory: docker, grantedMemoryBytes: granted * gib })];
    expect(place(agent, at(8))).toMatchObject({ ok: true, grantBytes: 8 * gib });
    expect(place(agent, at(9))).toMatchObject({
      rejections: [{ why: "7168 of its 16384 MiB of memory are free; 8192 MiB needed" }],
    });
  });
});
