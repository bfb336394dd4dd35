import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { createIdempotency } from "../../../control-plane/accounts/idempotency.ts";
import { createIdempotencyStore } from "../../../control-plane/store/accounts/idempotency-store.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

async function open(lockMs?: number) {
  const world = await openWorld(postgres);
  const dataKeys = createDataKeys({ store: world.accountStore, secrets: world.secrets });
  const store = createIdempotencyStore(world.db);
  const idempotency = createIdempotency({ store, dataKeys, ...(lockMs === undefined ? {} : { lockMs }) });
  const account = await world.account(0n);
  const ask = (change: { account?: AccountId; key?: string; body?: string; isPaid?: boolean } = {}) =>
    idempotency.begin({
      account: change.account ?? account,
      route: "POST /v1/api-tokens",
      key: change.key ?? "k1",
      bodyHash: createHash("sha256")
        .update(change.body ?? "{}")
        .digest(),
      isPaid: change.isPaid ?? false,
    });
  const claimed = async (change: Parameters<typeof ask>[0] = {}) => {
    const begun = await ask(change);
    if ("kept" in begun) throw new Error("it was answered before");
    return begun.claim;
  };
  return { world, account, ask, claimed };
}

const secret = "stk_canary_in_an_answer";
const answer = { status: 200, headers: ["content-type", "application/json"], body: `{"token":"${secret}"}` };

describe("idempotency over PostgreSQL", () => {
  it("lets one of many concurrent requests run, and gives its response to later ones", async () => {
    const { ask, claimed } = await open();
    const all = await Promise.allSettled(Array.from({ length: 12 }, () => claimed()));
    const won = all.filter((one) => one.status === "fulfilled");
    expect(won).toHaveLength(1);
    for (const one of all)
      if (one.status === "rejected") expect(one.reason).toMatchObject({ code: "idempotency_key_in_use" });
    await won[0]?.value.finish(answer);
    expect(await ask()).toEqual({ kept: answer });
    await expect(ask({ body: "other" })).rejects.toMatchObject({ code: "idempotency_key_reused" });
  });

  it("stores the response sealed, only for its own account", async () => {
    const { world, ask, claimed } = await open();
    await (await claimed()).finish(answer);
    const other = await world.account(0n);
    expect(await ask({ account: other })).toHaveProperty("claim");
    const { rows } = await world.pool.query(
      "select encode(answer, 'escape') as text from idempotency where answer is not null",
    );
    expect(rows).toHaveLength(1);
    expect(rows[0].text).not.toContain("canary");
  });

  it("frees a key whose holder died, and ignores writes of a replaced holder", async () => {
    const { ask, claimed } = await open(0);
    const dead = await claimed();
    const successor = await claimed({ body: "other" });
    await dead.finish({ ...answer, body: "too late" });
    await dead.abandon();
    await successor.finish(answer);
    expect(await ask({ body: "other" })).toEqual({ kept: answer });
  });

  it("never runs a paid request again whose holder died", async () => {
    const { ask, claimed } = await open(0);
    await claimed({ isPaid: true });
    await expect(ask({ isPaid: true })).rejects.toMatchObject({ code: "answer_lost" });
  });

  it("frees a released key, and one older than a day", async () => {
    const { world, ask, claimed } = await open();
    await (await claimed()).abandon();
    await (await claimed()).finish(answer);
    await world.pool.query("update idempotency set expires_at = now() - interval '1 second'");
    expect(await ask({ body: "other" })).toHaveProperty("claim");
  });
});
