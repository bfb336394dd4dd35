// The CLI's words about discounts, terms and top-ups against the real edge.
import { afterAll, beforeAll, expect, it } from "vitest";
import { nano } from "../../proto/money.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { buyer, invoice } from "../fakes/payment-ports.ts";
import { ada, adminKey, apiKey } from "../fakes/ports.ts";
import { dayOfUse } from "../fakes/usage-log-ports.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

const stoker = (key: string, ...args: string[]) => runCli(edge, key, args);

it("creates and lists a discount on GPU time for one account", async () => {
  const flags = ["--name", "Spring", "--account", ada.account, "--surface", "gpu", "--note", "agreed"];
  const given = await stoker(adminKey, "admin", "discount", "create", "12.5", ...flags);
  expect(given.out, given.err).toContain(`12.5 % off ${ada.email}, gpu from `);
  const wrong = await stoker(adminKey, "admin", "discount", "create", "a-lot", "--name", "Spring");
  expect(wrong).toMatchObject({ code: 2, out: "" });
  expect(wrong.err).toBe("error: Must be a percentage, such as 10 or 12.5.\n");
});

it("sets the terms of an account and keeps omitted ones", async () => {
  const sent: unknown[] = [];
  const set = edge.deps.paying.setTerms;
  edge.deps.paying.setTerms = (account, terms, by) => {
    sent.push({ account, terms, note: by.note });
    return set(account, terms, by);
  };
  const before = await edge.deps.paying.terms(ada.account);
  const done = await stoker(adminKey, "admin", "terms", "update", ada.account, "--due-days", "30", "--note", "net 30");
  expect(done.out, done.err).toMatch(/invoices are due after \d+ days/);
  expect(sent).toEqual([{ account: ada.account, terms: { ...before, dueDays: 30 }, note: "net 30" }]);
});

it.each([
  [25_000_000_000n, "25.00\n"],
  [10_000n, "0.00001\n"],
])("shows a monthly limit of %s nano-USD as it was set, also below a cent", async (limit, shown) => {
  edge.deps.limits.ofAccount = () => Promise.resolve(nano(limit));
  expect(await stoker(apiKey, "billing", "limit")).toMatchObject({ out: shown, err: "", code: 0 });
});

it("lets only an operator see and fulfil a requested top-up", async () => {
  expect((await stoker(adminKey, "admin", "topup", "list")).out).toContain("chg_1");
  const done = await stoker(adminKey, "admin", "topup", "fulfil", "chg_1", "--note", "paid by wire");
  expect(done.out, done.err).toMatch(/^chg_1: USD \d+\.\d\d of ada@example.com, done\n$/);
  expect(await stoker(apiKey, "admin", "topup", "list")).toMatchObject({ out: "", code: 3 });
});

it("shows daily usage and the outcome of a request", async () => {
  const days = await stoker(apiKey, "usage", "--by", "day-token", "--from", dayOfUse, "--to", dayOfUse);
  expect(days.out, days.err).toMatch(
    /^DAY +TOKEN +REQUESTS +TOKENS +USD *\n2026-02-03 +of-ada of auto +1 +6\+3 +0\.000000\n$/,
  );
  const csv = await stoker(apiKey, "usage", "--by", "jwt", "--csv", "--from", dayOfUse, "--to", dayOfUse);
  expect(csv.out, csv.err).toBe(
    "DAY,TOKEN,REQUESTS,INPUT TOKENS,OUTPUT TOKENS,USD\r\n2026-02-03,of-ada of auto,1,6,3,0.000000070\r\n",
  );
  const users = await stoker(apiKey, "usage", "users", "--by", "day", "--from", dayOfUse, "--to", dayOfUse, "--csv");
  expect(users.out, users.err).toBe(
    `PERIOD,USER,REQUESTS,INPUT TOKENS,OUTPUT TOKENS,USD\r\n${dayOfUse},"ann, of sales",1,6,3,0.000000070\r\n${dayOfUse},,1,6,3,0.000000070\r\n`,
  );
  expect((await stoker(apiKey, "usage", "erase-user", "ann, of sales", "--yes")).out).toBe("Erased ann, of sales.\n");
  expect((await stoker(apiKey, "usage", "erase-user", "nobody", "--yes")).code).toBe(4);
  const wrong = await stoker(apiKey, "usage", "--by", "week");
  expect(wrong).toMatchObject({ code: 2, out: "" });
  const shown = await stoker(apiKey, "request", "get", "RequestOfAda");
  expect(shown.out, shown.err).toContain("5 ms queued, first byte after 20 ms, 250 ms total\ntokens   6 in, 3 out\n");
  const unknown = await stoker(apiKey, "request", "get", "unknown");
  expect(unknown.code).toBe(4);
  expect(unknown.err).not.toContain("--anybody");
  const listed = await stoker(adminKey, "request", "list", "--account", ada.account, "--failed");
  expect(listed.out, listed.err).toContain("RequestOfAda");
});

it("lists rejected requests of one account and of all for operators", async () => {
  const ofAda = new RegExp(`RejectedOfAda.+${ada.email}.+404 +model_not_found`);
  for (const args of [
    ["request", "list", "--rejected", "--account", ada.account],
    ["request", "list", "--rejected", "--anybody"],
    ["admin", "failures", "--rejected"],
  ]) {
    const { out, err } = await stoker(adminKey, ...args);
    expect(out, err).toMatch(ofAda);
  }
  const others = await stoker(adminKey, "request", "list", "--rejected", "--account", "u:1");
  expect(others.out, others.err).not.toContain("RejectedOfAda");
  expect((await stoker(adminKey, "admin", "failures")).out).toContain(ada.email);
  expect(await stoker(adminKey, "request", "list", "--anybody")).toMatchObject({ code: 2, out: "" });
  expect(await stoker(apiKey, "request", "list", "--rejected", "--anybody")).toMatchObject({ code: 3, out: "" });
}, 60_000);

it("names --anybody to an operator whose request belongs to another account", async () => {
  const missing = await stoker(adminKey, "request", "get", "RejectedOfAda");
  expect(missing).toMatchObject({ code: 4, out: "" });
  expect(missing.err).toContain("For a request of another account, add --anybody.");
  const found = await stoker(adminKey, "request", "get", "RejectedOfAda", "--anybody");
  expect(found.out, found.err).toContain(
    `account  ${ada.email} (${ada.account})\nrejected model_not_found, HTTP 404\n`,
  );
}, 60_000);

it("reports further requests and continues after the last one", async () => {
  expect((await stoker(apiKey, "request", "list")).err).not.toContain("More requests");
  const { list } = edge.deps.requestLog;
  edge.deps.requestLog.list = async (...asked) => ({ ...(await list(...asked)), hasMore: true });
  const cut = await stoker(apiKey, "request", "list", "--limit", "1");
  edge.deps.requestLog.list = list;
  expect(cut.err).toContain("More requests: use --limit (up to 200), or --after RequestOfAda for the next page.");
  expect((await stoker(apiKey, "request", "list", "--after", "another")).code).toBe(4);
}, 60_000);

it("requests funds in dollars", async () => {
  const asked: number[] = [];
  edge.deps.paying.addFunds = async (_account, cents) => {
    asked.push(cents);
    return null;
  };
  const done = await stoker(apiKey, "billing", "funds", "25.50");
  expect(done.out, done.err).toBe("Asked the operator to credit USD 25.50.\n");
  expect(asked).toEqual([2550]);
});

it("rejects amounts outside the limits with the limits in dollars", async () => {
  let isAsked = false;
  edge.deps.paying.addFunds = async () => {
    isAsked = true;
    return null;
  };
  for (const wrong of ["0", "1e12"]) {
    const { err, code } = await stoker(apiKey, "billing", "funds", wrong);
    expect(code).toBe(2);
    expect(err).toContain("from USD 1 to USD 1000000");
  }
  expect(isAsked).toBe(false);
}, 60_000);

it("lists payments, also those that wait, and shows an invoice to the cent", async () => {
  const payments = await stoker(apiKey, "billing", "payments");
  expect(payments.out, payments.err).toMatch(
    /^CREATED +KIND +USD +STATUS +REASON *\n2026-08-06 +topup +20\.00 +requested *\n$/,
  );
  edge.deps.invoices.read = async () => ({
    ...invoice,
    buyer,
    lines: ["a", "b"].map((model) => ({
      key: "",
      model,
      task: "text-generation",
      isPrivate: false,
      pricingType: "tokens",
      priceVersion: 1n,
      discount: null,
      milliUnits: 1_000_000n,
      cost: 5_000_000n,
    })),
  });
  const shown = await stoker(apiKey, "billing", "invoice", "inv_1");
  expect(shown.out, shown.err).toMatch(/^MODEL +UNITS +USD *\na +1000 +0\.01\nb +1000 +0\.00\ntotal +0\.01\n$/);
});

it("lists alerts of limits and sets the URL that receives them", async () => {
  const listed = await stoker(apiKey, "billing", "alerts");
  expect(listed.out, listed.err).toMatch(
    /^MONTH +LIMIT +PERCENT +SPENT USD +WEBHOOK +MAIL\n2026\.02 +account +80 % +20\.50 of 25\.00 +msg_01KAJ0+ +sent\n$/,
  );
  const targets: unknown[] = [];
  edge.deps.paying.setAlertTarget = async (_account, target) => void targets.push(target);
  await stoker(apiKey, "billing", "alerts", "https://example.com/alerts");
  await stoker(apiKey, "billing", "alerts", "none");
  expect(targets).toEqual([{ url: "https://example.com/alerts", host: "example.com" }, null]);
});
