import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { createDirectory } from "../../../control-plane/catalog/directory.ts";
import { createModelRecords, offerModel } from "../../../control-plane/catalog/model-records.ts";
import { deleteDeployment, deleteModel } from "../../../control-plane/deployments/change.ts";
import { createExternal } from "../../../control-plane/deployments/create-by.ts";
import { createCatalogStore } from "../../../control-plane/store/models/catalog-store.ts";
import { createModelMetaStore } from "../../../control-plane/store/models/model-meta-store.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, type Replica, startReplica } from "../fleet/replica.ts";

const wait = { timeout: 20_000, interval: 25 };
const bob = "u:bob" as AccountId;
let postgres: TestDatabases;
let replica: Replica;
let agent: FakeAgent;

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  replica = await startReplica(await postgres.migratedDatabase());
  agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: "host-1", gpus: 0 });
  agent.obey("ready");
  agent.connect();
});
afterEach(async () => {
  await agent.close();
  await replica.stop();
});

const deps = () => ({
  store: replica.deploymentStore,
  hasHost: async (host: string) => host === "host-1",
  sealToken: async (_account: AccountId, token: string) => Buffer.from(token).reverse(),
  openToken: async (_account: AccountId, sealed: Buffer) => Buffer.from(sealed).reverse().toString(),
});
const external = (over: { url?: string; host?: string; name?: string; apiKey?: string } = {}) =>
  createExternal(deps(), ada, {
    name: "org/beside",
    url: "http://127.0.0.1:4000/v1/",
    maxBatchSize: 64,
    servedName: "their-name",
    host: undefined,
    contextLength: undefined,
    ...over,
  });

describe("a server that already runs", () => {
  it("is placed without a GPU, with the server's model name, and is routable like any other", async () => {
    const { id } = await external();
    await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
    expect(agent.desired?.instances[0]).toMatchObject({
      engine: "external",
      externalUrl: "http://127.0.0.1:4000",
      servedModelName: "their-name",
      gpuUuids: [],
    });
  });

  it("is the same deployment on a repeated request, and a name conflict with another address", async () => {
    const { id } = await external();
    expect((await external()).id).toBe(id);
    await expect(external({ url: "http://127.0.0.1:5000" })).rejects.toMatchObject({ code: "name_taken" });
    await expect(external({ apiKey: "sk-1" })).rejects.toMatchObject({ code: "external_key_differs" });
  });

  it("is the same deployment with the same key only", async () => {
    const { id } = await external({ apiKey: "sk-1" });
    expect((await external({ apiKey: "sk-1" })).id).toBe(id);
    await expect(external({ apiKey: "sk-2" })).rejects.toMatchObject({ code: "external_key_differs" });
    await expect(external()).rejects.toMatchObject({ code: "external_key_differs" });
  });

  it("is refused with an address that contains a secret, or on an unknown host", async () => {
    await expect(external({ url: "http://user:pw@127.0.0.1" })).rejects.toMatchObject({ param: "url" });
    await expect(external({ host: "nowhere" })).rejects.toMatchObject({ code: "host_not_found" });
  });
});

describe("an offered model", () => {
  const rates = { input: 20_000_000n, cachedInput: 10_000_000n, output: 40_000_000n };

  it("gets a new price version only for new prices, and the old one never changes", async () => {
    const store = createCatalogStore(replica.db);
    const { id } = await external();
    const offer = { name: "org/small", deployId: id, description: "small", rates };
    const first = await offerModel(store, offer);
    expect((await offerModel(store, { ...offer, description: "other words" })).priceVersion).toBe(first.priceVersion);
    const dearer = await offerModel(store, { ...offer, rates: { ...rates, output: 50_000_000n } });
    expect(dearer.priceVersion).toBeGreaterThan(first.priceVersion);
    const kept = await replica.db.selectFrom("price").selectAll().orderBy("priceVersion").execute();
    expect(kept.map((row) => row.outputRate)).toEqual([40_000_000n, 50_000_000n]);
  });

  it("is available to every account at its price, with the reported properties, until its deployment is deleted", async () => {
    const store = createCatalogStore(replica.db);
    const models = createDirectory(store);
    const { id } = await external();
    await offerModel(store, { name: "org/small", deployId: id, description: "small", rates });
    await vi.waitFor(async () => {
      await models.refresh();
      expect(models.resolve("org/small", bob)).toMatchObject({ status: "deployed", contextLength: 2048, rates });
    }, wait);
    expect(models.resolve("org/beside", bob)).toBeUndefined();
    expect(models.resolve("org/small", bob)?.servedName).toBe("their-name");
    await deleteDeployment(replica.deploymentStore, ada.account, id);
    await models.refresh();
    expect(models.resolve("org/small", bob)).toBeUndefined();
  });

  it("has the smallest context length that one of its serving instances reported, also asleep", async () => {
    const { id } = await external();
    const lengthIn = async (db: typeof replica.db) =>
      (await createCatalogStore(db).deployed()).find(({ deployId }) => deployId === id)?.contextLength;
    await vi.waitFor(async () => expect(await lengthIn(replica.db)).toBe(2048), wait);
    // In one transaction, so that the control plane does not remove the surplus instances meanwhile.
    await replica.db.transaction().execute(async (trx) => {
      const add = (change: object) =>
        sql`insert into instance select added.* from instance i, jsonb_populate_record(i, ${JSON.stringify(change)}) added
          where i.deploy_id = ${id} limit 1`.execute(trx);
      await add({ instance_id: "larger", context_length: 1_000_000 });
      expect(await lengthIn(trx)).toBe(2048);
      await add({ instance_id: "unknown", context_length: 0 });
      await add({ instance_id: "loading", context_length: 16, phase: "loading" });
      expect(await lengthIn(trx)).toBe(2048);
      await add({ instance_id: "smaller", context_length: 1024, phase: "ready" });
      expect(await lengthIn(trx)).toBe(1024);
      await sql`update instance set phase = 'asleep' where deploy_id = ${id} and phase = 'ready'`.execute(trx);
      expect(await lengthIn(trx)).toBe(1024);
      await sql`update instance set phase = 'waking' where deploy_id = ${id} and phase = 'asleep'`.execute(trx);
      expect(await lengthIn(trx)).toBe(1024);
      await sql`update instance set phase = 'ready' where deploy_id = ${id} and phase = 'waking'`.execute(trx);
      await sql`delete from instance where instance_id in ('larger', 'unknown', 'loading', 'smaller')`.execute(trx);
    });
  });

  it("is refused for an unknown deployment", async () => {
    const store = createCatalogStore(replica.db);
    const offer = { name: "org/small", deployId: "nothing" as DeploymentId, description: "", rates };
    await expect(offerModel(store, offer)).rejects.toMatchObject({ code: "deployment_not_found" });
  });
});

describe("the record of a model", () => {
  const rates = { input: 20_000_000n, cachedInput: 10_000_000n, output: 40_000_000n };
  const asAda = { account: ada.account, isAdmin: false, act: { by: "u:person", ip: "127.0.0.1", note: "" } };
  const audited = async () =>
    (
      await replica.db
        .selectFrom("audit")
        .select(["actor", "action", "subject"])
        .where("action", "like", "model.%")
        .execute()
    ).map(({ actor, action, subject }) => `${actor} ${action} ${subject}`);
  function records() {
    const catalog = createCatalogStore(replica.db);
    const directory = createDirectory(catalog);
    const verbs = createModelRecords({
      store: createModelMetaStore(replica.db),
      offers: catalog,
      refresh: directory.refresh,
      endDeployments: (...model) => deleteModel(replica.deploymentStore, ...model),
    });
    return { directory, verbs };
  }

  it("has the owner's text, field by field, and is visible to others only if the owner allows it", async () => {
    const { directory, verbs } = records();
    await external();
    await directory.refresh();
    const model = () => {
      const found = directory.resolve("org/beside", ada.account);
      if (!found) throw new Error("ada's own model is not known");
      return found;
    };
    await verbs.change(asAda, model(), { description: "beside", githubUrl: "https://example.com/a", tags: ["x"] });
    await verbs.change(asAda, model(), {
      readme: "# Read me",
      deprecatedAtMs: 1_786_000_000_000,
      replacedBy: "org/next",
    });
    expect(model()).toMatchObject({
      description: "beside",
      about: { tags: ["x"], deprecatedAtMs: 1_786_000_000_000, replacedBy: "org/next", isShown: false },
    });
    expect(await verbs.papers(model())).toMatchObject({ githubUrl: "https://example.com/a", readme: "# Read me" });
    expect(await verbs.versions(model())).toMatchObject([{ version: model().version }]);
    await verbs.change(asAda, model(), { deprecatedAtMs: null });
    expect(model().about?.deprecatedAtMs).toBeNull();

    expect(directory.find("org/beside", bob)).toBeUndefined();
    await verbs.show(asAda, model(), true);
    const seen = directory.find("org/beside", bob);
    expect(seen).toMatchObject({ description: "beside" });
    const asBob = { ...asAda, account: bob };
    for (const act of [
      () => verbs.change(asBob, seen ?? model(), { description: "mine" }),
      () => verbs.show(asBob, seen ?? model(), false),
      () => verbs.remove(asBob, seen ?? model(), "ALL"),
    ])
      await expect(act()).rejects.toMatchObject({ code: "not_model_owner" });
    expect(directory.resolve("org/beside", bob)).toBeUndefined();
    expect(await audited()).toContain("u:person model.show org/beside");
  });

  it("of an offered model has the description of the offer, and hiding it ends the offer", async () => {
    const { directory, verbs } = records();
    const { id } = await external();
    await offerModel(createCatalogStore(replica.db), { name: "org/small", deployId: id, description: "small", rates });
    await directory.refresh();
    const model = () => directory.resolve("org/small", bob);
    const offered = model();
    if (!offered) throw new Error("the offer is not known");
    await verbs.change(asAda, offered, { description: "smaller", isFeatured: true });
    expect(model()).toMatchObject({ description: "smaller", about: { isFeatured: true } });
    await verbs.show(asAda, offered, false);
    expect(model()).toBeUndefined();
    expect(directory.resolve(`deploy_id:${id}`, ada.account)).toBeDefined();
  });

  it("is deleted with its deployments: of one version, or of all", async () => {
    const { directory, verbs } = records();
    const { id } = await external();
    await directory.refresh();
    const model = directory.resolve("org/beside", ada.account);
    if (!model) throw new Error("ada's own model is not known");
    await verbs.change(asAda, model, { description: "beside" });
    await expect(verbs.remove(asAda, model, "another")).rejects.toMatchObject({ code: "model_version_not_found" });
    expect((await replica.deploymentStore.get(id, ada.account))?.status).not.toBe("deleted");
    await verbs.remove(asAda, model, model.version);
    expect((await replica.deploymentStore.get(id, ada.account))?.status).toBe("deleted");
    expect(directory.find("org/beside", ada.account)).toBeUndefined();
    expect(await replica.db.selectFrom("modelMeta").selectAll().execute()).toEqual([]);
    expect(await audited()).toEqual(["u:person model.describe org/beside", "u:person model.forget org/beside"]);
  });
});
