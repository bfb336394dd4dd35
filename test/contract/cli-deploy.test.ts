// The CLI's words about deployments and their logs against the real edge.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SettingsUpdate } from "../../control-plane/deployments/change.ts";
import type { DeployRequest } from "../../control-plane/deployments/create.ts";
import type { HfRequest } from "../../control-plane/deployments/create-by.ts";
import type { Deployment } from "../../control-plane/deployments/deployment.ts";
import type { HostId } from "../../proto/ids.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey, deployment, servedModel } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

const { id } = deployment();
let edge: Edge;
let asked: HfRequest | undefined;
let wanted: DeployRequest | undefined;
let fits = false;
let repository: "found" | "unknown" = "found";
let changed: SettingsUpdate | undefined;
let sleepAfterSeconds = 0;
let listed: readonly Deployment["status"][] = [];
const offer = { count: 1, isAvailable: true, isRecommended: false, devices: [] };
beforeAll(async () => {
  edge = await startEdge({
    change: (deps) => ({
      ...deps,
      placement: {
        ...deps.placement,
        dryRunNew: async (caller, request) => ({
          ...(await deps.placement.dryRunNew(caller, request)),
          ...(fits ? { host: "host-1" as HostId, refused: [], repository } : {}),
        }),
        gpus: async () => [
          { ...offer, gpu: "H100-80GB", hourRate: 3n },
          { ...offer, gpu: "L40S-48GB", hourRate: 2n },
          { ...offer, gpu: "L4-24GB", hourRate: 2n, isRecommended: true },
          { ...offer, gpu: "other", hourRate: 1n },
        ],
      },
      deployments: {
        ...deps.deployments,
        createHf(caller, request) {
          asked = request;
          return deps.deployments.createHf(caller, request);
        },
        get: async (caller, of) => ({
          ...(await deps.deployments.get(caller, of)),
          standardArgs: { maxContextSize: 4096, maxConcurrentRequests: 64 },
          extraArgs: ["--seed=7", "--swap-space=2"],
          inactiveShutdown: 900,
          sleepAfterSeconds,
        }),
        list: async () => listed.map((status) => deployment({ status })),
        update(caller, of, update) {
          changed = update;
          return deps.deployments.update(caller, of, update);
        },
        createLlm(caller, request) {
          wanted = request;
          return deps.deployments.createLlm(caller, request);
        },
      },
    }),
  });
});
afterAll(() => edge?.close());

const stoker = (...args: string[]) => runCli(edge, apiKey, args);

it("shows before a deployment whether it fits, the reasons and the price", async () => {
  for (const verb of ["create", "create-llm"]) {
    const { out, err, code } = await stoker("deploy", verb, "org/w", "--gpu", "H100-80GB", "--min", "2", "--dry-run");
    expect(out, err).toContain("Does not fit now: vllm, about 1.0 GiB per instance, 3.58 USD per hour.");
    expect(out).toContain("host-1: it has no H100-80GB GPU");
    expect(code).toBe(1);
  }
  fits = true;
  const { out, code } = await stoker("deploy", "create", "org/w", "--gpu", "H100-80GB", "--dry-run");
  expect(out).toMatch(/^Fits: /);
  expect(code).toBe(0);
  repository = "unknown";
  const unknown = await stoker("deploy", "create", "org/w", "--gpu", "H100-80GB", "--dry-run");
  expect(unknown.out).toMatch(/^Unknown: the GPUs are free, but the model hub cannot be reached/);
  expect(unknown.code).toBe(7);
  fits = false;
  repository = "found";
  const task = await stoker("deploy", "create", "org/w", "--task", "embeddings", "--dry-run");
  expect(task.out).toMatch(/^Does not fit now: stoker, /);
  expect(task.code).toBe(1);
}, 60_000);

it("deploys a model for a given task and waits until it is deployed", async () => {
  const { out, err, code } = await stoker("deploy", "create", "acme/minilm", "--task", "embeddings", "--max", "3");
  expect(code, err).toBe(0);
  expect(out).toContain("acme/minilm");
  expect(asked).toMatchObject({ modelName: "acme/minilm", task: "embeddings", minInstances: 1, maxInstances: 3 });
}, 60_000);

it("chooses the cheapest available GPU that holds the weights by default", async () => {
  const { err, code } = await stoker("deploy", "create", "org/w", "--no-wait");
  expect(code, err).toBe(0);
  expect(wanted).toMatchObject({ modelName: "org/w", gpu: "L4-24GB" });
  expect(err).toContain(`Check its status: \`stoker deploy get ${id}\``);
}, 60_000);

it("sends a repository only when one is given", async () => {
  await stoker("deploy", "create", "org/w", "--no-wait", "--gpu", "other");
  expect(wanted?.hf).toBeUndefined();
  await stoker("deploy", "create", "org/w", "--no-wait", "--gpu", "other", "--hf-revision", "v2");
  expect(wanted?.hf).toEqual({ repo: "org/w", revision: "v2" });
  await stoker("deploy", "create", "w", "--no-wait", "--gpu", "other");
  expect(wanted?.hf).toEqual({ repo: "w" });
}, 60_000);

it("lists active deployments and counts the hidden ones", async () => {
  listed = ["deployed", "failed", "deleted", "deleted"];
  const active = await stoker("deploy", "list", "--model", "ada/my-llm");
  const none = await stoker("deploy", "list", "--model", "org/unknown");
  const any = await stoker("deploy", "list", "--state", "any", "--model", "ada/my-llm");
  expect(active.out.match(/^.*deployed.*$/gm)).toHaveLength(1);
  expect(active.out).not.toMatch(/failed|deleted/);
  expect(active.err).toBe("Not shown: 1 failed, 2 deleted. Use --state any or inactive to list them.\n");
  expect(none).toMatchObject({ out: expect.stringContaining("No deployments."), err: "" });
  expect(any.out.trim().split("\n")).toHaveLength(5);
  expect(any.err).toBe("");
}, 60_000);

it("shows all settings of an update", async () => {
  const { out, err } = await stoker("deploy", "get", id);
  expect(out, err).toContain("at most 64 concurrent requests per instance\n");
  expect(out).toMatch(/^scale +\d+ to \d+ instances, scales to zero after 900 s without requests$/m);
  expect(out).toMatch(/^settings max_context_size 4096$/m);
  expect(out).toMatch(/^args +--seed=7 --swap-space=2$/m);
}, 60_000);

it("shows the price of an instance, and asleep where it sleeps", async () => {
  expect((await stoker("deploy", "get", id)).out).toMatch(/^price +1\.79 USD per hour and instance$/m);
  sleepAfterSeconds = 600;
  expect((await stoker("deploy", "get", id)).out).toMatch(/^price +1\.79 USD per hour and instance, 0\.09 asleep$/m);
  sleepAfterSeconds = 0;
}, 60_000);

it("changes the concurrency limit and keeps the other settings", async () => {
  const { err, code } = await stoker("deploy", "update", id, "--concurrency", "8", "--no-wait");
  expect(code, err).toBe(0);
  expect(changed).toEqual({ standardArgs: { maxContextSize: 4096, maxConcurrentRequests: 8 } });
}, 60_000);

it("sets targets and schedules of an update, and refuses a schedule of another form", async () => {
  const rule = "mon-wed,sun 22:00-06:00 Europe/Berlin min 2";
  const targets = ["--target-ttft", "1500", "--target-queue", "0"];
  const { err, code } = await stoker("deploy", "update", id, ...targets, "--schedule", rule, "--no-wait");
  expect(code, err).toBe(0);
  const schedule = { from: "22:00", to: "06:00", timeZone: "Europe/Berlin", minInstances: 2 };
  expect(changed).toEqual({
    scaling: {
      targetTtftMs: 1500,
      targetQueueMs: null,
      schedules: [{ days: ["mon", "tue", "wed", "sun"], ...schedule }],
    },
  });
  const refused = await stoker("deploy", "update", id, "--schedule", "weekdays 8-18 min 2");
  expect(refused.code).not.toBe(0);
  expect(refused.err).toContain('form "DAYS FROM-TO ZONE min N"');
}, 60_000);

it("shows the statistics of a deployment", async () => {
  const { out, err } = await stoker("deploy", "stats", id);
  expect(out, err).toMatch(/requests +12, 1 failed[\s\S]*100 in, 50 out[\s\S]*208 ms[\s\S]*0\.0150 USD/);
}, 60_000);

it("shows the log of a single instance", async () => {
  const { out, err } = await stoker("deploy", "logs", id, "--instance", "instance-1");
  expect(out, err).toBe("2023-04-24T13:45:34.123Z loading\n");
  expect((await stoker("deploy", "logs", id, "--instance", "instance-2")).out).toBe("");
}, 60_000);

it("creates a deployment that sleeps, and changes its time", async () => {
  await stoker("deploy", "create", "org/model", "--sleep-after", "10m", "--no-wait");
  expect(wanted?.sleepAfterSeconds).toBe(600);
  await stoker("deploy", "update", id, "--sleep-after", "20m", "--no-wait");
  expect(changed?.sleepAfterSeconds).toBe(1_200);
});

describe("deploy by name", () => {
  it("shows the GPUs that fit with their prices, deploys on the recommended one, and prints a call", async () => {
    fits = true;
    wanted = undefined;
    const plan = await stoker("deploy", "org/w", "--dry-run");
    expect(plan.out, plan.err).toMatch(/^ {2}1xL40S-48GB +0\.00 +yes$/m);
    expect(plan.out).toMatch(/^\* 1xL4-24GB +0\.00 +yes$/m);
    expect(plan.code).toBe(0);
    expect(wanted).toBeUndefined();
    repository = "unknown";
    const unknown = await stoker("deploy", "org/w", "--dry-run");
    expect(unknown.out, unknown.err).toMatch(/^\* 1xL4-24GB +0\.00 +unknown +the hub cannot be reached/m);
    expect(unknown.code).toBe(7);
    repository = "found";
    edge.models.models = [servedModel({ name: deployment().modelName })];
    const done = await stoker("deploy", "org/w", "--yes");
    fits = false;
    expect(done.code, done.err).toBe(0);
    expect(wanted).toMatchObject({ modelName: "org/w", gpu: "L4-24GB", numGpus: 1 });
    expect(done.out).toMatch(/Call it:\ncurl /);
  }, 60_000);

  it("asks first, and reports what does not fit", async () => {
    wanted = undefined;
    const asked = await stoker("deploy", "org/w");
    expect(asked.code).toBe(2);
    expect(asked.err).toContain("it has no H100-80GB GPU");
    expect(asked.err).toContain("Add --yes to confirm.");
    expect(wanted).toBeUndefined();
    expect((await stoker("deploy", "org/w", "--dry-run")).code).toBe(1);
    expect(await stoker("deploy", "unknown-7b")).toMatchObject({ code: 4, out: "" });
  }, 60_000);
});
