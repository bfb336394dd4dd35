// The operator's verbs over one account, and the applications, for the HTTP edge in tests.

import type { ApplicationRecord, Applications } from "../../control-plane/accounts/applications.ts";
import type { AuditLog } from "../../control-plane/accounts/audit.ts";
import type { Caller } from "../../control-plane/accounts/caller.ts";
import { accountNotFound, applicationNotFound } from "../../control-plane/accounts/errors.ts";
import type { AccountDetail, Operator } from "../../control-plane/accounts/operator.ts";
import { discountNotFound } from "../../control-plane/billing/discounts.ts";
import type { ListedPrice } from "../../control-plane/billing/price-book.ts";
import type { Discount } from "../../control-plane/billing/store.ts";
import type { HttpDeps } from "../../control-plane/http/core/create-http.ts";
import { auditFooter, auditHeader, auditStart } from "../../proto/audit-chain.ts";
import type { AccountId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";

/** Over one account, ada's. */
export function fakeOperator(ada: Caller): Operator {
  const detail: AccountDetail = {
    account: ada.account,
    email: ada.email,
    displayName: ada.displayName,
    isAdmin: false,
    isTeamAccount: false,
    mayPrioritize: false,
    suspendReason: null,
    createdAtMs: 1_786_000_000_000,
    funds: nano(10_030_000_000n),
    spent: nano(7_970_000_000n),
    deletedAtMs: null,
    credited: nano(18_000_000_000n),
    keys: 1,
    deployments: 1,
    suspensions: [],
  };
  const known = async (account: AccountId) => {
    if (account !== ada.account) throw accountNotFound();
    return detail;
  };
  return {
    accounts: () => Promise.resolve({ accounts: [detail], nextCursor: null }),
    account: known,
    names: async (accounts) => new Map([...accounts].filter((one) => one === ada.account).map((one) => [one, ada])),
    noteView: async () => {},
    noteViewState: async (account) => void (await known(account)),
    actAs: async (account, { by }) => {
      await known(account);
      return { ...ada, role: "read", operator: by as AccountId };
    },
    changeAccount: known,
    credit: async ({ account }) => void (await known(account)),
    suspend: async (account) => void (await known(account)),
    lift: async (account) => void (await known(account)),
  };
}

/** One record: the operator suspended ada. */
export function fakeAudit(ada: Caller, operator: Caller): AuditLog {
  return {
    read: () =>
      Promise.resolve({
        records: [
          {
            id: 7n,
            atMs: 1_786_000_000_000,
            actor: operator.account,
            actorEmail: operator.email,
            action: "account.suspend",
            subject: ada.account,
            subjectName: ada.email,
            account: ada.account,
            accountEmail: ada.email,
            ip: "127.0.0.1",
            before: { reasons: [] },
            after: { reasons: ["admin"] },
            note: "abuse",
          },
        ],
        nextCursor: "7",
      }),
  };
}

/** One application, ada's. */
export function fakeApplications(ada: Caller): Applications {
  const one: ApplicationRecord = {
    id: "AppOfAda00000000",
    account: ada.account,
    email: ada.email,
    company: "Engines Ltd",
    ceo: "Ada L",
    funding: "seed",
    foundedOn: "2025-01-01",
    website: "https://example.com",
    deal: "",
    status: "pending",
    createdAtMs: 1_786_000_000_000,
    decision: null,
  };
  return {
    apply: () => Promise.resolve(one),
    own: () => Promise.resolve(one),
    list: () => Promise.resolve({ applications: [one], nextCursor: null }),
    async decide(id, { status, act }) {
      if (id !== one.id) throw applicationNotFound();
      return { ...one, status, decision: { atMs: 1_786_000_060_000, by: act.by, note: act.note } };
    },
  };
}

/** One version of one model's price; one discount. */
export function fakePriceBook(): Pick<HttpDeps, "prices" | "discounts"> {
  const rates = { input: 20_000_000n, cachedInput: 10_000_000n, output: 40_000_000n, characters: 0n, audio: 0n };
  const price: ListedPrice = {
    version: 3n,
    kind: "model",
    subject: "org/model",
    rates: { ...rates, images: 2_500_000_000_000n, imageSteps: 0n, hour: 0n },
    tiers: { priority: 100, flex: 100 },
    effectiveFromMs: 1_786_000_000_000,
    setAtMs: 1_786_000_000_000,
    isCurrent: true,
  };
  const discount: Discount = {
    id: "DiscountOfAda000",
    name: "launch",
    text: "",
    basisPoints: 1_250,
    account: null,
    model: null,
    surface: null,
    effectiveFromMs: 1_786_000_000_000,
    effectiveToMs: null,
  };
  return {
    prices: {
      list: () => Promise.resolve([price]),
      set: ({ kind, subject, rates }) =>
        Promise.resolve({ ...price, kind, subject, rates: { ...price.rates, ...rates } }),
    },
    discounts: {
      list: () => Promise.resolve([discount]),
      create: (request) => Promise.resolve({ ...discount, ...request }),
      async end(id) {
        if (id !== discount.id) throw discountNotFound();
      },
    },
  };
}

/** An audit log without rows. */
export const fakeAuditChain: HttpDeps["auditChain"] = {
  export: async () => emptyExport(),
};

async function* emptyExport(): AsyncGenerator<string> {
  yield auditHeader(0n, auditStart);
  yield auditFooter(0n, auditStart, false);
}
