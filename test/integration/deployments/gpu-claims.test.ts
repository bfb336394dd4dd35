// GPUs are never claimed twice: random deployments of two accounts, deletions, crashed agents and control planes and cut
// connections on eight fake GPUs, the slices of a ninth and a real PostgreSQL. STOKER_PROPERTY_SECONDS says for how long (30, in the
// nightly run 300), STOKER_PROPERTY_SEED which run; the seed is printed.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { deleteDeployment } from "../../../control-plane/deployments/change.ts";
import { createDeployment, type Owner, versionOf } from "../../../control-plane/deployments/create.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { longer } from "../../fakes/nightly.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { ada, freeTime, gpuDefaults, type Replica, scaledLimits, startReplica } from "../fleet/replica.ts";

const seconds = Number(process.env["STOKER_PROPERTY_SECONDS"] ?? longer(30, 300));
const seed = Number(process.env["STOKER_PROPERTY_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const wait = { timeout: 30_000, interval: 50 };
const gib = 1024 ** 3;
const bob: Owner = { account: "u:bob" as AccountId, displayName: "bob", suspendReason: null };
const slicesGib = [40, 20, 10];
const small = { repo: "ada/small", revision: "main" };

let postgres: TestPostgres;
let url: string;
let replicas: Replica[];
let agents: FakeAgent[];

beforeAll(async () => {
  postgres = await startPostgres();
  url = await postgres.migratedDatabase();
  const first = await startReplica(url, { owner: "a", limits: scaledLimits });
  replicas = [first, await startReplica(url, { owner: "b", limits: scaledLimits })];
  await first.db
    .insertInto("account")
    .values({
      ...{ account_id: bob.account, email: "bob@example.com", display_name: "bob", suspend_reason: null },
      ...{ wrapped_dek: randomBytes(60), kek_version: 1, deleted_at: null },
    })
    .execute();
  const measured = { version: versionOf(small), engine: "stoker", settings: "1 4 0 ", expected_bytes: 0n };
  await first.db
    .insertInto("measured_memory")
    .values([
      // Three of these have room on one GPU,
      { ...measured, gpu: "H100-80GB", peak_bytes: BigInt(24 * gib) },
      // one of these on the second slice, and two on the first.
      { ...measured, gpu: "other", peak_bytes: BigInt(16 * gib) },
    ])
    .execute();
  agents = await Promise.all(
    ["host-1", "host-2"].map((hostId, n) =>
      startFakeAgent({
        ...{ address: addressOf(n), token: first.joinToken, hostId, gpus: 4, hasDriver: true },
        slices: n === 1 ? slicesGib : [],
      }),
    ),
  );
  for (const agent of agents) {
    agent.obey("ready");
    agent.connect();
  }
});
afterAll(async () => {
  await Promise.all(agents?.map((agent) => agent.close()) ?? []);
  await Promise.all(replicas?.map((replica) => replica.stop()) ?? []);
  await postgres?.stop();
});

const addressOf = (n: number) => (replicas[n % replicas.length] as Replica).address;

interface Kind {
  readonly gpu?: "other";
  readonly numGpus?: number;
  readonly isSmall?: boolean;
  readonly repo?: string;
  readonly instances?: number;
}

async function deploy(owner: Owner, name: string, over: Kind) {
  const [replica] = replicas as [Replica];
  const deployment = await createDeployment(
    {
      ...{ store: replica.deploymentStore, ...freeTime, gpuDefaults },
      measuredMemory: replica.measuredMemory.find,
      sealToken: async (_, token) => Buffer.from(token),
      demoModel: () => undefined,
      publicModel: async () => undefined,
      lookAtRepo: async () => ({ kind: "unreachable" }),
    },
    owner,
    {
      ...{
        modelName: `${owner.displayName}/${name}`,
        gpu: over.gpu ?? "H100-80GB",
        maxBatchSize: 4,
        baseModel: undefined,
      },
      ...{ hf: { repo: over.repo ?? (over.isSmall ? small.repo : "ada/large") }, extraArgs: [] },
      ...{ engine: undefined, image: undefined },
      numGpus: over.numGpus ?? 1,
      minInstances: over.instances ?? 1,
      maxInstances: over.instances ?? 1,
    },
  );
  return deployment.id;
}

/** What stands in the rows, judged without the walls that made them. Returns how many GPUs are in use. */
async function checkClaims(): Promise<number> {
  const { rows } = { rows: await instancesOnGpus() };
  const byGpu = Map.groupBy(rows, (row) => `${row.host_id} ${row.gpu}`);
  for (const [gpu, there] of byGpu) {
    expect(new Set(there.map((row) => row.account_id)).size, gpu).toBe(1);
    if (there.some((row) => row.bytes === 0)) expect(there, gpu).toHaveLength(1);
    expect(
      there.reduce((sum, row) => sum + row.bytes, 0),
      gpu,
    ).toBeLessThanOrEqual(sizeOf(there[0]?.gpu ?? ""));
  }
  for (const agent of agents) {
    const told = (agent.desired?.instances ?? []).flatMap((one) =>
      (one.gpuUuids ?? []).map((gpu) => ({ gpu, bytes: Number(one.gpuMemoryBytes) })),
    );
    for (const [gpu, there] of Map.groupBy(told, (one) => one.gpu))
      if (there.some((one) => one.bytes === 0)) expect(there, `told of ${gpu}`).toHaveLength(1);
  }
  return byGpu.size;
}

const sizeOf = (uuid: string) => (uuid.startsWith("MIG-") ? (slicesGib[Number(uuid.at(-1))] ?? 0) : 80) * gib;

async function instancesOnGpus() {
  const rows = await (replicas[0] as Replica).db
    .selectFrom("instance")
    .select(["instance_id", "host_id", "account_id", "gpu_uuids", "gpu_memory_bytes"])
    .execute();
  return rows.flatMap((row) => row.gpu_uuids.map((gpu) => ({ ...row, gpu, bytes: Number(row.gpu_memory_bytes) })));
}

describe("eight GPUs", () => {
  it("are shared by the small models of one account, and by nobody else's", async () => {
    const mine = [await deploy(ada, "one", { isSmall: true })];
    mine.push(await deploy(ada, "two", { isSmall: true }));
    const theirs = await deploy(bob, "three", { isSmall: true });
    await vi.waitFor(async () => expect(await instancesOnGpus()).toHaveLength(3), wait);
    const rows = await instancesOnGpus();
    const gpusOf = (account: AccountId) => [
      ...new Set(rows.filter((row) => row.account_id === account).map((row) => `${row.host_id} ${row.gpu}`)),
    ];
    expect(gpusOf(ada.account)).toHaveLength(1);
    expect(gpusOf(bob.account)).toHaveLength(1);
    expect(gpusOf(bob.account)).not.toEqual(gpusOf(ada.account));
    const instances = await (replicas[0] as Replica).deploymentStore.instances(mine[0]);
    expect(instances).toMatchObject([{ gpuShare: expect.closeTo(0.315, 5), gpuMemoryBytes: Math.ceil(25.2 * gib) }]);
    await vi.waitFor(() => {
      const told = agents.flatMap((agent) => agent.desired?.instances ?? []);
      expect(told.filter((one) => Number(one.gpuMemoryBytes) === Math.ceil(25.2 * gib))).toHaveLength(3);
    }, wait);
    await removeAll([...mine.map((id) => [ada, id] as const), [bob, theirs]]);
  });

  it("are begun to be shared by one account one at a time, wherever two replicas would rather go at the same moment", async () => {
    const { db } = replicas[0] as Replica;
    const repos = ["ada/here", "ada/there"];
    for (const [n, repo] of repos.entries()) {
      const of = { version: versionOf({ repo, revision: "main" }), engine: "stoker", settings: "1 4 0 " };
      const bytes = { peak_bytes: BigInt(8 * gib), expected_bytes: 0n };
      await db
        .insertInto("measured_memory")
        .values({ ...of, ...bytes, gpu: "H100-80GB" })
        .execute();
      await db
        .updateTable("host")
        .set({ kept_weights: [`${repo}@main`] })
        .where("hostname", "=", `host-${n + 1}`)
        .execute();
    }
    for (let round = 0; round < 3; round++) {
      const both = await Promise.all(repos.map((repo, n) => deploy(ada, `both-${round}-${n}`, { repo })));
      await vi.waitFor(async () => expect(await instancesOnGpus()).toHaveLength(2), wait);
      expect(new Set((await instancesOnGpus()).map((row) => `${row.host_id} ${row.gpu}`)).size).toBe(1);
      await removeAll(both.map((id) => [ada, id] as const));
    }
  });

  it("that are split are given by the slice: the smallest that holds the model, one account on each", async () => {
    const sliceOf = async (account: AccountId) => [
      ...new Set((await instancesOnGpus()).filter((row) => row.account_id === account).map(({ gpu }) => gpu)),
    ];
    const mine = [await deploy(ada, "slice-1", { gpu: "other", isSmall: true })];
    await vi.waitFor(async () => expect(await sliceOf(ada.account)).toEqual(["MIG-host-2-1"]), wait);
    const theirs = [await deploy(bob, "slice-2", { gpu: "other", isSmall: true })];
    await vi.waitFor(async () => expect(await sliceOf(bob.account)).toEqual(["MIG-host-2-0"]), wait);
    // Room for a second one is left beside Bob's, which is not for Ada: hers waits, and says for what.
    mine.push(await deploy(ada, "slice-3", { gpu: "other", isSmall: true }));
    await vi.waitFor(async () => {
      const record = await (replicas[0] as Replica).deploymentStore.get(mine[1] as DeploymentId, ada.account);
      expect(record?.pendingReasons).toContainEqual({
        host: "host-2",
        why: expect.stringMatching(/slice \(1g\.10gb\) of 10240 MiB; about 172\d\d MiB needed/),
      });
    }, wait);
    theirs.push(await deploy(bob, "slice-4", { gpu: "other", isSmall: true }));
    await vi.waitFor(() => {
      const told = agents.flatMap((agent) => agent.desired?.instances ?? []).map(({ gpuUuids }) => gpuUuids);
      expect(told.toSorted()).toEqual([["MIG-host-2-0"], ["MIG-host-2-0"], ["MIG-host-2-1"]]);
    }, wait);
    await checkClaims();
    await removeAll([...mine.map((id) => [ada, id] as const), ...theirs.map((id) => [bob, id] as const)]);
  });

  it(`are never claimed twice, whatever happens for ${seconds} s`, { timeout: (seconds + 90) * 1000 }, async () => {
    process.stderr.write(`gpu-claims: STOKER_PROPERTY_SEED=${seed}\n`);
    const next = randomOf(seed);
    const live: (readonly [Owner, DeploymentId])[] = [];
    const done = { deploy: 0, delete: 0, crash: 0, cut: 0, restart: 0, most: 0, looks: 0 };
    const cut = new Map<FakeAgent, number>();
    const until = performance.now() + seconds * 1000;
    for (let n = 0; performance.now() < until; n++) {
      const dice = next(20);
      for (const [agent, backAt] of cut) {
        if (performance.now() < backAt) continue;
        cut.delete(agent);
        agent.connect();
      }
      const agent = agents[next(agents.length)] as FakeAgent;
      if (dice < 9) {
        const owner = next(2) === 0 ? ada : bob;
        const kinds: Kind[] = [
          { isSmall: true },
          { isSmall: true, gpu: "other" },
          { numGpus: 1 + next(4), instances: 1 + next(2) },
        ];
        const kind = kinds[next(kinds.length)] as Kind;
        live.push([owner, await deploy(owner, `r${n}`, kind)]);
        done.deploy += 1;
      } else if (dice < 15 && live.length > 0) {
        const [gone] = live.splice(next(live.length), 1);
        if (gone) await deleteDeployment((replicas[0] as Replica).deploymentStore, gone[0].account, gone[1]);
        done.delete += 1;
      } else if (dice < 17 && !cut.has(agent)) {
        agent.disconnect();
        agent.restart();
        agent.connect();
        done.crash += 1;
      } else if (dice === 17) {
        // Longer than it takes until its instances are placed anew; everything else goes on meanwhile.
        agent.disconnect();
        cut.set(agent, performance.now() + scaledLimits.lostMs * 1.5);
        done.cut += 1;
      } else if (dice === 18) {
        // The one without agents goes, as a kill would have it go, and another takes its place.
        const old = replicas.pop() as Replica;
        await old.stop();
        replicas.push(await startReplica(url, { owner: `r${n}`, limits: scaledLimits, port: old.port }));
        done.restart += 1;
      }
      comeBack(cut);
      await Promise.all(replicas.map((replica) => replica.controller.pass()));
      done.most = Math.max(done.most, await checkClaims());
      done.looks += 1;
    }
    process.stderr.write(`gpu-claims: ${JSON.stringify(done)}\n`);
    expect(done.most).toBeGreaterThan(1);
    for (const agent of cut.keys()) agent.connect();
    await removeAll(live);
  });
});

/** As agents do: a session that ended is opened anew. */
function comeBack(cut: ReadonlyMap<FakeAgent, number> = new Map()): void {
  for (const agent of agents) if (agent.ended !== undefined && !cut.has(agent)) agent.connect();
}

/** Nothing is left of what ended: no claim, no share. */
async function removeAll(live: readonly (readonly [Owner, DeploymentId])[]): Promise<void> {
  const [{ db, deploymentStore }] = replicas as [Replica];
  for (const [owner, id] of live) await deleteDeployment(deploymentStore, owner.account, id);
  await vi.waitFor(async () => {
    comeBack();
    expect(await db.selectFrom("instance").select("instance_id").execute()).toEqual([]);
    expect(await db.selectFrom("gpu_claim").selectAll().execute()).toEqual([]);
  }, wait);
}

/** Mulberry32: the same numbers for the same seed everywhere. */
function randomOf(start: number): (below: number) => number {
  let state = start >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}
