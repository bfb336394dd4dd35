// LoRA adapters on a real database: what hosts load, which instances serve callers, and which adapter is unloaded.
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createDirectory } from "../../../control-plane/catalog/directory.ts";
import { maxHeld } from "../../../control-plane/deployments/adapter.ts";
import { type AdapterRequest, createAdapters } from "../../../control-plane/deployments/adapters.ts";
import { deleteDeployment, updateDeployment } from "../../../control-plane/deployments/change.ts";
import { createAdapterWaker, createWaker } from "../../../control-plane/deployments/wake.ts";
import { createAdapterStore } from "../../../control-plane/store/deployments/adapter-store.ts";
import { createCatalogStore } from "../../../control-plane/store/models/catalog-store.ts";
import { noAdapters } from "../../../proto/engine-args.ts";
import type { AccountId, AdapterId, DeploymentId, HostId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, freeTime, gpuDefaults, type Replica, startReplica } from "../fleet/replica.ts";

const wait = { timeout: 30_000, interval: 25 };
const bob = { account: "u:bob" as AccountId, displayName: "bob", suspendReason: null };
const rates = { input: 21n, cachedInput: 10n, output: 40n };
let postgres: TestDatabases;
let replica: Replica;
let agent: FakeAgent;
let base: DeploymentId;
let other: DeploymentId;
/** What the host says of adapters of that repository; of others that they are ready. */
const said = new Map<string, object>([
  ["ada/bad", { phase: "failed", failCode: "adapter_refused", failMessage: "made for another", isFinal: true }],
]);

beforeAll(async () => {
  postgres = await sharedPostgres();
  replica = await startReplica(await postgres.migratedDatabase());
  agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: "host-1", gpus: 4 });
  agent.connect();
  agent.obeyEach(({ adapters }) => ({
    phase: "ready",
    adapters: adapters.map(({ id, weights }) => ({ id, phase: "ready", ...said.get(weights?.repo ?? "") })),
  }));
  base = (await replica.deploy({ modelName: "ada/base" })).id;
  other = (await replica.deploy({ modelName: "ada/other" })).id;
  for (const id of [base, other]) await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
});
afterAll(async () => {
  await agent?.close();
  await replica?.stop();
  await postgres?.stop();
});

const parts = () => {
  const catalog = createCatalogStore(replica.db);
  const directory = createDirectory(catalog);
  const store = createAdapterStore(replica.db);
  const adapters = createAdapters({
    store,
    resolve: (model, account) => directory.resolve(model, account),
    refresh: () => directory.refresh(),
    lookAtRepo: async () => ({
      kind: "found",
      formats: new Set(),
      files: [],
      task: undefined,
      baseModel: "ada/base",
    }),
    whyUrlRefused: async (url) =>
      url.startsWith("https://good.example/") ? undefined : "its host is not a public address",
    sealToken: async (_, token) => Buffer.from(`sealed ${token}`),
  });
  const requestInstance = createWaker({ store: replica.deploymentStore, ...freeTime });
  const isBaseReady = (id: DeploymentId) => replica.routing.ready(id).length > 0;
  return { catalog, directory, store, adapters, ask: createAdapterWaker({ store, requestInstance, isBaseReady }) };
};

const hub = (repo: string): AdapterRequest["origin"] => ({
  kind: "huggingface",
  repo,
  revision: undefined,
  file: undefined,
});
const request = (name: string, over: Partial<AdapterRequest> = {}): AdapterRequest => ({
  name,
  origin: hub("ada/lora"),
  token: undefined,
  baseModel: undefined,
  isPrivate: true,
  description: "",
  fields: { name: "lora_name", repo: "source", base: "base_model" },
  ...over,
});
const told = (deployId: DeploymentId) =>
  (agent.desired?.instances ?? []).find((one) => one.deployId === deployId)?.adapters.map(({ id }) => id) ?? [];
const held = (deployId: DeploymentId, id: AdapterId) => replica.routing.ready(deployId, id).length;
/** As if it had been used so long ago. */
const usedAgo = (id: AdapterId, seconds: number) =>
  replica.db
    .updateTable("adapter")
    .set({ usedAt: new Date(Date.now() - seconds * 1000) })
    .where("adapterId", "=", id)
    .execute();

describe("a LoRA adapter", () => {
  it("is sent only to instances of its base, with its token, and callers are routed to those that hold it", async () => {
    const { adapters, directory } = parts();
    const made = await adapters.create(ada, request("ink", { token: "hf_secret" }));
    expect(made).toMatchObject({ name: "ada/ink", baseModel: "ada/base", status: "initializing", hasToken: true });
    await vi.waitFor(() => expect(told(base)).toEqual([made.id]), wait);
    const sent = agent.desired?.instances.find((one) => one.deployId === base)?.adapters[0]?.weights;
    expect(sent).toMatchObject({ repo: "ada/lora", revision: "main", token: "hf_secret", format: "lora" });
    expect(told(other)).toEqual([]);
    await vi.waitFor(() => expect(held(base, made.id)).toBe(1), wait);
    expect(held(other, made.id)).toBe(0);
    expect(await adapters.get(ada, "ada/ink")).toMatchObject({ status: "deployed", held: 1 });
    await directory.refresh();
    expect(directory.resolve("ada/ink", ada.account)).toMatchObject({
      deployId: base,
      servedName: made.id,
      adapter: { baseName: "ada/base" },
    });
    expect(directory.list(ada.account).map(({ name }) => name)).toContain("ada/ink");
  });

  it("belongs to its account only, and cannot have a name that the account already uses", async () => {
    const { adapters, directory } = parts();
    await directory.refresh();
    const { id } = await adapters.get(ada, "ada/ink");
    for (const name of ["ada/ink", `deploy_id:${id}`]) expect(directory.resolve(name, bob.account)).toBeUndefined();
    await expect(adapters.get(bob, "ada/ink")).rejects.toMatchObject({ code: "adapter_not_found" });
    await expect(adapters.remove(bob, id)).rejects.toMatchObject({ code: "adapter_not_found" });
    for (const name of ["ada/ink", "ada/other"])
      await expect(adapters.create(ada, request(name))).rejects.toMatchObject({ code: "name_taken" });
    await expect(replica.deploy({ modelName: "ada/ink" })).rejects.toMatchObject({ code: "name_taken" });
    for (const baseModel of ["ada/nothing", "ada/ink"])
      await expect(adapters.create(ada, request("x", { baseModel }))).rejects.toMatchObject({
        code: "invalid_adapter",
      });
  });

  it("fails with the host's reason if a retry cannot help, and frees its name", async () => {
    const { adapters, ask, directory } = parts();
    const made = await adapters.create(ada, request("bad", { origin: hub("ada/bad") }));
    const why = { status: "failed", failReason: "adapter_refused: made for another" };
    await vi.waitFor(async () => expect(await adapters.get(ada, "ada/bad")).toMatchObject(why), wait);
    expect(await parts().store.maintain(3_600_000)).toBe(1);
    await vi.waitFor(() => expect(told(base)).not.toContain(made.id), wait);
    expect(await ask(base, ada.account, made)).toEqual({ kind: "ended", phase: "failed" });
    await directory.refresh();
    const again = await adapters.create(ada, request("bad"));
    expect(again.id).not.toBe(made.id);
    await adapters.remove(ada, "ada/bad");
    await adapters.remove(ada, made.id);
  });

  it("is unloaded for a requested one if it is the least recently used, and loaded again on request", async () => {
    const { adapters, store, ask } = parts();
    const ids: AdapterId[] = [(await adapters.get(ada, "ada/ink")).id];
    while (ids.length <= maxHeld("stoker", "text-generation"))
      ids.push((await adapters.create(ada, request(`more-${ids.length}`))).id);
    const [first, second, ...rest] = ids as [AdapterId, AdapterId, ...AdapterId[]];
    const last = rest.at(-1) as AdapterId;
    const owned = (id: AdapterId) => ({ id, account: ada.account });
    // Made when the base was full: nobody's place is taken before somebody asks.
    await vi.waitFor(() => expect(told(base).sort()).toEqual(ids.filter((id) => id !== last).sort()), wait);
    for (const id of ids) await usedAgo(id, 0);
    expect(await ask(base, ada.account, owned(last))).toMatchObject({ kind: "stuck", phase: "no_capacity" });
    for (const [at, id] of ids.entries()) await usedAgo(id, 600 - at);
    expect(await ask(base, ada.account, owned(last))).toMatchObject({ kind: "coming" });
    await vi.waitFor(() => expect([held(base, last), held(base, first)]).toEqual([1, 0]), wait);
    expect(await ask(base, ada.account, owned(first))).toMatchObject({ kind: "coming" });
    await vi.waitFor(() => expect([held(base, first), held(base, second)]).toEqual([1, 0]), wait);
    // What nobody uses is unloaded, and nothing else.
    for (const id of rest) await usedAgo(id, 7_200);
    await store.used(last, ada.account);
    expect(await store.maintain(3_600_000)).toBe(rest.length - 1);
    await vi.waitFor(() => expect(told(base).sort()).toEqual([first, last].sort()), wait);
    for (const id of ids.slice(1)) await adapters.remove(ada, id);
    await vi.waitFor(() => expect(told(base)).toEqual([first]), wait);
  });

  it("replaces one idle adapter at a time if its host has no memory for another", async () => {
    const { adapters, ask } = parts();
    const first = await adapters.get(ada, "ada/ink");
    await vi.waitFor(() => expect(told(base)).toEqual([first.id]), wait);
    said.set("ada/wide", { phase: "failed", failCode: "adapter_no_room", failMessage: "no memory", isFinal: false });
    const wide = await adapters.create(ada, request("wide", { origin: hub("ada/wide") }));
    const owned = { id: wide.id, account: ada.account };
    const why = { failReason: "adapter_no_room: no memory" };
    await vi.waitFor(async () => expect(await adapters.get(ada, "ada/wide")).toMatchObject(why), wait);
    await usedAgo(first.id, 0);
    expect(await ask(base, ada.account, owned)).toMatchObject({ kind: "stuck" });
    expect(told(base).sort()).toEqual([first.id, wide.id].sort());
    await usedAgo(first.id, 600);
    expect(await ask(base, ada.account, owned)).toMatchObject({ kind: "coming" });
    await vi.waitFor(() => expect(told(base)).toEqual([wide.id]), wait);
    // The host says so again before it has tried: nobody else loses a place meanwhile.
    const other = await adapters.create(ada, request("beside"));
    await usedAgo(other.id, 600);
    await vi.waitFor(async () => expect(await adapters.get(ada, "ada/wide")).toMatchObject(why), wait);
    expect(await ask(base, ada.account, owned)).toMatchObject({ kind: "stuck" });
    for (const { id } of [wide, other]) await adapters.remove(ada, id);
    expect(await ask(base, ada.account, first)).toMatchObject({ kind: "coming" });
    await vi.waitFor(() => expect(told(base)).toEqual([first.id]), wait);
  });

  it("has the commit that the hub named at its creation, or else the first that a host loaded, on every instance", async () => {
    const { adapters } = parts();
    const [a, b] = ["a".repeat(40), "b".repeat(40)];
    said.set("ada/moving", { phase: "ready", commit: a });
    const made = await adapters.create(ada, request("moving", { origin: hub("ada/moving") }));
    await vi.waitFor(async () => expect(await adapters.get(ada, made.id)).toMatchObject({ commit: a }), wait);
    said.set("ada/moving", { phase: "ready", commit: b });
    const next = await adapters.create(ada, request("next", { origin: hub("ada/moving") }));
    await vi.waitFor(async () => expect(await adapters.get(ada, next.id)).toMatchObject({ commit: b }), wait);
    expect(await adapters.get(ada, made.id)).toMatchObject({ commit: a });
    const sent = agent.desired?.instances.find((one) => one.deployId === base)?.adapters;
    expect(sent?.find(({ id }) => id === made.id)?.weights).toMatchObject({ revision: a });
    for (const { id } of [made, next]) await adapters.remove(ada, id);
  });

  it("of a picture model may come from a URL, which only hosts receive in full", async () => {
    const { adapters } = parts();
    await replica.db.updateTable("deployment").set({ task: "text-to-image" }).where("deployId", "=", other).execute();
    const url = (text: string) => request("seen", { baseModel: "ada/other", origin: { kind: "url", url: text } });
    await expect(adapters.create(ada, url("https://10.0.0.1/a"))).rejects.toThrow(/source: .+ not a public address/);
    const onText = { ...url("https://good.example/a"), baseModel: "ada/base" };
    await expect(adapters.create(ada, onText)).rejects.toThrow(
      /ada\/base is a text model: its adapters are hub repositories/,
    );
    const made = await adapters.create(ada, url("https://good.example/a.safetensors?signature=secret"));
    expect(made).toMatchObject({ source: "url", repo: "https://good.example/a.safetensors" });
    await vi.waitFor(() => expect(told(other)).toEqual([made.id]), wait);
    const sent = agent.desired?.instances.find((one) => one.deployId === other)?.adapters[0]?.weights;
    expect(sent).toMatchObject({ url: "https://good.example/a.safetensors?signature=secret", format: "image_lora" });
    const row = replica.db.selectFrom("adapter").selectAll().where("adapterId", "=", made.id);
    expect(JSON.stringify({ ...(await row.executeTakeFirstOrThrow()), url: null })).not.toContain("secret");
    await adapters.remove(ada, made.id);
    expect((await row.executeTakeFirstOrThrow()).url).toBeNull();
    await replica.db.updateTable("deployment").set({ task: "text-generation" }).where("deployId", "=", other).execute();
  });

  it("prevents an update that would start its base without adapters; a base without adapters is updated", async () => {
    const { adapters } = parts();
    const made = await adapters.create(ada, request("kept"));
    const { id } = await replica.deploy({ modelName: "ada/third" });
    const asVllm = (deployId: DeploymentId, engine: "vllm" | "stoker") =>
      replica.db.updateTable("deployment").set({ engine }).where("deployId", "=", deployId).execute();
    const update = (deployId: DeploymentId) =>
      updateDeployment(replica.deploymentStore, ada.account, deployId, { extraArgs: [noAdapters] }, gpuDefaults);
    for (const one of [base, id]) await asVllm(one, "vllm");
    await expect(update(base)).rejects.toMatchObject({
      ...{ code: "invalid_deployment", param: "extra_args" },
      message: expect.stringContaining("Delete them first"),
    });
    expect(await replica.get(base)).toMatchObject({ extraArgs: [], spec: 1 });
    await update(id);
    expect(await replica.get(id)).toMatchObject({ extraArgs: [noAdapters] });
    await deleteDeployment(replica.deploymentStore, ada.account, id);
    await asVllm(base, "stoker");
    await adapters.remove(ada, made.id);
  });

  it("is not created on a base that was updated to accept none, nor the other way round", async () => {
    const { adapters, directory } = parts();
    const { id } = await replica.deploy({ modelName: "ada/fourth" });
    await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
    await replica.db.updateTable("deployment").set({ engine: "vllm" }).where("deployId", "=", id).execute();
    // As a replica knows it that has not heard of the update.
    await directory.refresh();
    const update = (extraArgs: string[]) =>
      updateDeployment(replica.deploymentStore, ada.account, id, { extraArgs }, gpuDefaults);
    const make = () => adapters.create(ada, request("late", { baseModel: "ada/fourth" }));
    await update([noAdapters]);
    await expect(make()).rejects.toMatchObject({ message: expect.stringContaining(noAdapters) });
    await update([]);

    /** For a row of that table. */
    const isWaiting = (table: string) =>
      vi.waitFor(async () => {
        const { rows } = await sql`select from pg_stat_activity where datname = current_database()
          and wait_event_type = 'Lock' and query like ${`select % from "${table}" where %for no key update`}`.execute(
          replica.db,
        );
        expect(rows).toHaveLength(1);
      }, wait);
    const { making, refusing } = await replica.db.transaction().execute(async (trx) => {
      await trx
        .selectFrom("host")
        .select("hostId")
        .where("hostId", "=", "host-1" as HostId)
        .forUpdate()
        .execute();
      const making = make();
      await isWaiting("host");
      const refusing = update([noAdapters]).then(
        () => "updated",
        (error: Error) => error.message,
      );
      await isWaiting("deployment");
      return { making, refusing };
    });
    const [made, refused] = await Promise.all([making, refusing]);
    expect(refused).toContain("Delete them first");
    await adapters.remove(ada, made.id);
    await deleteDeployment(replica.deploymentStore, ada.account, id);
  });

  it("costs one and a half times an offered base, follows it to another deployment, and fails with it", async () => {
    const { adapters, catalog, directory, store } = parts();
    await catalog.offer({ name: "org/offered", deployId: base, description: "", rates });
    const made = await adapters.create(ada, request("offered", { baseModel: "org/offered" }));
    await directory.refresh();
    expect(directory.resolve("ada/offered", ada.account)).toMatchObject({
      rates: { input: 32n, cachedInput: 15n, output: 60n },
      deployId: base,
    });
    await catalog.offer({ name: "org/offered", deployId: other, description: "", rates });
    expect(await store.maintain(3_600_000)).toBe(1);
    await vi.waitFor(() => expect([held(other, made.id), held(base, made.id)]).toEqual([1, 0]), wait);
    await deleteDeployment(replica.deploymentStore, ada.account, other);
    expect(await store.maintain(3_600_000)).toBe(1);
    expect(await adapters.get(ada, "ada/offered")).toMatchObject({
      status: "failed",
      failReason: expect.stringMatching(/^base_gone: /),
    });
  });
});
