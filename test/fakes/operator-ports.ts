// The operator's verbs over one account, and the applications, for the HTTP edge in tests.
import type { AccountDetail } from "../../control-plane/accounts/admin-accounts.ts";
import type { ApplicationRecord, Applications } from "../../control-plane/accounts/applications.ts";
import type { Caller } from "../../control-plane/accounts/caller.ts";
import { AccountNotFound, ApplicationNotFound } from "../../control-plane/accounts/errors.ts";
import type { OperatorVerbs } from "../../control-plane/http/verbs.ts";
import type { AccountId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";

/** Over one account, ada's. */
export function fakeOperator(ada: Caller, operator: Caller): OperatorVerbs {
  const detail: AccountDetail = {
    account: ada.account,
    email: ada.email,
    displayName: ada.displayName,
    isAdmin: false,
    isTeamAccount: false,
    suspendReason: null,
    createdAtMs: 1_786_000_000_000,
    funds: nano(10_030_000_000n),
    spent: nano(7_970_000_000n),
    keys: 1,
    deployments: 1,
    suspensions: [],
  };
  const known = async (account: AccountId) => {
    if (account !== ada.account) throw new AccountNotFound();
    return detail;
  };
  return {
    accounts: () => Promise.resolve({ accounts: [detail], nextCursor: null }),
    account: known,
    changeAccount: known,
    credit: async ({ account }) => void (await known(account)),
    suspend: async (account) => void (await known(account)),
    lift: async (account) => void (await known(account)),
    audit: () =>
      Promise.resolve({
        records: [
          {
            id: 7n,
            atMs: 1_786_000_000_000,
            actor: operator.account,
            action: "account.suspend",
            subject: ada.account,
            account: ada.account,
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
      if (id !== one.id) throw new ApplicationNotFound();
      return { ...one, status, decision: { atMs: 1_786_000_060_000, by: act.by, note: act.note } };
    },
  };
}
