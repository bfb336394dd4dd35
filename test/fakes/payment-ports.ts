// The billing pages over one account: figures of the interface's own examples.

import { chargeEnded, chargeNotFound } from "../../control-plane/billing/charges.ts";
import type { ChecklistReport } from "../../control-plane/billing/checklist.ts";
import { type InvoiceView, unknownInvoice } from "../../control-plane/billing/invoice-queries.ts";
import { limitedKeyNotFound } from "../../control-plane/billing/limits.ts";
import { noPaymentEvents } from "../../control-plane/billing/payments.ts";
import { notReleasable, quarantinedUnknown } from "../../control-plane/billing/quarantine-desk.ts";
import type { Charge, LimitAlert, Payment, Quarantined } from "../../control-plane/billing/store.ts";
import type { HttpDeps } from "../../control-plane/http/core/create-http.ts";
import type { AccountId, HostId, KeyId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";

const checklist: ChecklistReport = {
  paymentsBalance: nano(-18_000_000_000n),
  recent: nano(7_970_000_000n),
  limit: null,
  limitSpent: null,
  suspendReason: null,
  hasEmail: true,
  hasBillingAddress: false,
  hasPaymentMethod: false,
  overdueInvoices: 0,
  lastCheckedMs: 1_786_000_000_000,
  topup: { isOn: false, amount: nano(0n), threshold: nano(0n), hasFailed: false },
};

export const invoice: InvoiceView = {
  id: "inv_1",
  account: "u:1000000000001" as AccountId,
  month: 2026 * 12,
  total: 125_000_000n,
  createdAtMs: 1_769_904_000_000,
  dueAtMs: 1_771_113_600_000,
  paidAtMs: null,
  status: "open",
  amountDue: 25_000_000n,
  pagePath: "/invoices/inv_1?sig=good",
};

const invoiceKey = {
  version: 1,
  publicKey: "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
  createdUs: 1_786_000_000_000_000,
  signature: "",
};

async function* exportedLines(): AsyncGenerator<string> {
  yield '{"type":"stoker.invoice"}\n';
  yield '{"type":"open","text":"{}"}\n';
}

export const buyer = { name: "Analytical Engines", email: "ada@example.com", address: "12 St James's Square\nLondon" };

const openRestore = {
  id: "restore-2",
  cause: "host host-1 has a mark of a later state of this database",
  beganAt: new Date("2026-02-03T04:00:00Z"),
  endsBy: new Date("2026-02-05T04:00:00Z"),
  endedAt: undefined,
  awaited: [{ host: "host-1" as HostId, name: "node-1" }],
  report: undefined,
};
const endedRestore = {
  ...openRestore,
  id: "restore-1",
  cause: "restored from a backup",
  endedAt: new Date("2026-02-03T04:05:00Z"),
  awaited: [],
  report: {
    cause: "restored from a backup",
    hosts: 2,
    missingHosts: ["host-2"],
    resent: 120,
    recovered: 40,
    recoveredCharge: "1500000000",
    lostAtMost: 3,
  },
};

export function fakeBilling(
  key: KeyId,
): Pick<
  HttpDeps,
  | "usage"
  | "checklists"
  | "invoices"
  | "usageSeals"
  | "invoiceKeys"
  | "limits"
  | "limitAlerts"
  | "paying"
  | "charges"
  | "moneyOverview"
  | "usageQuarantine"
  | "restores"
  | "backupNotes"
> {
  return {
    usage: {
      usage: () =>
        Promise.resolve({
          initialMonth: "2026.02",
          months: [
            {
              period: "2026.02",
              fromMs: 1_769_904_000_000,
              toMs: 1_772_323_199_999,
              items: [
                {
                  model: { name: "org/model", task: "text-generation", isPrivate: false },
                  pricingType: "tokens",
                  discount: null,
                  units: 1_250_000,
                  cost: nano(125_000_000n),
                },
              ],
              totalCost: nano(125_000_000n),
              invoiceId: "NOT_FINAL",
            },
          ],
        }),
      byKey: () => Promise.resolve([{ key: key, name: "auto", initialMonth: "2026.02", months: [] }]),
      rent: () => Promise.resolve(new Map([["DpM4BkrjEspUwmTa", 3600]])),
    },
    checklists: { read: () => Promise.resolve(checklist) },
    invoices: {
      list: (_account, limit, startingAfter) => {
        if (startingAfter === "inv_other") return Promise.reject(unknownInvoice());
        return Promise.resolve({ invoices: [invoice].slice(0, limit), hasMore: limit === 1 });
      },
      read: (_account, id) =>
        id === invoice.id ? Promise.resolve({ ...invoice, lines: [], buyer }) : Promise.reject(unknownInvoice()),
      page: (id, sig) =>
        sig === "good" ? Promise.resolve({ ...invoice, id, lines: [], buyer }) : Promise.reject(unknownInvoice()),
    },
    usageSeals: { export: () => Promise.resolve(exportedLines()) },
    invoiceKeys: {
      published: () => Promise.resolve([invoiceKey]),
    },
    limits: {
      ofAccount: () => Promise.resolve(25_000_000_000n),
      setAccount: () => Promise.resolve(),
      ofKeys: () => Promise.resolve([{ key, name: "auto", limit: 5_000_000_000n, spent: 1_250_000_000n }]),
      setKey: (_account, id) => (id === key ? Promise.resolve() : Promise.reject(limitedKeyNotFound())),
    },
    limitAlerts: { list: (_account, limit) => Promise.resolve([alert].slice(0, limit)) },
    paying: {
      providerName: "manual",
      portal: (_account, returnUrl) => Promise.resolve(returnUrl),
      addFunds: () => Promise.resolve(null),
      setTopup: () => Promise.resolve(),
      terms: () => Promise.resolve({ creditLine: 0n, dueDays: 14, needsPaymentMethod: false }),
      setTerms: () => Promise.resolve(),
      settings: () =>
        Promise.resolve({ alertUrl: "https://example.com/alerts?token=1", alertMail: true, invoiceAddress: "London" }),
      setAlertTarget: () => Promise.resolve(),
      setAlertMail: () => Promise.resolve(),
      setInvoiceAddress: () => Promise.resolve(),
      requestCosts: () => Promise.resolve(new Map([["known", 70n]])),
      takeEvent: () => Promise.reject(noPaymentEvents()),
    },
    moneyOverview: {
      overview: (_month, most) =>
        Promise.resolve({
          imbalance: 0n,
          leased: 2_500_000_000n,
          openLeases: 3,
          gpuHeld: 500_000_000n,
          openGpuHolds: 1,
          lossOfHour: 10_000_000n,
          quarantined: 2,
          suspended: [{ reason: "balance", accounts: 2 }],
          spenders: [
            {
              account: "u:1000000000001" as AccountId,
              displayName: "ada",
              email: "ada@example.com",
              spent: 7_250_000_000n,
              requests: 12,
            },
          ].slice(0, most),
        }),
    },
    backupNotes: {
      list: () =>
        Promise.resolve([
          {
            file: "2026-08-06T02-00-00.000Z.stoker-backup",
            takenAt: new Date(1_786_000_000_000),
            sizeBytes: 4096,
            rows: 1200,
            version: "0.1.0",
            verifiedAt: new Date(1_786_000_060_000),
          },
        ]),
    },
    restores: { list: (limit) => Promise.resolve([openRestore, endedRestore].slice(0, limit)) },
    usageQuarantine: {
      list: (_host, after, limit) =>
        Promise.resolve({
          hosts: [{ host: quarantined.host, open: 2, dropped: 7 }],
          records: after === 0n ? [quarantined].slice(0, limit) : [],
          next: after === 0n ? quarantined.id : undefined,
        }),
      release: (id) => (id === 13n ? Promise.reject(notReleasable("it has no sealed ticket")) : quarantinedOf(id)),
      discard: quarantinedOf,
      discardHost: () => Promise.resolve(2),
    },
    charges: {
      requests: () => Promise.resolve([topupRequest]),
      payments: (_account, limit) => Promise.resolve([waitingTopup].slice(0, limit)),
      fulfil: (id) => decided(id, "done"),
      reject: (id) => decided(id, "failed"),
    },
  };
}

const quarantined: Quarantined = {
  id: 12n,
  host: "host-1" as HostId,
  nodeEpoch: "3",
  requestId: "request-1",
  attempt: 1,
  problem: "bad_seal",
  why: "the seal does not match the ticket",
  record: "{}",
  at: new Date(1_786_000_000_000),
};
const quarantinedOf = (id: bigint) =>
  id === quarantined.id ? Promise.resolve(quarantined) : Promise.reject(quarantinedUnknown());

const topupRequest: Charge = {
  id: "chg_1",
  account: "u:1000000000001" as AccountId,
  customer: null,
  purpose: "topup",
  invoiceId: null,
  amount: 20_000_000_000n,
  state: "requested",
  paymentId: null,
  createdAtMs: 1_786_000_000_000,
};

const alert: LimitAlert = {
  account: "u:1000000000001" as AccountId,
  mail: "sent",
  of: null,
  month: 2026 * 12 + 1,
  percent: 80,
  limit: 25_000_000_000n,
  spent: 20_500_000_000n,
  atMs: 1_786_000_000_000,
  webhookId: "msg_01KAJ000000000000000000000",
};

const waitingTopup: Payment = {
  id: "chg_1",
  kind: "topup",
  amount: 20_000_000_000n,
  state: "requested",
  why: "",
  createdAtMs: 1_786_000_000_000,
};

function decided(id: string, state: Charge["state"]): Promise<Charge> {
  if (id === "chg_ended") return Promise.reject(chargeEnded());
  return id === topupRequest.id ? Promise.resolve({ ...topupRequest, state }) : Promise.reject(chargeNotFound());
}
