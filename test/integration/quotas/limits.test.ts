// Limits on a real PostgreSQL: concurrent requests, and decisions of operators.
import { randomBytes } from "node:crypto";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { startDeployment, stopDeployment, updateDeployment } from "../../../control-plane/deployments/change.ts";
import { createDeployment } from "../../../control-plane/deployments/create.ts";
import * as errors from "../../../control-plane/quotas/errors.ts";
import { createLimitRequests } from "../../../control-plane/quotas/limit-requests.ts";
import { createQuotaStore } from "../../../control-plane/store/accounts/quota-store.ts";
import { createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { createDeploymentStore } from "../../../control-plane/store/deployments/deployments-store.ts";
import { createQuotas } from "../../../control-plane/wiring/quotas.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";

const log = pino({ level: "silent" });
const defaults = { rates: { concurrent: 200, tokensPerMinute: 5_000_000, weight: 1 }, gpus: { perType: 8 } };
const act = { by: "u:operator", ip: "192.0.2.1", note: "decided" };
let postgres: TestDatabases;
let open: OpenDatabase;
let desk: ReturnType<typeof createLimitRequests>;
let deployments: ReturnType<typeof createDeploymentStore>;
let account: AccountId;
let serial = 0;

beforeAll(async () => {
  postgres = await sharedPostgres();
  const url = await postgres.migratedDatabase();
  open = openDatabase(url, { maxConnections: 20, log });
  desk = createLimitRequests(createQuotaStore(open.db), defaults);
  deployments = createDeploymentStore(open.db);
});
afterAll(async () => {
  await open?.close();
  await postgres?.stop();
});
beforeEach(async () => {
  account = await makeAccount(false);
});

async function makeAccount(isAdmin: boolean): Promise<AccountId> {
  const id = `u:${++serial}` as AccountId;
  const name = `account-${serial}`;
  await open.db
    .insertInto("account")
    .values({
      accountId: id,
      email: `${name}@example.com`,
      displayName: name,
      isAdmin: isAdmin,
      suspendReason: null,
      wrappedDek: randomBytes(60),
      kekVersion: 1,
      deletedAt: null,
    })
    .execute();
  return id;
}

const paying = { gpuDefaults: defaults.gpus, funds: async () => null, firstMinutes: async () => 0n };
const deploy = (name: string, maxInstances = 1, numGpus = 1, owner = account) =>
  createDeployment(
    {
      store: deployments,
      ...paying,
      sealToken: async (_, token) => Buffer.from(token),
      demoModel: () => undefined,
      publicModel: async () => undefined,
      lookAtRepo: async () => ({ kind: "unreachable" }),
    },
    { account: owner, displayName: "ada", suspendReason: null },
    {
      modelName: `ada/${name}`,
      gpu: "other",
      numGpus,
      maxBatchSize: 4,
      hf: { repo: "ada/weights" },
      baseModel: undefined,
      minInstances: 1,
      maxInstances,
      extraArgs: [],
    },
  );
const ask = (max: Record<string, number>, expectedId: string | null = null) =>
  desk.requestGpus(account, { max, min: {}, reason: "launch", expectedId });
const outcomes = async (all: readonly Promise<unknown>[]) =>
  (await Promise.allSettled(all)).map((one) => (one.status === "fulfilled" ? "done" : one.reason.code)).sort();
const setMax = (count: number | null) => desk.setLimits(account, { max: { other: count } }, act);
const status = async (id: DeploymentId) => (await deployments.get(id, account))?.status;

describe("deployments count against the GPU limit", () => {
  it("by maximum instances times GPUs of each, and a refusal writes nothing", async () => {
    await deploy("two", 2, 3);
    await expect(deploy("one", 1, 3)).rejects.toThrow(/needs up to 3 other .* 6 of your limit of 8/);
    expect(await deployments.list(account, "model", undefined)).toHaveLength(1);
    await deploy("rest", 2, 1);
  });

  it("and of ten concurrent ones for the last GPU one is created", async () => {
    await setMax(1);
    expect(await outcomes(Array.from({ length: 10 }, (_, i) => deploy(`same-${i}`)))).toEqual([
      "done",
      ...Array.from({ length: 9 }, () => "gpu_limit_reached"),
    ]);
  });

  it("also when they grow, and of two that grow concurrently one gets the last GPU", async () => {
    await setMax(3);
    const [first, second] = [await deploy("first"), await deploy("second")];
    const grow = ({ id }: { id: DeploymentId }) =>
      updateDeployment(deployments, account, id, { maxInstances: 2 }, defaults.gpus);
    expect(await outcomes([grow(first), grow(second)])).toEqual(["done", "gpu_limit_reached"]);
    const sizes = (await deployments.list(account, "model", undefined)).map((one) => one.maxInstances);
    expect(sizes.sort()).toEqual([1, 2]);
  });

  it("not while stopped, but again when started", async () => {
    await setMax(1);
    const { id } = await deploy("first");
    await stopDeployment(deployments, account, id);
    expect(await status(id)).toBe("stopping");
    await expect(deploy("second")).rejects.toThrow(errors.GpuLimitReached);
    await open.db.updateTable("deployment").set({ status: "stopped" }).where("deployId", "=", id).execute();
    await updateDeployment(deployments, account, id, { maxInstances: 5 }, defaults.gpus);
    await deploy("second");
    await expect(startDeployment(deployments, account, id, paying)).rejects.toThrow(errors.GpuLimitReached);
    expect(await status(id)).toBe("stopped");
    await setMax(6);
    await startDeployment(deployments, account, id, paying);
  });

  it("a lowered limit stops no running deployment, and prevents growth; shrinking is always allowed", async () => {
    const { id } = await deploy("large", 6);
    await setMax(2);
    await expect(updateDeployment(deployments, account, id, { maxInstances: 7 }, defaults.gpus)).rejects.toThrow(
      errors.GpuLimitReached,
    );
    await updateDeployment(deployments, account, id, { maxInstances: 5 }, defaults.gpus);
    expect((await deployments.get(id, account))?.maxInstances).toBe(5);
  });

  it("the operator's own account has no limit", async () => {
    await deploy("many", 100, 8, await makeAccount(true));
  });
});

describe("a request for another GPU pool", () => {
  it("retains its id when amended, which replaces its content", async () => {
    const { id, createdAtMs } = await ask({ other: 16, "L4-24GB": 9 });
    const amended = await ask({ other: 12 }, id);
    expect(amended).toMatchObject({ id, createdAtMs, revision: 2, requested: { max: { other: 12 } } });
    expect((await desk.gpuPool(account)).pending?.requested.max).toEqual({ other: 12 });
  });

  it("is one of many filed concurrently, and the last of many amendments applies in full", async () => {
    const filed = Array.from({ length: 8 }, (_, i) => ask({ other: 10 + i }));
    expect(await outcomes(filed)).toEqual(["done", ...Array.from({ length: 7 }, () => "request_conflict")]);
    const id = (await desk.gpuPool(account)).pending?.id as string;
    expect(await outcomes(Array.from({ length: 5 }, (_, i) => ask({ "L4-24GB": 20 + i }, id)))).toEqual(
      Array.from({ length: 5 }, () => "done"),
    );
    const { pending } = await desk.gpuPool(account);
    expect(pending).toMatchObject({ id, revision: 6 });
    expect(Object.keys(pending?.requested.max ?? {})).toEqual(["L4-24GB"]);
  });

  it("is withdrawn by its owner once; another account's is unknown", async () => {
    const { id } = await ask({ other: 16 });
    await expect(desk.withdrawGpus(await makeAccount(false), id)).rejects.toMatchObject({ code: "request_not_found" });
    await desk.withdrawGpus(account, id);
    expect((await desk.gpuPool(account)).pending).toBeUndefined();
    await expect(desk.withdrawGpus(account, id)).rejects.toMatchObject({ code: "request_decided" });
    expect((await ask({ other: 16 })).id).not.toBe(id);
  });

  it("an unknown account is reported", async () => {
    account = "u:nobody" as AccountId;
    await expect(ask({ other: 16 })).rejects.toMatchObject({ code: "account_not_found" });
    await expect(desk.gpuPool(account)).rejects.toMatchObject({ code: "account_not_found" });
  });
});

describe("an operator's decision", () => {
  const resolve = (id: string, decision: "approved" | "rejected", ifRevision?: number) =>
    desk.resolve("gpu", id, decision, ifRevision, act);

  it("grants the request, is made once, and is audited with before and after", async () => {
    await desk.setLimits(account, { max: { "L4-24GB": 2 } }, act);
    const { id } = await ask({ other: 16 });
    expect(await outcomes([resolve(id, "approved"), resolve(id, "approved"), resolve(id, "approved")])).toEqual([
      "done",
      "request_decided",
      "request_decided",
    ]);
    const acts = await open.db.selectFrom("audit").selectAll().where("subject", "=", id).execute();
    expect(acts).toHaveLength(1);
    expect(acts[0]).toMatchObject({
      actor: "u:operator",
      action: "limit.approve",
      accountId: account,
      ip: "192.0.2.1",
      before: { max: { "L4-24GB": 2 } },
      after: { max: { "L4-24GB": 2, other: 16 } },
      note: "decided",
    });
    expect((await desk.gpuPool(account)).max).toMatchObject({ other: 16, "L4-24GB": 2, "H100-80GB": 8 });
  });

  it("applies to the version read: an amendment meanwhile is a conflict", async () => {
    const { id, revision } = await ask({ other: 16 });
    await ask({ other: 64 }, id);
    await expect(resolve(id, "approved", revision)).rejects.toMatchObject({ code: "request_conflict" });
    expect((await desk.gpuPool(account)).pending?.id).toBe(id);
    await resolve(id, "approved", 2);
    expect((await desk.gpuPool(account)).max["other"]).toBe(64);
  });

  it("that rejects is shown until an approval; a withdrawn request changes nothing about it", async () => {
    const first = await ask({ other: 16 });
    await resolve(first.id, "rejected");
    const second = await ask({ other: 12 });
    await desk.withdrawGpus(account, second.id);
    expect((await desk.gpuPool(account)).lastRejection).toMatchObject({ id: first.id, resolutionReason: "decided" });
    expect((await desk.gpuPool(account)).max["other"]).toBe(8);
    const third = await ask({ other: 10 });
    await resolve(third.id, "approved");
    expect((await desk.gpuPool(account)).lastRejection).toBeUndefined();
  });

  it("lists open ones first, with their account", async () => {
    const first = await ask({ other: 16 });
    account = await makeAccount(false);
    const second = await ask({ other: 16 });
    await resolve(second.id, "rejected");
    const listed = await desk.list("gpu", 1000);
    const isOpen = listed.map((one) => one.decision === null);
    expect(isOpen.lastIndexOf(true)).toBeLessThan(isOpen.indexOf(false));
    expect(listed.find(({ id }) => id === first.id)?.email).toMatch(/^account-/);
  });

  it("cannot set a minimum above its maximum", async () => {
    const set = desk.setLimits(account, { min: { other: 9 } }, act);
    await expect(set).rejects.toMatchObject({ code: "invalid_limits" });
    await desk.setLimits(account, { min: { other: 9 }, max: { other: 9 } }, act);
    expect((await desk.setLimits(account, { min: { other: null }, max: { other: null } }, act)).max["other"]).toBe(8);
  });
});

describe("rate limits", () => {
  it("that an operator raises count at every replica without a restart", async () => {
    const feed = createChangeFeed({ pool: open.pool, log });
    const replica = createQuotas({ db: open.db, feed, link: undefined, defaults, log });
    const stopping = new AbortController();
    await feed.start();
    await replica.refresh();
    const running = replica.run(stopping.signal);
    const meter = replica.rates.meter(account, "model" as DeploymentId);
    expect(meter.limits.concurrent).toBe(200);
    await desk.requestRates(account, { concurrent: 400, tokensPerMinute: null, reason: "evals" });
    await expect(
      desk.requestRates(account, { concurrent: 500, tokensPerMinute: null, reason: "evals" }),
    ).rejects.toMatchObject({ code: "request_open" });
    const request = (await desk.list("rate", 10)).find((one) => one.account === account);
    await desk.resolve("rate", request?.id as string, "approved", undefined, act);
    expect(await desk.rateLimits(account)).toEqual({ concurrent: 400, tokensPerMinute: 5_000_000, weight: 1 });
    await vi.waitFor(() => expect(meter.limits.concurrent).toBe(400), { timeout: 20_000 });
    const { rates } = await desk.setLimits(account, { weight: 4 }, act);
    expect(rates).toEqual({ concurrent: 400, tokensPerMinute: 5_000_000, weight: 4 });
    // An idle meter is dropped at each refresh.
    const weight = () => replica.rates.meter(account, "model" as DeploymentId).limits.weight;
    await vi.waitFor(() => expect(weight()).toBe(4), { timeout: 20_000 });
    stopping.abort();
    await running;
    await feed.stop();
  });
});
