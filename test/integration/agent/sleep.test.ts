// The agent's loop over processes that sleep by the paths that vLLM documents: no engine of CUDA is here.
import { afterEach, expect, it, vi } from "vitest";
import type { InstanceSpec__Output } from "../../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { askEngines } from "../../fakes/processes.ts";
import { type ReconciledHost, startReconciledHost } from "../../fakes/reconciled-host.ts";

// A starved machine needs more than 30 s for a start and a sleep.
const patient = { timeout: 90_000, interval: 50 };
let host: ReconciledHost;
afterEach(() => host?.close());

const phase = (id: string, wanted: string) => vi.waitFor(() => expect(host.report(id)?.phase).toBe(wanted), patient);
const awaited = (spec: InstanceSpec__Output) => ({ ...spec, awaitedAtMs: String(Date.now()) });
/** Callers that wait repeat it, as here: one that comes while the instance falls asleep counts as from before. */
const wakes = (spec: InstanceSpec__Output, wanted: string) =>
  vi.waitFor(() => {
    host.want(awaited(spec));
    expect(host.report(spec.instanceId)?.phase).toBe(wanted);
  }, patient);
const sleeper = (script: object = {}, over: Partial<InstanceSpec__Output> = {}) =>
  host.spec(script, { sleepAfterSeconds: 3_600, gpuUuids: ["cpu-host-shared"], ...over });

it("puts an unused instance to sleep and wakes it for a request, in one process", async () => {
  host = startReconciledHost({});
  const spec = sleeper({}, { sleepAfterSeconds: 1 });
  host.want(spec);
  await phase(spec.instanceId, "asleep");
  const pid = host.pid(spec.instanceId);
  host.stats(spec.instanceId, { inFlight: 1 });
  await wakes(spec, "ready");
  expect(host.pid(spec.instanceId)).toBe(pid);
  host.stats(spec.instanceId, { inFlight: 0, unusedMs: 60_000 });
});

it("has one of two awake on one GPU, whichever is awaited, and restarts neither", async () => {
  host = startReconciledHost({});
  const [one, other] = [sleeper(), sleeper()];
  host.want(one, other);
  await vi.waitFor(() => {
    const phases = [one, other].map(({ instanceId }) => host.report(instanceId)?.phase).sort();
    expect(phases).toEqual(["asleep", "ready"]);
  }, patient);
  const pids = [one, other].map(({ instanceId }) => host.pid(instanceId));
  for (const wanted of [one, other, one]) {
    for (const { instanceId } of [one, other]) host.stats(instanceId, { unusedMs: 0 });
    host.want(...[one, other].map((spec) => (spec === wanted ? awaited(spec) : spec)));
    await phase(wanted.instanceId, "ready");
    await phase((wanted === one ? other : one).instanceId, "asleep");
  }
  expect([one, other].map(({ instanceId }) => host.pid(instanceId))).toEqual(pids);
});

it("has several of one account awake on one GPU where their shares fit, and none of another account beside them", async () => {
  host = startReconciledHost({});
  const part = { gpuShare: 0.4, gpuMemoryBytes: String(4 * 1024 ** 3) };
  const [one, other, foreign] = [sleeper({}, part), sleeper({}, part), sleeper({}, { ...part, owner: "another" })];
  const phases = () => [one, other, foreign].map(({ instanceId }) => host.report(instanceId)?.phase);
  host.want(one, other);
  await vi.waitFor(() => expect(phases()).toEqual(["ready", "ready", undefined]), patient);
  for (const { instanceId } of [one, other]) host.stats(instanceId, { unusedMs: 0 });
  host.want(one, other, foreign);
  await vi.waitFor(() => expect(phases()).toEqual(["asleep", "asleep", "ready"]), patient);
  host.stats(foreign.instanceId, { unusedMs: 0 });
  await vi.waitFor(() => {
    host.want(awaited(one), awaited(other), foreign);
    expect(phases()).toEqual(["ready", "ready", "asleep"]);
  }, patient);
}, 300_000);

it("does not put a busy instance to sleep for another, which says that it waits", async () => {
  host = startReconciledHost({});
  const [one, other] = [sleeper(), sleeper()];
  host.stats(one.instanceId, { inFlight: 1 });
  host.want(one);
  await phase(one.instanceId, "ready");
  host.want(one, other);
  await vi.waitFor(
    () => expect(host.report(other.instanceId)?.failMessage).toMatch("other models on its GPU"),
    patient,
  );
  expect(host.report(one.instanceId)?.phase).toBe("ready");
  host.stats(one.instanceId, { inFlight: 0, unusedMs: 0 });
  await phase(other.instanceId, "ready");
  await phase(one.instanceId, "asleep");
});

it("wakes first the one that began to wait first", async () => {
  host = startReconciledHost({});
  const [one, other, third] = [sleeper(), sleeper(), sleeper()];
  for (const spec of [other, third, one]) {
    host.want(...[one, other, third].map((each) => (each === spec ? awaited(each) : each)));
    host.stats(spec.instanceId, { inFlight: 1 });
    await phase(spec.instanceId, "ready");
    if (spec !== one) host.stats(spec.instanceId, { inFlight: 0, unusedMs: 0 });
  }
  host.want(one, awaited(other), third);
  await phase(other.instanceId, "waking");
  host.want(one, awaited(other), awaited(third));
  await phase(third.instanceId, "waking");
  host.stats(other.instanceId, { inFlight: 1 });
  host.stats(one.instanceId, { inFlight: 0, unusedMs: 0 });
  await phase(other.instanceId, "ready");
  expect(host.report(third.instanceId)?.phase).toBe("waking");
});

it("starts an instance again whose process is killed while it wakes", async () => {
  host = startReconciledHost({});
  const spec = sleeper({ wakeMs: 600_000 }, { sleepAfterSeconds: 1 });
  host.want(spec);
  await phase(spec.instanceId, "asleep");
  const pid = host.pid(spec.instanceId);
  await wakes(spec, "waking");
  host.stats(spec.instanceId, { inFlight: 1 });
  process.kill(pid, "SIGKILL");
  await phase(spec.instanceId, "ready");
  expect(host.pid(spec.instanceId)).not.toBe(pid);
});

it("refuses requests after a sleep whose reply was lost, until a request has woken it", async () => {
  host = startReconciledHost({});
  const spec = sleeper({ losesSleep: true }, { sleepAfterSeconds: 1 });
  host.want(spec);
  await phase(spec.instanceId, "asleep");
  expect(host.isResting(spec.instanceId)).toBe(true);
  host.stats(spec.instanceId, { inFlight: 1 });
  await wakes(spec, "ready");
  expect(host.isResting(spec.instanceId)).toBe(false);
});

it("serves again after a sleep that its engine refused", async () => {
  host = startReconciledHost({});
  const spec = sleeper({ refusesSleep: true }, { sleepAfterSeconds: 1 });
  host.want(spec);
  await vi.waitFor(() => expect(host.isResting(spec.instanceId)).toBe(true), patient);
  host.stats(spec.instanceId, { inFlight: 1 });
  await vi.waitFor(() => expect(host.isResting(spec.instanceId)).toBe(false), patient);
  expect(host.report(spec.instanceId)?.phase).toBe("ready");
});

it("wakes no other one before an engine that was left waking by another agent sleeps again", async () => {
  const earlier = startReconciledHost({});
  host = earlier;
  const [one, other] = [sleeper({ wakeMs: 5_000 }), sleeper()];
  host.want(one);
  await phase(one.instanceId, "ready");
  host.want(one, other);
  await phase(one.instanceId, "asleep");
  await phase(other.instanceId, "ready");
  const engines = async (): Promise<readonly { is_sleeping: boolean; changing: string }[]> =>
    await Promise.all((await askEngines(host.folder, "/is_sleeping")).map((reply) => reply.json()));
  host.want(awaited(one), other);
  await vi.waitFor(
    async () => expect(await engines()).toContainEqual({ is_sleeping: true, changing: "wake" }),
    patient,
  );
  await earlier.stopLoop();
  host = startReconciledHost({}, earlier);
  host.want(one, awaited(other));
  await phase(other.instanceId, "ready");
  const atRest = (await engines()).filter(({ changing }) => changing === "");
  expect(atRest.map(({ is_sleeping }) => is_sleeping).sort()).toEqual([false, true]);
});

it("is removed while it wakes", async () => {
  host = startReconciledHost({});
  const spec = sleeper({ wakeMs: 600_000 }, { sleepAfterSeconds: 1 });
  host.want(spec);
  await phase(spec.instanceId, "asleep");
  await wakes(spec, "waking");
  host.remove(spec.instanceId);
  await vi.waitFor(() => expect(host.report(spec.instanceId)).toBeUndefined(), patient);
});
