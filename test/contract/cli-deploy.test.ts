// The CLI's words about deployments and their logs against the real edge.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { SettingsUpdate } from "../../control-plane/deployments/change.ts";
import type { DeployRequest } from "../../control-plane/deployments/create.ts";
import type { HfRequest } from "../../control-plane/deployments/create-hf.ts";
import type { Deployment } from "../../control-plane/deployments/deployment.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey, deployment } from "../fakes/ports.ts";

const { id } = deployment();
let edge: Edge;
let asked: HfRequest | undefined;
let wanted: DeployRequest | undefined;
let changed: SettingsUpdate | undefined;
let listed: readonly Deployment["status"][] = [];
const offer = { count: 1, isAvailable: true, isRecommended: false };
beforeAll(async () => {
  edge = await startEdge({
    change: (deps) => ({
      ...deps,
      placement: {
        ...deps.placement,
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

async function stoker(...args: string[]) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "../../cli/main.ts"), ...args], {
    env: { ...process.env, STOKER_HOST: edge.url, STOKER_API_KEY: apiKey },
  });
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  return { out: await text(child.stdout), err: await text(child.stderr), code: await exited };
}

it("says before a model is deployed whether it fits, where not and why, and what it would cost", async () => {
  const { out, err } = await stoker("deploy", "create-llm", "org/w", "--gpu", "H100-80GB", "--min", "2", "--dry-run");
  expect(out, err).toContain("It does not fit now: vllm, about 1.0 GiB per instance, 3.58 USD per hour.");
  expect(out).toContain("host-1: it has no H100-80GB GPU");
}, 60_000);

it("deploys a model of a named task, and waits until it serves", async () => {
  const { out, err, code } = await stoker("deploy", "create", "acme/minilm", "--task", "embeddings", "--max", "3");
  expect(code, err).toBe(0);
  expect(out).toContain("acme/minilm");
  expect(asked).toMatchObject({ modelName: "acme/minilm", task: "embeddings", minInstances: 1, maxInstances: 3 });
}, 60_000);

it("chooses the cheapest GPU that is free and holds the weights where none is named", async () => {
  const { err, code } = await stoker("deploy", "create-llm", "org/w");
  expect(code, err).toBe(0);
  expect(wanted).toMatchObject({ modelName: "org/w", gpu: "L4-24GB" });
  expect(err).toContain(`stoker deploy info ${id} says how far it is`);
}, 60_000);

it("asks for a repository only where one was named: a model whose files are known is its name", async () => {
  await stoker("deploy", "create-llm", "org/w", "--gpu", "other");
  expect(wanted?.hf).toBeUndefined();
  await stoker("deploy", "create-llm", "org/w", "--gpu", "other", "--hf-revision", "v2");
  expect(wanted?.hf).toEqual({ repo: "org/w", revision: "v2" });
  await stoker("deploy", "create-llm", "w", "--gpu", "other");
  expect(wanted?.hf).toEqual({ repo: "w" });
}, 60_000);

it("lists what is or comes to be served, and says what else there is", async () => {
  listed = ["deployed", "failed", "deleted", "deleted"];
  const active = await stoker("deploy", "list", "--model", "ada/my-llm");
  const none = await stoker("deploy", "list", "--model", "org/unknown");
  const any = await stoker("deploy", "list", "--state", "any", "--model", "ada/my-llm");
  expect(active.out.match(/^.*deployed.*$/gm)).toHaveLength(1);
  expect(active.out).not.toMatch(/failed|deleted/);
  expect(active.err).toBe("Not shown: 1 failed, 2 deleted; --state any or inactive lists them.\n");
  expect(none).toMatchObject({ out: "None.\n", err: "" });
  expect(any.out.trim().split("\n")).toHaveLength(5);
  expect(any.err).toBe("");
}, 60_000);

it("shows all that an update sets", async () => {
  const { out, err } = await stoker("deploy", "info", id);
  expect(out, err).toContain("at most 64 requests at once per instance\n");
  expect(out).toMatch(/^scale +\d+ to \d+ instances, asleep after 900 s without requests$/m);
  expect(out).toMatch(/^settings max_context_size 4096$/m);
  expect(out).toMatch(/^args +--seed=7 --swap-space=2$/m);
}, 60_000);

it("changes how many requests an instance takes at once, and leaves its other settings", async () => {
  const { err, code } = await stoker("deploy", "update", id, "--concurrency", "8", "--no-wait");
  expect(code, err).toBe(0);
  expect(changed).toEqual({ standardArgs: { maxContextSize: 4096, maxConcurrentRequests: 8 } });
}, 60_000);

it("tells what requests on a deployment came to", async () => {
  const { out, err } = await stoker("deploy", "stats", id);
  expect(out, err).toMatch(/requests +12, 1 failed[\s\S]*100 in, 50 out[\s\S]*208 ms[\s\S]*0\.0150 USD/);
}, 60_000);

it("shows the log of one instance alone", async () => {
  const { out, err } = await stoker("log", id, "--instance", "instance-1");
  expect(out, err).toBe("2023-04-24T13:45:34.123Z loading\n");
  expect((await stoker("log", id, "--instance", "instance-2")).out).toBe("");
}, 60_000);
