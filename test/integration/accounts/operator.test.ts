import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { createAuthenticator } from "../../../control-plane/accounts/authenticate.ts";
import type { Act } from "../../../control-plane/act.ts";
import { createFunds } from "../../../control-plane/billing/funds.ts";
import { endAccount } from "../../../control-plane/store/accounts/profile-store.ts";
import { createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { createFundsStore } from "../../../control-plane/store/money/funds-store.ts";
import { createOperatorFeatures } from "../../../control-plane/wiring/accounts.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { suspendReasons } from "../../../proto/suspend-reason.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, wholeBooks } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const act = (note = "a test"): Act => ({ by: "u:1000000000000", ip: "192.0.2.7", note });

async function openOffice() {
  const world = await openWorld(postgres);
  return { ...world, ...createOperatorFeatures(world.db, createFunds({ store: createFundsStore(world.db) })) };
}
type Office = Awaited<ReturnType<typeof openOffice>>;

const shown = async ({ operator }: Office, account: AccountId) => {
  const { suspendReason, suspensions } = await operator.account(account);
  return [suspendReason, suspensions.map(({ reason }) => reason).sort()];
};

it("names accounts by their ids, also repeated ones, and omits those that never existed", async () => {
  const office = await openOffice();
  const [a, b] = [await office.account(1n), await office.account(1n)];
  const names = await office.operator.names([a, b, a, "u:1" as AccountId]);
  expect([...names.keys()].toSorted()).toEqual([a, b].toSorted());
  const { email, displayName } = await office.operator.account(a);
  expect(names.get(a)).toEqual({ email, displayName });
  expect(await office.operator.names([])).toEqual(new Map());
});

describe("suspensions", () => {
  it("can be combined; the most severe is shown, and each is lifted separately", async () => {
    const office = await openOffice();
    const account = await office.account(1n);
    for (const reason of [...suspendReasons].reverse()) {
      await office.operator.suspend(account, reason, act());
      expect((await shown(office, account))[0]).toBe(reason);
    }
    for (const [i, reason] of suspendReasons.entries()) {
      await office.operator.lift(account, reason, act());
      expect(await shown(office, account)).toEqual([suspendReasons[i + 1] ?? null, suspendReasons.slice(i + 1).sort()]);
    }
  });

  it("are lifted together if no reason is named, and then there is nothing to lift", async () => {
    const office = await openOffice();
    const account = await office.account(1n);
    await office.operator.suspend(account, "admin", act());
    await office.operator.suspend(account, "balance", act());
    await office.operator.lift(account, undefined, act());
    expect(await shown(office, account)).toEqual([null, []]);
    await expect(office.operator.lift(account, undefined, act())).rejects.toMatchObject({ code: "not_suspended" });
    await expect(office.operator.lift(account, "admin", act())).rejects.toMatchObject({ code: "not_suspended" });
    await expect(office.operator.suspend("u:1" as AccountId, "admin", act())).rejects.toMatchObject({
      code: "account_not_found",
    });
    await expect(office.operator.lift("u:1" as AccountId, undefined, act())).rejects.toMatchObject({
      code: "account_not_found",
    });
  });

  it("for two reasons have the effects of both", async () => {
    const office = await openOffice();
    const account = await office.account(1n);
    const reasons = ["balance", "admin", "bad-cc", "limit-reached"] as const;
    await Promise.all(reasons.map((reason) => office.operator.suspend(account, reason, act())));
    expect(await shown(office, account)).toEqual(["admin", [...reasons].sort()]);
    await Promise.all([
      ...(["balance", "admin"] as const).map((reason) => office.operator.lift(account, reason, act())),
      office.operator.suspend(account, "payment-method", act()),
    ]);
    expect(await shown(office, account)).toEqual(["bad-cc", ["bad-cc", "limit-reached", "payment-method"]]);
  });

  it("reach every replica's key cache in under two seconds, and so does lifting them", async () => {
    const office = await openOffice();
    const { account, apiKey } = await office.accounts.createAccount({
      email: "ada@example.com",
      displayName: "ada",
      creditNanoUsd: nano(1n),
      isAdmin: false,
    });
    const replicas = await Promise.all(
      [1, 2].map(async () => {
        const feed = createChangeFeed({ pool: office.pool, log });
        const auth = createAuthenticator({
          store: office.accountStore,
          secrets: office.secrets,
          log,
          registry: new Registry(),
          changes: feed,
        });
        await feed.start();
        onTestFinished(() => feed.stop());
        return auth;
      }),
    );
    const seen = async () =>
      Promise.all(replicas.map(async (auth) => (await auth.authenticate(apiKey, "127.0.0.1")).suspendReason));
    expect(await seen()).toEqual([null, null]);
    const within = { timeout: promisedMs(2_000), interval: 10 };
    await office.operator.suspend(account, "admin", act());
    await vi.waitFor(async () => expect(await seen()).toEqual(["admin", "admin"]), within);
    await office.operator.lift(account, "admin", act());
    await vi.waitFor(async () => expect(await seen()).toEqual([null, null]), within);
  });
});

describe("the audit log", () => {
  it("stores the actor, address, reason, and the state before and after", async () => {
    const office = await openOffice();
    const account = await office.account(5n);
    await office.operator.suspend(account, "balance", act("no money"));
    await office.operator.suspend(account, "admin", act("abuse"));
    await office.operator.lift(account, "admin", act("sorted out"));
    const { records } = await office.audit.read({ account }, undefined, 50);
    expect(records.map(({ action, before, after, note }) => ({ action, before, after, note }))).toEqual([
      {
        action: "account.lift",
        before: { reasons: ["admin", "balance"] },
        after: { reasons: ["balance"] },
        note: "sorted out",
      },
      {
        action: "account.suspend",
        before: { reasons: ["balance"] },
        after: { reasons: ["balance", "admin"] },
        note: "abuse",
      },
      { action: "account.suspend", before: { reasons: [] }, after: { reasons: ["balance"] }, note: "no money" },
      {
        action: "account.create",
        before: null,
        after: expect.objectContaining({ credit_nano_usd: "5" }),
        note: expect.any(String),
      },
    ]);
    const emails = {
      actorEmail: null,
      accountEmail: expect.stringContaining("@"),
      subjectName: records[0]?.accountEmail,
    };
    expect(records[0]).toMatchObject({
      actor: "u:1000000000000",
      ip: "192.0.2.7",
      subject: account,
      account,
      ...emails,
    });
  });

  it("names the subject of an act: a key, or nothing where it is gone", async () => {
    const office = await openOffice();
    const account = await office.account(1n);
    const { rows } = await office.pool.query("select token_id, name from api_key where account_id = $1", [account]);
    const note = (subject: string) =>
      office.pool.query(
        "insert into audit (actor, action, subject, account_id, ip, before, after, note) values ('system', 'key.change', $1, $2, '', 'null', 'null', '')",
        [subject, account],
      );
    await note(rows[0].token_id);
    await note("gone");
    const { records } = await office.audit.read({ action: "key.change" }, undefined, 5);
    expect(records.map(({ subject, subjectName }) => [subject, subjectName])).toEqual([
      ["gone", null],
      [rows[0].token_id, rows[0].name],
    ]);
  });

  it("has no entry for an act that changed nothing or failed", async () => {
    const office = await openOffice();
    const account = await office.account(1n);
    await office.operator.suspend(account, "admin", act());
    await office.operator.suspend(account, "admin", act("again"));
    await office.operator.lift(account, "balance", act()).catch(() => {});
    const { records } = await office.audit.read({ action: "account" }, undefined, 50);
    expect(records.map(({ action }) => action)).toEqual(["account.suspend", "account.create"]);
  });

  it("is searched by account, actor, action and time, and paged without gaps or repeats", async () => {
    const office = await openOffice();
    const [a, b] = [await office.account(1n), await office.account(1n)];
    await office.operator.suspend(a, "admin", act());
    await office.operator.suspend(b, "admin", { ...act(), by: a });
    const count = async (filter: Parameters<typeof office.audit.read>[0]) =>
      (await office.audit.read(filter, undefined, 50)).records.length;
    expect(await count({ account: b })).toBe(2);
    expect(await count({ account: a })).toBe(3);
    expect(await count({ actor: a })).toBe(1);
    expect(await count({ actor: "system" })).toBe(2);
    expect(await count({ actor: a, account: a })).toBe(1);
    expect(await count({ action: "account.suspend" })).toBe(2);
    expect(await count({ action: "account.sus" })).toBe(0);
    expect(await count({ fromMs: Date.now() + 60_000 })).toBe(0);
    expect(await count({ fromMs: Date.now() - 60_000, toMs: Date.now() + 60_000 })).toBe(4);
    const ids: bigint[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await office.audit.read({}, cursor, 3);
      ids.push(...page.records.map(({ id }) => id));
      if (page.nextCursor === null) break;
      cursor = page.nextCursor;
    }
    expect(ids).toHaveLength(4);
    expect([...new Set(ids)].sort((x, y) => Number(y - x))).toEqual(ids);
    await expect(office.audit.read({}, "1 or 1", 3)).rejects.toMatchObject({ code: "bad_cursor" });
  });

  it("cannot be changed, even by the owner of the database's tables", async () => {
    const office = await openOffice();
    await office.account(1n);
    for (const statement of ["update audit set note = 'x'", "delete from audit", "truncate audit cascade"])
      await expect(office.pool.query(statement)).rejects.toThrow(/append only/);
    expect((await office.audit.read({}, undefined, 5)).records).toHaveLength(1);
  });
});

describe("the operator's list of accounts", () => {
  it("is searched by part of an address, name or uid, and paged newest first", async () => {
    const office = await openOffice();
    const made: AccountId[] = [];
    for (let i = 0; i < 5; i++) made.unshift(await office.account(BigInt(i)));
    const uids = async (query: string, cursor?: string, limit = 50) => {
      const page = await office.operator.accounts({ query }, cursor, limit);
      return { uids: page.accounts.map(({ account }) => account), cursor: page.nextCursor };
    };
    expect((await uids("")).uids).toEqual(made);
    expect((await uids("A3@EXAMPLE")).uids).toEqual([made[2]]);
    expect((await uids((made[1] as string).slice(3))).uids).toEqual([made[1]]);
    expect((await uids("%")).uids).toEqual([]);
    const first = await uids("", undefined, 2);
    const second = await uids("", first.cursor ?? "", 2);
    const third = await uids("", second.cursor ?? "", 2);
    expect([...first.uids, ...second.uids, ...third.uids]).toEqual(made);
    expect(third.cursor).toBeNull();
    await expect(uids("", "' or true")).rejects.toMatchObject({ code: "bad_cursor" });
  });

  it("can be limited to suspended accounts, and to a reason among several", async () => {
    const office = await openOffice();
    const [good, poor, banned] = [await office.account(1n), await office.account(2n), await office.account(3n)];
    await office.operator.suspend(poor, "balance", act("empty"));
    await office.operator.suspend(banned, "balance", act("empty"));
    await office.operator.suspend(banned, "admin", act("abuse"));
    const found = async (filter: Omit<Parameters<typeof office.operator.accounts>[0], "query">) => {
      const page = await office.operator.accounts({ query: "", ...filter }, undefined, 10);
      return page.accounts.map(({ account }) => account);
    };
    expect(await found({})).toEqual([banned, poor, good]);
    expect(await found({ suspended: "any" })).toEqual([banned, poor]);
    expect(await found({ suspended: "balance" })).toEqual([banned, poor]);
    expect(await found({ suspended: "admin" })).toEqual([banned]);
  });

  it("shows funds, keys, deployments and why an account is suspended", async () => {
    const office = await openOffice();
    const account = await office.account(7n);
    await office.db.updateTable("budget").set({ spent: 2n }).execute();
    await office.operator.suspend(account, "bad-cc", act("card refused"));
    expect(await office.operator.account(account)).toMatchObject({
      funds: 5n,
      spent: 2n,
      keys: 1,
      deployments: 0,
      suspendReason: "bad-cc",
      suspensions: [{ reason: "bad-cc", by: "u:1000000000000", note: "card refused" }],
    });
    await expect(office.operator.account("u:1" as AccountId)).rejects.toMatchObject({ code: "account_not_found" });
  });
});

describe("a deleted account", () => {
  it("is shown with its money, and cannot be changed", async () => {
    const office = await openOffice();
    const account = await office.account(7n);
    await office.db.updateTable("budget").set({ spent: 2n }).execute();
    await office.operator.suspend(account, "bad-cc", act("card refused"));
    const before = await office.operator.account(account);
    expect(before).toMatchObject({ deletedAtMs: null, credited: 7n });
    await office.db.transaction().execute((trx) => endAccount(trx, { account, ip: "192.0.2.7" }));
    const left = await office.operator.account(account);
    expect(left).toMatchObject({ account, email: account, displayName: account, keys: 0, deployments: 0 });
    expect(left).toMatchObject({ credited: 7n, spent: 2n, funds: 5n, deletedAtMs: expect.any(Number) });
    expect((await office.operator.accounts({ query: "" }, undefined, 10)).accounts).toEqual([]);
    const { operator } = office;
    const acts = [
      () => operator.changeAccount(account, { isAdmin: true }, act()),
      () => operator.credit({ account, amount: nano(1n), idempotencyKey: "k", mayGoBelowZero: false }, act()),
      () => operator.suspend(account, "admin", act()),
      () => operator.lift(account, undefined, act()),
    ];
    for (const one of acts) await expect(one()).rejects.toMatchObject({ code: "account_deleted" });
    expect(await office.operator.account(account)).toEqual(left);
  });
});

describe("an operator's rights", () => {
  it("are granted and revoked, but the last operator keeps them, also with two concurrent revocations", async () => {
    const office = await openOffice();
    const [a, b] = [await office.account(1n), await office.account(1n)];
    for (const account of [a, b]) await office.operator.changeAccount(account, { isAdmin: true }, act());
    const taken = await Promise.allSettled(
      [a, b].map((account) => office.operator.changeAccount(account, { isAdmin: false }, act())),
    );
    expect(taken.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    const refused = taken.find((one) => one.status === "rejected");
    expect(refused?.reason).toMatchObject({ code: "last_admin" });
    const { records } = await office.audit.read({ action: "account.change" }, undefined, 5);
    expect(records.map(({ before, after }) => ({ before, after }))).toEqual([
      {
        before: { is_admin: true, is_team_account: false, may_prioritize: false },
        after: { is_admin: false, is_team_account: false, may_prioritize: false },
      },
      {
        before: { is_admin: false, is_team_account: false, may_prioritize: false },
        after: { is_admin: true, is_team_account: false, may_prioritize: false },
      },
      {
        before: { is_admin: false, is_team_account: false, may_prioritize: false },
        after: { is_admin: true, is_team_account: false, may_prioritize: false },
      },
    ]);
  });

  it("include making an account a team account; reverted, the team's name is free again", async () => {
    const office = await openOffice();
    const account = await office.account(1n);
    expect(await office.operator.changeAccount(account, { isTeamAccount: true }, act())).toMatchObject({
      isTeamAccount: true,
    });
    await office.db.updateTable("account").set({ teamDisplayName: "crew" }).execute();
    await office.operator.changeAccount(account, { isTeamAccount: false }, act());
    expect(await office.operator.changeAccount(account, { mayPrioritize: true }, act())).toMatchObject({
      mayPrioritize: true,
    });
    expect(await office.db.selectFrom("account").select("teamDisplayName").execute()).toEqual([
      { teamDisplayName: null },
    ]);
  });
});

describe("an operator's credit", () => {
  const usd = (amount: number) => nano(BigInt(amount) * 1_000_000_000n);
  const request = (account: AccountId, amount: number, idempotencyKey?: string) => ({
    account,
    amount: usd(amount),
    idempotencyKey,
    mayGoBelowZero: false,
  });

  it("raises the funds, is in the ledger and the audit log, and lifts only suspensions for lack of funds", async () => {
    const office = await openOffice();
    const account = await office.account(0n);
    for (const reason of ["balance", "admin"] as const) await office.operator.suspend(account, reason, act());
    await office.operator.credit(request(account, 20), act("wire 4711"));
    expect(await office.operator.account(account)).toMatchObject({ funds: usd(20), suspendReason: "admin" });
    expect(await shown(office, account)).toEqual(["admin", ["admin"]]);
    const { records } = await office.audit.read({ account }, undefined, 2);
    expect(records.map(({ action, note }) => [action, note])).toEqual([
      ["account.lift", "wire 4711"],
      ["credit.grant", "wire 4711"],
    ]);
    expect(await checkBooks(office.db)).toEqual(wholeBooks);
  });

  it("counts once per idempotency key, also for concurrent calls, and refuses another amount with it", async () => {
    const office = await openOffice();
    const account = await office.account(0n);
    await Promise.all([1, 2, 3].map(() => office.operator.credit(request(account, 5, "june"), act())));
    expect((await office.operator.account(account)).funds).toBe(usd(5));
    await expect(office.operator.credit(request(account, 6, "june"), act())).rejects.toMatchObject({
      code: "credit_reference_taken",
    });
    await office.operator.credit(request(account, 5), act());
    await office.operator.credit(request(account, 5), act());
    expect((await office.operator.account(account)).funds).toBe(usd(15));
  });

  it("corrected downwards stops at zero, unless the operator allows a negative balance", async () => {
    const office = await openOffice();
    const account = await office.account(usd(5));
    await office.operator.credit(request(account, -2), act("typing error"));
    expect((await office.operator.account(account)).funds).toBe(usd(3));
    await expect(office.operator.credit(request(account, -4), act())).rejects.toMatchObject({ code: "invalid_credit" });
    expect((await office.operator.account(account)).funds).toBe(usd(3));
    await office.operator.suspend(account, "balance", act());
    await office.operator.credit({ ...request(account, -4), mayGoBelowZero: true }, act());
    expect(await office.operator.account(account)).toMatchObject({ funds: usd(-1), suspendReason: "balance" });
  });
});

describe("an application to the startup program", () => {
  const form = {
    company: "Engines Ltd",
    ceo: "Ada",
    funding: "seed",
    foundedOn: "2025",
    website: "https://e.x",
    deal: "",
  };
  const credit = nano(100_000_000_000n);

  it("is open once per account, decided once, and an approval grants its credit once", async () => {
    const office = await openOffice();
    const account = await office.account(0n);
    await office.operator.suspend(account, "balance", act());
    const made = await Promise.allSettled([1, 2].map(() => office.applications.apply(account, form)));
    expect(made.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    await expect(office.applications.apply(account, form)).rejects.toMatchObject({ code: "application_open" });
    const { id, status } = await office.applications.own(account);
    expect(status).toBe("pending");
    const decisions = await Promise.allSettled(
      [1, 2].map(() => office.applications.decide(id, { status: "approved", credit, act: act("welcome") })),
    );
    expect(decisions.map((one) => one.status).sort()).toEqual(["fulfilled", "rejected"]);
    expect(decisions.find((one) => one.status === "rejected")?.reason).toMatchObject({ code: "application_decided" });
    expect(await office.operator.account(account)).toMatchObject({ funds: credit, suspendReason: null });
    expect(await office.applications.own(account)).toMatchObject({
      status: "approved",
      decision: { by: "u:1000000000000", note: "welcome" },
    });
    const { records } = await office.audit.read({ account, action: "application" }, undefined, 5);
    expect(records.map(({ before, after }) => ({ before, after }))).toEqual([
      { before: { status: "pending" }, after: { status: "approved", credit_nano_usd: String(credit) } },
    ]);
    expect(await checkBooks(office.db)).toEqual(wholeBooks);
  });

  it("that was rejected grants nothing, and the account may apply again", async () => {
    const office = await openOffice();
    const [account, other] = [await office.account(0n), await office.account(0n)];
    const { id } = await office.applications.apply(account, form);
    await office.applications.decide(id, { status: "rejected", credit: nano(0n), act: act("too late") });
    expect((await office.operator.account(account)).funds).toBe(0n);
    const again = await office.applications.apply(account, { ...form, company: "Engines II" });
    expect(await office.applications.own(account)).toEqual(again);
    await expect(office.applications.own(other)).rejects.toMatchObject({ code: "application_not_found" });
    await expect(
      office.applications.decide("unknown", { status: "rejected", credit: nano(0n), act: act() }),
    ).rejects.toMatchObject({ code: "application_not_found" });
    const first = await office.applications.list(undefined, undefined, 1);
    const rest = await office.applications.list(undefined, first.nextCursor ?? "", 5);
    expect([...first.applications, ...rest.applications].map((one) => one.id)).toEqual([again.id, id]);
    expect((await office.applications.list("rejected", undefined, 5)).applications.map((one) => one.id)).toEqual([id]);
  });
});
