import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createApiTokens } from "../../../control-plane/accounts/api-tokens.ts";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { noRules } from "../../../control-plane/accounts/key-rules.ts";
import { keyMonthBudget } from "../../../control-plane/billing/scopes.ts";
import type { KeyId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

async function open() {
  const world = await openWorld(postgres);
  const { accountStore, tokenStore, secrets } = world;
  const dataKeys = createDataKeys({ store: accountStore, secrets });
  const tokens = createApiTokens({
    monthOf: keyMonthBudget,
    store: { ...accountStore, ...tokenStore },
    dataKeys,
    secrets,
  });
  const account = await world.account(0n);
  const other = await world.account(0n);
  return { world, tokens, account, other, act: { by: account, ip: "192.0.2.7", note: "" } };
}

describe("API keys", () => {
  it("show their secret at creation and when named by it, and are masked by id and in lists", async () => {
    const { tokens, account, act } = await open();
    const made = await tokens.create(account, "ci", noRules, act);
    expect(made.token).toMatch(/^stk_[0-9A-Za-z]{49}$/);
    expect(await tokens.get(account, made.token)).toEqual(made);
    const byId = await tokens.get(account, made.key);
    expect(byId).toEqual({ ...made, token: `stk_********${made.token.slice(-5)}` });
    expect((await tokens.list(account)).map(({ name, token }) => [name, token.startsWith("stk_***")])).toEqual([
      ["auto", true],
      ["ci", true],
    ]);
  });

  it("have names that are unique among the live keys of one account", async () => {
    const { tokens, account, other, act } = await open();
    const first = await tokens.create(account, "ci", noRules, act);
    await expect(tokens.create(account, "ci", noRules, act)).rejects.toMatchObject({ code: "name_taken" });
    await tokens.create(other, "ci", noRules, { ...act, by: other });
    await tokens.revoke({ account }, first.key, act);
    const second = await tokens.create(account, "ci", noRules, act);
    expect(second.key).not.toBe(first.key);
  });

  it("have a name of 1 to 128 bytes without control characters", async () => {
    const { tokens, account, act } = await open();
    for (const name of ["", "  ", "a\nb", "\u0000", "x".repeat(129), "ü".repeat(65), "\ud800"])
      await expect(tokens.create(account, name, noRules, act)).rejects.toMatchObject({ code: "bad_key_name" });
    expect(await tokens.create(account, "ü".repeat(64), noRules, act)).toMatchObject({ name: "ü".repeat(64) });
  });

  it("cannot be seen, changed or revoked by another account, by id or by secret", async () => {
    const { tokens, account, other, act } = await open();
    const made = await tokens.create(account, "ci", noRules, act);
    for (const name of [made.key, made.token]) {
      expect(await tokens.get(other, name)).toBeUndefined();
      expect(await tokens.revoke({ account: other }, name, { ...act, by: other })).toBeUndefined();
      const caller = { account: other, key: "key-of-other" as KeyId };
      expect(await tokens.change(caller, name, { allowedIps: ["10.0.0.0/8"] }, act)).toBeUndefined();
    }
    expect(await tokens.get(account, made.key)).toMatchObject({ allowedIps: null });
  });

  it("are not found once revoked, by id or by secret", async () => {
    const { tokens, account, act } = await open();
    const made = await tokens.create(account, "ci", noRules, act);
    expect(await tokens.revoke({ account }, made.token, act)).toMatchObject({ key: made.key });
    expect(await tokens.revoke({ account }, made.key, act)).toBeUndefined();
    expect(await tokens.get(account, made.token)).toBeUndefined();
    expect((await tokens.list(account)).map(({ name }) => name)).toEqual(["auto"]);
  });

  it("accept only addresses and blocks, and never exclude the caller", async () => {
    const { tokens, account, act } = await open();
    for (const allowedIps of [[], ["home"], Array.from({ length: 257 }, () => "10.0.0.1")])
      await expect(tokens.create(account, "ci", { ...noRules, allowedIps }, act)).rejects.toMatchObject({
        code: "bad_allowed_ips",
      });
    const made = await tokens.create(account, "ci", { ...noRules, allowedIps: ["10.0.0.0/8"] }, act);
    const own = { account, key: made.key };
    await expect(tokens.change(own, made.key, { allowedIps: ["198.51.100.0/24"] }, act)).rejects.toMatchObject({
      code: "shuts_out_caller",
    });
    expect(await tokens.change(own, made.key, { allowedIps: ["192.0.2.0/24"] }, act)).toMatchObject({
      allowedIps: ["192.0.2.0/24"],
    });
    expect(await tokens.change(own, made.key, { allowedIps: null }, act)).toMatchObject({ allowedIps: null });
  });

  it("are audited with every change, without secrets", async () => {
    const { world, tokens, account, act } = await open();
    const made = await tokens.create(account, "ci", noRules, act);
    await tokens.change({ account, key: made.key }, made.key, { allowedIps: ["192.0.2.7"] }, act);
    await tokens.revoke({ account }, made.key, act);
    const rows = await world.db.selectFrom("audit").selectAll().orderBy("auditId").execute();
    const own = rows.filter(({ subject }) => subject === made.key);
    expect(own.map(({ action, actor: by, ip }) => [action, by, ip])).toEqual(
      ["key.create", "key.change", "key.revoke"].map((action) => [action, account, act.ip]),
    );
    expect(own[1]).toMatchObject({ before: { allowed_ips: null }, after: { allowed_ips: ["192.0.2.7"] } });
    expect(JSON.stringify(rows, (_key, value) => (typeof value === "bigint" ? String(value) : value))).not.toContain(
      made.token,
    );
  });

  it("are not created for a deleted account", async () => {
    const { world, tokens, account, act } = await open();
    await world.db.updateTable("account").set({ deletedAt: new Date() }).where("accountId", "=", account).execute();
    await expect(tokens.create(account, "ci", noRules, act)).rejects.toThrow();
  });
});
