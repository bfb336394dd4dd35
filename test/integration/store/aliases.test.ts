// Aliases in PostgreSQL, through the feature and the directory of a control plane.
import { afterAll, beforeAll, expect, it } from "vitest";
import { createAliases } from "../../../control-plane/catalog/aliases.ts";
import { createDirectory } from "../../../control-plane/catalog/directory.ts";
import { createAliasStore } from "../../../control-plane/store/models/alias-store.ts";
import { createCatalogStore } from "../../../control-plane/store/models/catalog-store.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld, type World } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());

const target = (model: string, weight = 1) => ({ model, weight });
const alias = (name: string, ...models: string[]) => ({
  name,
  targets: models.map((model) => target(model)),
  fallbacks: [],
  isSticky: false,
});

function features({ db }: World) {
  const directory = createDirectory(createCatalogStore(db));
  const aliases = createAliases({ store: createAliasStore(db), isModel: () => true, refresh: directory.refresh });
  return { directory, aliases };
}

it("is stored by scope, replaced, deleted, audited, and known to the directory at once", async () => {
  const world = await openWorld(postgres);
  const ada = await world.account(1_000n);
  const bob = await world.account(1_000n);
  const { directory, aliases } = features(world);
  const own = { by: ada, ip: "192.0.2.1", scope: ada };
  const installation = { ...own, scope: null };
  await aliases.put(own, { ...alias("prod", "a"), targets: [target("a", 95), target("b", 5)], isSticky: true });
  await aliases.put(installation, { ...alias("prod", "c"), fallbacks: ["d"] });
  expect(directory.aliasOf("prod", ada)).toMatchObject({ account: ada, targets: [target("a", 95), target("b", 5)] });
  expect(directory.aliasOf("prod", bob)).toMatchObject({ account: null, fallbacks: ["d"], isSticky: false });
  expect((await aliases.list(bob)).map(({ account }) => account)).toEqual([null]);
  expect(await aliases.list(ada)).toHaveLength(2);

  await aliases.put(own, alias("prod", "b"));
  expect(directory.aliasOf("prod", ada)).toMatchObject({ targets: [target("b")], isSticky: false });
  await aliases.remove(own, "prod");
  expect(directory.aliasOf("prod", ada)).toMatchObject({ account: null });
  await expect(aliases.remove(own, "prod")).rejects.toMatchObject({ code: "alias_not_found" });
  const audited = await world.db.selectFrom("audit").select(["action", "accountId", "ip"]).orderBy("auditId").execute();
  expect(audited.filter(({ action }) => action.startsWith("alias."))).toEqual([
    { action: "alias.set", accountId: ada, ip: "192.0.2.1" },
    { action: "alias.set", accountId: null, ip: "192.0.2.1" },
    { action: "alias.set", accountId: ada, ip: "192.0.2.1" },
    { action: "alias.delete", accountId: ada, ip: "192.0.2.1" },
  ]);
});

it("has a limit per scope that simultaneous changes cannot exceed", async () => {
  const world = await openWorld(postgres);
  const ada = await world.account(1_000n);
  const store = createAliasStore(world.db);
  const editor = { by: ada, ip: "", scope: ada };
  const put = (n: number) => store.put(editor, alias(`alias-${n}`, "a"), 3);
  const stored = await Promise.all([1, 2, 3, 4, 5, 6].map(put));
  expect(stored.filter((one) => one !== undefined)).toHaveLength(3);
  expect(await store.list(ada)).toHaveLength(3);
  const [one] = await store.list(ada);
  expect(await store.put(editor, alias(one?.name ?? "", "b"), 3)).toMatchObject({ targets: [target("b")] });
});
