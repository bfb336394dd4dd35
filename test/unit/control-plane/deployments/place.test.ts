import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Want } from "../../../../control-plane/deployments/place-fit.ts";
import { place } from "../../../../control-plane/deployments/placement-preview.ts";
import type { HostView } from "../../../../control-plane/fleet/host.ts";
import type { AccountId } from "../../../../proto/ids.ts";
import { account, gib, gpu, hostView, inventory } from "../../../fakes/fleet-records.ts";

const types = ["other", "H100-80GB", "L4-24GB"] as const;
const arbitraryHost = (id: string) =>
  fc
    .record({
      gpus: fc.array(
        fc.record({
          type: fc.constantFrom(...types),
          memory: fc.constantFrom(1, 24, 80),
          healthy: fc.boolean(),
          claimed: fc.boolean(),
        }),
        { maxLength: 8 },
      ),
      schedulable: fc.boolean(),
      state: fc.constantFrom("live" as const, "live" as const, "unreachable" as const, "lost" as const),
      drivers: fc.constantFrom(["process"], ["docker", "process"], ["external"]),
    })
    .map((shape): HostView => {
      const gpus = shape.gpus.map((one, index) =>
        gpu(index, { type: one.type, memoryBytes: one.memory * gib, isHealthy: one.healthy }),
      );
      const claims = gpus
        .filter((_, index) => shape.gpus[index]?.claimed)
        .map((one) => ({ gpuUuid: one.uuid, account }));
      return hostView(id, {
        inventory: inventory({ gpus, drivers: shape.drivers }),
        schedulable: shape.schedulable,
        state: shape.state,
        claims,
      });
    });
const arbitraryHosts = fc
  .integer({ min: 0, max: 6 })
  .chain((count) => fc.tuple(...Array.from({ length: count }, (_, index) => arbitraryHost(`h${index}`))));
const arbitraryWant: fc.Arbitrary<Want> = fc.record({
  gpu: fc.constantFrom(...types),
  gpusPerInstance: fc.integer({ min: 0, max: 8 }),
  memoryBytes: fc.constantFrom(0, gib, 60 * gib, 200 * gib),
  engine: fc.constantFrom("stoker" as const, "external" as const),
  host: fc.constantFrom(undefined, undefined, "h1"),
});

describe("place", () => {
  it("never overcommits: it takes GPUs that are free, healthy, of the requested type, sufficient, and on a permitted host", () => {
    fc.assert(
      fc.property(arbitraryWant, arbitraryHosts, (want, hosts) => {
        const placed = place(want, hosts);
        if (!placed.ok) return;
        const host = hosts.find((one) => one.id === placed.host) as HostView;
        expect(host.state).toBe("live");
        expect(host.schedulable).toBe(true);
        expect(placed.revision).toBe(host.revision);
        expect(new Set(placed.gpus.map((one) => one.uuid)).size).toBe(want.gpusPerInstance);
        for (const one of placed.gpus) {
          expect(host.claims.map((claim) => claim.gpuUuid)).not.toContain(one.uuid);
          expect(one).toMatchObject({ type: want.gpu, isHealthy: true });
        }
        const memory = placed.gpus.reduce((sum, one) => sum + one.memoryBytes, 0);
        if (want.gpusPerInstance > 0) expect(memory).toBeGreaterThanOrEqual(want.memoryBytes);
      }),
    );
  });

  it("makes the same decision for any order of the hosts", () => {
    fc.assert(
      fc.property(arbitraryWant, arbitraryHosts, fc.infiniteStream(fc.nat()), (want, hosts, keys) => {
        const shuffled = hosts
          .map((host) => ({ host, key: keys.next().value as number }))
          .sort((a, b) => a.key - b.key)
          .map((one) => one.host);
        expect(place(want, shuffled)).toEqual(place(want, hosts));
      }),
    );
  });

  it("never fails because of an additional host", () => {
    fc.assert(
      fc.property(arbitraryWant, arbitraryHosts, arbitraryHost("more"), (want, hosts, more) => {
        if (place(want, hosts).ok) expect(place(want, [...hosts, more]).ok).toBe(true);
      }),
    );
  });

  it("gives a reason for every host when none fits", () => {
    fc.assert(
      fc.property(arbitraryWant, arbitraryHosts, (want, hosts) => {
        const placed = place(want, hosts);
        if (placed.ok) return;
        expect(placed.rejections.map((one) => one.host)).toEqual(hosts.map((host) => host.hostname).sort());
        for (const one of placed.rejections) expect(one.why.length).toBeGreaterThan(5);
      }),
    );
  });

  const want: Want = { gpu: "other", gpusPerInstance: 1, memoryBytes: 0, engine: "stoker", host: undefined };

  it.each([
    ["vllm", ["docker", "process"], "", "its operator set no image for vllm (STOKER_VLLM_IMAGE)"],
    ["vllm", ["process"], "", "its operator set no program for vllm (STOKER_VLLM_BIN)"],
    [
      "llamacpp",
      ["docker", "process"],
      "as processes",
      "its operator set no program for llamacpp (STOKER_LLAMACPP_BIN)",
    ],
    ["sglang", ["process"], "", "it runs no containers, which sglang requires"],
  ] as const)("names the setting that lets %s run on a host with %j %s", (engine, drivers, unavailable, why) => {
    const containers = { unavailable, images: { own: [], allowed: [] }, volumesUnavailable: "" };
    const host = hostView("a", { inventory: inventory({ drivers, containers }) });
    expect(place({ ...want, engine }, [host])).toMatchObject({ ok: false, rejections: [{ why }] });
  });

  it("takes the tightest fit first, then the lower id", () => {
    const ample = hostView("a");
    const tight = hostView("b", { claims: [0, 1, 2].map((n) => ({ gpuUuid: `GPU-${n}`, account })) });
    expect(place(want, [ample, tight])).toMatchObject({ ok: true, host: "b", gpus: [{ uuid: "GPU-3" }] });
    expect(place(want, [hostView("b"), hostView("a")])).toMatchObject({ ok: true, host: "a" });
  });

  it("names the missing type, the missing memory, the silence and the unproven data path", () => {
    const why = (over: Partial<Want>, host: HostView) => {
      const placed = place({ ...want, ...over }, [host]);
      return placed.ok ? "" : (placed.rejections[0]?.why ?? "");
    };
    expect(why({ gpu: "H100-80GB" }, hostView("a"))).toContain("no H100-80GB");
    expect(why({ gpusPerInstance: 5 }, hostView("a"))).toContain("4 of 4 other GPUs are free; 5 needed");
    expect(why({ memoryBytes: 2 * gib }, hostView("a"))).toBe(
      "its largest free GPU has 1024 MiB; about 2048 MiB needed",
    );
    expect(why({}, hostView("a", { state: "unreachable", silentMs: 25_000 }))).toBe("unreachable: silent for 25 s");
    expect(why({}, hostView("a", { schedulable: false, condition: "data_path_unreachable: x" }))).toContain(
      "data_path",
    );
    const claims = [0, 1, 2, 3].map((n) => ({
      gpuUuid: `GPU-${n}`,
      account: n > 2 ? ("u:another" as AccountId) : account,
    }));
    expect(why({ account }, hostView("a", { claims }))).toBe(
      "0 of 4 other GPUs are free, 3 used by other deployments of this account (`stoker deploy stop` or `delete` frees a model's); 1 needed",
    );
    expect(why({ account: "u:third" as AccountId }, hostView("a", { claims }))).toBe(
      "0 of 4 other GPUs are free; 1 needed",
    );
    expect(why({ host: "other-host" }, hostView("a"))).toContain("other-host");
  });
});

describe("a deployment with its own image", () => {
  const image = `registry.example/desk@sha256:${"a".repeat(64)}`;
  const want = { gpu: "other", gpusPerInstance: 0, memoryBytes: gib, host: undefined } as const;
  const agentWant: Want = { ...want, engine: "agent_instance", image };
  const rules = { unavailable: "", images: { own: [], allowed: ["registry.example/desk"] }, volumesUnavailable: "" };
  const withRules = (id: string, over: Partial<typeof rules>) =>
    hostView(id, { inventory: inventory({ drivers: ["docker"], containers: { ...rules, ...over } }) });

  it("is placed where the operator allows the image, and on hosts whose agent does not report that", () => {
    expect(place(agentWant, [withRules("a", {})])).toMatchObject({ ok: true, host: "a" });
    const silent = hostView("b", { inventory: inventory({ drivers: ["docker"] }) });
    expect(place(agentWant, [silent])).toMatchObject({ ok: true, host: "b" });
  });

  it.each([
    ["its operator does not allow the image", { images: { own: [], allowed: ["other/desk"] } }],
    ["must run as root", { volumesUnavailable: "it keeps no volumes: its agent must run as root" }],
    ["as processes", { unavailable: "its agent starts model servers as processes" }],
  ])("does not go where it would be refused, and says why: %s", (why, over) => {
    const placed = place(agentWant, [withRules("a", over)]);
    expect(placed).toMatchObject({ ok: false, rejections: [{ host: "a", why: expect.stringContaining(why) }] });
  });

  it("needs no volumes for a model server, and needs its digest where only that is allowed", () => {
    const host = withRules("a", { volumesUnavailable: "no root" });
    expect(place({ ...want, engine: "custom", image }, [host])).toMatchObject({ ok: true });
    const tagged = place({ ...want, engine: "custom", image: "registry.example/desk:7" }, [host]);
    expect(tagged).toMatchObject({ ok: false, rejections: [{ why: expect.stringContaining("only by digest") }] });
  });
});
