// The CLI's words about other accounts' deployments and about events, against the real edge.
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { adminKey, apiKey } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

const id = "DpM4BkrjEspUwmTa";
let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

const stoker = (key: string, ...args: string[]) => runCli(edge, key, args);

it("lists deployments of all accounts and shows one with its hosts", async () => {
  const list = await stoker(adminKey, "admin", "deployment", "list");
  expect(list.out).toMatch(new RegExp(`^${id} +ada +ada/my-llm +deployed 1/1 +gpu-1$`, "m"));
  const info = await stoker(adminKey, "admin", "deployment", "get", id);
  expect(info.out).toContain("account   ada <ada@example.com> u:1000000000001\n");
  expect(info.out).toContain("instance  instance-1 on gpu-1: ready, 0 restarts\n");
  expect(await stoker(apiKey, "admin", "deployment", "list")).toMatchObject({ code: 3 });
});

it("stops, restarts and deletes one, with a reason only", async () => {
  const acted = async (verb: string, ...flags: string[]) =>
    (await stoker(adminKey, "admin", "deployment", verb, id, "--note", "it hangs", ...flags)).out;
  expect(await acted("stop")).toBe(`Deployment ${id} stops.\n`);
  expect(await acted("restart")).toBe(`Deployment ${id} restarts.\n`);
  expect(await acted("delete", "--yes")).toBe(`Deployment ${id} deleted.\n`);
  expect(await stoker(adminKey, "admin", "deployment", "stop", id)).toMatchObject({ code: 2 });
  expect((await stoker(adminKey, "admin", "deployment", "logs", id)).out).toMatch(/^2023-04-24T.*Z loading\n$/);
});

it("lists events of a deployment, a host and the fleet", async () => {
  expect((await stoker(apiKey, "deploy", "events", id)).out).toMatch(/^\S+T\S+ +instance.ready$/m);
  for (const args of [
    ["node", "events", "node-1"],
    ["admin", "events", "--kind", "instance", "--node", "host-1"],
  ])
    expect((await stoker(adminKey, ...args)).out).toMatch(/instance.ready +ada\/my-llm/);
  expect(await stoker(apiKey, "deploy", "events", "unknown")).toMatchObject({ code: 4 });
});

it("shows the models, customers and hosts that use the most", async () => {
  const models = await stoker(adminKey, "top", "--by", "model");
  expect(models.out).toMatch(/^NAME +OWNER +REQ\/S +ERR\/S +TOK\/S +GPUS +USE +QUEUE +USD\/H$/m);
  expect(models.out).toMatch(/^offered +ada@example.com +1.5 +0.2 +200.0 +2 +75% +1 +4.00$/m);
  const customers = await stoker(adminKey, "top", "--by", "customer", "--order", "spend");
  expect(customers.out).toMatch(/^ada@example.com +2.0 +0.1 +100.0 +2 +75% +1 +5.00$/m);
  expect((await stoker(adminKey, "top", "--by", "host")).out).toMatch(/^gpu-1 +- +- +40.5 +2 +75% +1 +-$/m);
  expect(await stoker(apiKey, "top", "--by", "model")).toMatchObject({ code: 3 });
});

it("lists open and ended incidents", async () => {
  const open = await stoker(adminKey, "admin", "incidents");
  expect(open.out).toMatch(/^2026-08-06T07:06:40Z +warning +ada\/my-llm of ada@example.com failed: out of memory.$/m);
  expect((await stoker(adminKey, "admin", "incidents", "--ended")).out).toMatch(
    /T07:07:40Z +critical +gpu-1 does not report.$/m,
  );
  expect(await stoker(apiKey, "admin", "incidents")).toMatchObject({ code: 3 });
});
