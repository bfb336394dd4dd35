import { describe, expect, it } from "vitest";
import type { Observed } from "../../../../agent/reconcile/driver.ts";
import { type Facts, freshFacts, sighted, type View } from "../../../../agent/reconcile/facts.ts";
import { troubleOf } from "../../../../agent/reconcile/health.ts";
import { reportOf, servingOf, targetsOf } from "../../../../agent/reconcile/report.ts";
import type { InstanceSpec__Output } from "../../../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../../../proto/ids.ts";
import { instanceSpec, sighting } from "../../../fakes/instance-spec.ts";

const id = "instance-1" as InstanceId;
const host = {
  driver: "docker",
  runtimeImage: "runtime:1",
  engineImages: { vllm: "vllm/vllm-openai:v0.18.0", sglang: "s/g:v0.5.6" },
} as const;
const idle = () => ({ inFlight: 0, waiting: 0, tokensPerSecond: 0 });

function view(
  spec: InstanceSpec__Output | undefined,
  seen: Observed | undefined,
  facts: Partial<Facts> & { isReady?: boolean } = {},
  tombstones: readonly string[] = [],
): View {
  const { isReady = false, ...over } = facts;
  const fresh = freshFacts(Number(spec?.generation ?? 1), 0);
  const known = seen ? sighted(fresh, seen, 0) : fresh;
  const life = known.life && { ...known.life, isReady, contextLength: isReady ? 2048 : 0 };
  return {
    desired: { generation: "1", instances: spec ? [spec] : [], tombstones: [...tombstones] },
    observed: new Map(seen ? [[id, seen]] : []),
    facts: new Map([[id, { ...known, life, ...over }]]),
    isHeld: false,
    unsettled: new Set(),
    uses: new Map(),
    controlTimeMs: 0,
    minAwakeMs: 0,
    nowMs: 0,
  };
}
const phase = (...given: Parameters<typeof view>) => reportOf(view(...given), idle).instances[0]?.phase;

describe("the phase a host reports", () => {
  const spec = instanceSpec();
  it.each([
    ["pending", phase(spec, undefined)],
    ["downloading", phase(spec, undefined, { weights: { kind: "fetching", done: 1, total: 2 } })],
    ["creating", phase(spec, undefined, { busy: { kind: "start", generation: 1 } })],
    ["creating", phase(spec, sighting("starting"))],
    ["loading", phase(spec, sighting("running"))],
    ["ready", phase(spec, sighting("running"), { isReady: true })],
    ["draining", phase(instanceSpec({ draining: true }), sighting("running"), { isReady: true })],
    ["draining", phase(spec, sighting("running"), { isReady: true, busy: { kind: "stop", generation: 1 } })],
    ["draining", phase(undefined, sighting("running"), { isReady: true }, [id])],
    ["stopped", phase(undefined, sighting("exited"), {}, [id])],
    ["failed", phase(spec, sighting("exited"), { failure: { code: "exit_1", message: "it ended" } })],
    ["ready", phase(undefined, sighting("running"), { isReady: true })],
  ])("is %s", (expected, found) => expect(found).toBe(expected));

  it("comes with the reason for a loading foreign server, and with none for our own, which is still starting", () => {
    const told = (engine: string, isFrozen = false) => {
      const { life } = sighted(freshFacts(1, 0), sighting("running"), 0);
      const over = { life: life && { ...life, isFrozen, trouble: "ECONNREFUSED" } };
      return reportOf(view(instanceSpec({ engine }), sighting("running"), over), idle).instances[0];
    };
    expect(told("external")).toMatchObject({
      phase: "loading",
      failMessage: "the external server does not answer as it should (ECONNREFUSED)",
    });
    expect(told("stoker")).toMatchObject({ phase: "loading", failMessage: "" });
    expect(told("stoker", true)).toMatchObject({ phase: "loading", failMessage: "ECONNREFUSED" });
  });

  it("comes with what a container waits for, and a later step of the start extends it", () => {
    const waiting = (waitingFor: string, step = 0) => ({ ...sighting("starting"), waitingFor, step }) as Observed;
    expect(reportOf(view(spec, waiting("no node fits")), idle).instances[0]).toMatchObject({
      phase: "creating",
      failCode: "",
      failMessage: "no node fits",
    });
    const first = sighted(freshFacts(1, 0), waiting("no node fits"), 1_000);
    expect(sighted(first, waiting("no node fits"), 2_000).life?.progressAtMs).toBe(1_000);
    const placed = sighted(first, waiting("no image", 1), 2_000);
    expect(placed.life).toMatchObject({ progressAtMs: 2_000, trouble: "no image" });
    expect(sighted(placed, waiting("no node fits"), 3_000).life).toMatchObject({ progressAtMs: 2_000, step: 1 });
    expect(sighted(first, sighting("running"), 3_000).life).toMatchObject({ progressAtMs: 3_000, trouble: "" });
  });

  it("ends in a failure while the reasons for which a container waits take turns", () => {
    const reasons = ["ErrImagePull", "ImagePullBackOff"];
    let facts = freshFacts(1, 0);
    for (let nowMs = 0; nowMs <= 31 * 60_000; nowMs += 60_000) {
      const waitingFor = reasons[(nowMs / 60_000) % 2];
      facts = sighted(facts, { ...sighting("starting"), waitingFor, step: 1 } as Observed, nowMs);
    }
    expect(facts.life && troubleOf(facts.life, "runtime", 31 * 60_000)).toBe("start_timeout");
  });

  it("is that of the old generation while its successor cannot start, with the reason", () => {
    const failure = { code: "hub_gated_no_token", message: "it is gated" };
    const { instances } = reportOf(
      view(instanceSpec({ generation: "2" }), sighting("running"), { isReady: true, failure }),
      idle,
    );
    expect(instances[0]).toMatchObject({ phase: "ready", generation: 1, failCode: "hub_gated_no_token" });
  });
});

describe("a failure of any length", () => {
  const failure = { code: "c".repeat(100), message: "é".repeat(2 * 1024 * 1024) };
  const bytes = (text: string | undefined) => Buffer.byteLength(text ?? "");

  it("is reported with 64 bytes of its code and 16 KiB of its message", () => {
    const [one] = reportOf(view(instanceSpec(), sighting("exited"), { failure }), idle).instances;
    expect(one?.failCode).toBe("c".repeat(64));
    expect(one?.failMessage).toBe("é".repeat(8 * 1024));
  });

  it("leaves the report of many instances below the limit of a message", () => {
    const one = view(instanceSpec(), undefined, { failure });
    const ids = Array.from({ length: 300 }, (_, i) => `instance-${i}` as InstanceId);
    const facts = new Map(ids.map((each) => [each, { ...freshFacts(1, 0), failure }]));
    const instances = ids.map((instanceId) => instanceSpec({ instanceId }));
    const many = reportOf({ ...one, facts, desired: { generation: "1", tombstones: [], instances } }, idle);
    expect(many.instances).toHaveLength(300);
    const total = many.instances.reduce((sum, { failMessage }) => sum + bytes(failMessage), 0);
    expect(total).toBeGreaterThan(1_000_000);
    expect(total).toBeLessThanOrEqual(1024 * 1024);
  });
});

describe("a tombstoned instance", () => {
  it("is reported removed once it is gone", () => {
    expect(reportOf(view(undefined, undefined, {}, [id]), idle)).toEqual({ instances: [], removed: [id] });
    expect(reportOf(view(undefined, sighting("exited"), {}, [id]), idle).removed).toEqual([]);
  });
  it("is not reported removed while a step runs or the observation may be older than the step's end", () => {
    const busy = { busy: { kind: "start", generation: 1 } };
    expect(reportOf(view(undefined, undefined, busy, [id]), idle).removed).toEqual([]);
    const unsettled = { ...view(undefined, undefined, {}, [id]), unsettled: new Set([id]) };
    expect(reportOf(unsettled, idle).removed).toEqual([]);
  });
});

describe("the targets of the data path", () => {
  it.each([
    ["stoker", "", "headers"],
    ["vllm", "", "body"],
    ["vllm", "vllm/vllm-openai:v0.10.2", "headers"],
    ["sglang", "", "headers"],
    ["sglang", "lmsysorg/sglang:v0.5.18-cu129", "body"],
    ["custom", "team/server:1", "headers"],
    ["external", "", "none"],
  ])("says how %s in image %j keeps accounts apart: by %s", (engine, image, cacheIsolation) => {
    const spec = instanceSpec({ engine, image, sharesPrefixCache: true });
    const found = targetsOf(view(spec, sighting("running")), host);
    expect(found).toMatchObject([{ cacheIsolation, sharesPrefixCache: true }]);
  });

  it("are the running instances, and accept new requests only if ready and not stopping", () => {
    const spec = instanceSpec();
    expect(targetsOf(view(spec, sighting("running"), { isReady: true }), host)).toMatchObject([
      { instanceId: id, maxBatchSize: 4, ready: true, draining: false },
    ]);
    expect(targetsOf(view(spec, sighting("running")), host)).toMatchObject([{ ready: false }]);
    expect(targetsOf(view(spec, sighting("running"), { isReady: true }, [id]), host)).toMatchObject([
      { draining: true },
    ]);
    const leaving: Observed = { ...sighting("running"), isLeaving: true } as Observed;
    expect(targetsOf(view(spec, leaving, { isReady: true }), host)).toMatchObject([{ draining: true }]);
    expect(phase(spec, leaving, { isReady: true })).toBe("draining");
    expect(targetsOf(view(spec, sighting("exited")), host)).toEqual([]);
    expect(targetsOf(view(undefined, sighting("running"), { isReady: true }), host)).toEqual([]);
    expect(targetsOf(view(spec, sighting("running")), host)[0]?.dashboard).toBeUndefined();
    const agentInstance = { port: 8000, volumePath: "/data", dashboardPort: 9000 };
    const withDashboard = instanceSpec({ engine: "agent_instance", agentInstance });
    expect(targetsOf(view(withDashboard, sighting("running")), host)).toMatchObject([
      { dashboard: "http://127.0.0.1:9000" },
    ]);
  });
});

describe("the batch size of an external server", () => {
  const life = (serverBatchSize: number | undefined) => {
    const known = sighted(freshFacts(1, 0), sighting("running"), 0).life;
    if (!known) throw new Error("a running instance has a life");
    return { life: { ...known, isReady: true, serverBatchSize } };
  };

  it("is what the server reports if its operator set none, and is reported in any case", () => {
    const size = (takesServerBatch: boolean, reported: number | undefined) => {
      const spec = instanceSpec({ engine: "external", takesServerBatch });
      return targetsOf(view(spec, sighting("running"), life(reported)), host)[0]?.maxBatchSize;
    };
    expect([size(true, 512), size(true, undefined), size(false, 512)]).toEqual([512, 4, 4]);
    const spec = instanceSpec({ engine: "external" });
    expect(reportOf(view(spec, sighting("running"), life(512)), idle).instances[0]?.serverBatchSize).toBe(512);
  });
});

describe("the set of instances billed by the minute", () => {
  const paid = (spec: InstanceSpec__Output, isReady: boolean, state: Observed["state"] = "running") =>
    servingOf(view(spec, sighting(state), { isReady })).length === 1;

  it("contains a model once it serves", () => {
    expect(paid(instanceSpec(), false)).toBe(false);
    expect(paid(instanceSpec(), true)).toBe(true);
  });

  it("contains a rental from its start, with or without SSH", () => {
    const rental = instanceSpec({ engine: "container" });
    expect(paid(rental, false, "starting")).toBe(false);
    expect(paid(rental, false)).toBe(true);
    expect(paid(rental, true)).toBe(true);
    expect(paid({ ...rental, draining: true }, true)).toBe(false);
  });
});
