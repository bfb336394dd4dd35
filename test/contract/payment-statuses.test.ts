import { describe, expect, it } from "vitest";
import { exportRunning, usageExpired, usageNotSealed } from "../../control-plane/billing/usage-seals.ts";
import { buyer, invoice } from "../fakes/payment-ports.ts";
import { ada, adminKey } from "../fakes/ports.ts";
import { answerTo, check, type Row } from "./status-row.ts";

const rows: readonly Row[] = [
  { call: "GET /payment/checklist?compute_owed=true", status: 200, holds: { last_checked: 1_786_000_000 } },
  {
    call: "GET /payment/checklist?compute_owed=maybe",
    status: 422,
    holds: { detail: [{ loc: ["query", "compute_owed"] }] },
  },
  {
    call: "GET /payment/checklist",
    status: 404,
    given: ({ deps }) => void Object.assign(deps.checklists, { read: () => Promise.resolve(undefined) }),
  },
  { call: "GET /payment/usage/tokens", status: 200, holds: { tokens: [{ token_id: ada.key, name: "auto" }] } },
  { call: "GET /payment/usage/tokens", status: 401, key: null },
  {
    call: "GET /payment/usage/rent?from=1786000000&to=1786003600",
    status: 200,
    holds: { id_to_duration: { DpM4BkrjEspUwmTa: 3600 } },
  },
  { call: "GET /payment/usage/rent", status: 422, holds: { detail: [{ loc: ["query", "from"], type: "missing" }] } },
  { call: "GET /payment/usage/rent?from=1786000000", status: 401, key: null },
  {
    call: "GET /payment/invoices",
    status: 200,
    holds: {
      invoices: [
        {
          id: "inv_1",
          status: "open",
          total: 12.5,
          amount_due: 2.5,
          created: 1_769_904_000,
          due_date: 1_771_113_600,
          period: "2026.01",
          invoice_type: "usage",
          hosted_invoice_url: "https://stoker.example.com/invoices/inv_1?sig=good",
          invoice_pdf: null,
        },
      ],
      has_more: false,
      next_cursor: null,
    },
    headers: { "cache-control": "no-store" },
  },
  { call: "GET /payment/invoices?limit=1", status: 200, holds: { has_more: true, next_cursor: "inv_1" } },
  { call: "GET /payment/invoices?invoice_type=seats", status: 200, holds: { invoices: [], has_more: false } },
  { call: "GET /payment/invoices?limit=51", status: 422, holds: { detail: [{ loc: ["query", "limit"] }] } },
  { call: "GET /payment/invoices?starting_after=inv_other", status: 404, holds: { code: "invoice_not_found" } },
  { call: "GET /payment/invoices", status: 401, key: null },
  // The links open without a key.
  {
    call: "GET /payment/invoices?limit=1",
    status: 200,
    key: adminKey,
    send: { "x-stoker-act-as": ada.account },
    holds: { invoices: [{ hosted_invoice_url: "" }] },
  },
  { call: "GET /v1/invoice-exports/2026.01", status: 200, headers: { "content-type": "application/x-ndjson" } },
  { call: "GET /v1/invoice-exports/January", status: 422, holds: { code: "bad_period" } },
  {
    call: "GET /v1/invoice-exports/current",
    status: 503,
    holds: { code: "usage_not_sealed" },
    given: ({ deps }) => void Object.assign(deps.usageSeals, { export: () => Promise.reject(usageNotSealed()) }),
  },
  {
    call: "GET /v1/invoice-exports/2020.01",
    status: 404,
    holds: { code: "usage_expired" },
    given: ({ deps }) => void Object.assign(deps.usageSeals, { export: () => Promise.reject(usageExpired()) }),
  },
  {
    call: "GET /v1/invoice-exports/current",
    status: 429,
    holds: { code: "export_running" },
    given: ({ deps }) => void Object.assign(deps.usageSeals, { export: () => Promise.reject(exportRunning()) }),
  },
  { call: "GET /v1/invoice-exports/2026.01", status: 401, key: null },
  {
    call: "GET /v1/invoice-keys",
    status: 200,
    key: null,
    holds: { keys: [{ version: 1, created_at: 1_786_000_000 }] },
  },
  {
    call: "GET /payment/invoices/inv_1",
    status: 200,
    holds: {
      id: "inv_1",
      total: 12.5,
      paid: null,
      currency: "USD",
      seller: { name: "stoker.example.com", address: "" },
      buyer: { uid: ada.account, ...buyer },
      lines: [],
      rounded_total: 0,
      rounded_amount_due: 3,
    },
    headers: { "cache-control": "no-store" },
  },
  {
    call: "GET /payment/invoices/inv_1",
    status: 200,
    given: ({ deps }) => void Object.assign(deps, { invoiceSeller: ["Example GmbH", "Main Street 1", "VAT DE123"] }),
    holds: { seller: { name: "Example GmbH", address: "Main Street 1\nVAT DE123" } },
  },
  { call: "GET /payment/invoices/inv_other", status: 404, holds: { code: "invoice_not_found" } },
  { call: "GET /payment/invoices/inv_1", status: 401, key: null },
  {
    call: "GET /payment/invoices/inv_1",
    status: 200,
    key: adminKey,
    send: { "x-stoker-act-as": ada.account },
    holds: { hosted_invoice_url: "" },
  },
  {
    call: "GET /payment/funds",
    status: 200,
    holds: {
      provider: "manual",
      payments: [
        {
          id: "chg_1",
          kind: "topup",
          amount: 2000,
          status: "requested",
          error_message: null,
          created_at: 1_786_000_000,
        },
      ],
    },
  },
  {
    call: "GET /payment/limit-alerts",
    status: 200,
    holds: {
      alerts: [
        {
          scope: "account",
          token_id: null,
          project_id: null,
          name: null,
          period: "2026.02",
          percent: 80,
          limit: 25,
          spend: 20.5,
          created_at: 1_786_000_000,
          webhook_id: "msg_01KAJ000000000000000000000",
        },
      ],
    },
  },
  { call: "GET /payment/limit-alerts?limit=0", status: 422, holds: { detail: [{ loc: ["query", "limit"] }] } },
  { call: "GET /payment/limit-alerts", status: 401, key: null },
  {
    call: "GET /payment/config",
    status: 200,
    holds: { limit: 25, webhook: "https://example.com/alerts?token=1", invoice_address: "London" },
  },
  {
    call: "GET /payment/config",
    status: 200,
    key: adminKey,
    send: { "x-stoker-act-as": ada.account },
    holds: { webhook: "https://example.com/alerts" },
  },
  {
    call: "POST /payment/config",
    status: 400,
    body: { limit: null, webhook: "https://inside.example.com/alerts" },
    holds: { code: "webhook_refused" },
  },
  {
    call: "POST /payment/config",
    status: 422,
    body: { limit: null, webhook: "alerts" },
    holds: { detail: [{ loc: ["body", "webhook"] }] },
  },
  {
    call: "POST /payment/config",
    status: 422,
    body: { limit: null, invoice_address: "a\u0000b" },
    holds: { detail: [{ loc: ["body", "invoice_address"] }] },
  },
  { call: "GET /payment/funds?limit=101", status: 422, holds: { detail: [{ loc: ["query", "limit"] }] } },
  { call: "GET /payment/funds", status: 401, key: null },
  { call: "GET /invoices/inv_1?sig=wrong", status: 404, key: null, holds: { code: "invoice_not_found" } },
  { call: "GET /invoices/inv_1", status: 422, key: null, holds: { detail: [{ loc: ["query", "sig"] }] } },
];

describe("every endpoint of billing and its statuses", () => {
  it.each(rows.map((row) => [`${row.call} ${row.status}`, row] as const))("%s", (_name, row) => check(row));
});

describe("the page of an invoice", () => {
  it("opens without a key by its signed link, runs no script and holds no markup of a model's name", async () => {
    const answer = await answerTo({
      call: "GET /invoices/inv_1?sig=good",
      status: 200,
      key: null,
      given: ({ deps }) => {
        const line = {
          key: ada.key,
          model: "<script>alert(1)</script>",
          task: "text-generation",
          isPrivate: false,
          pricingType: "tokens" as const,
          priceVersion: 1n,
          discount: { id: "d", name: "Spring", text: "20 % off" },
          milliUnits: 1_250_000_000n,
          cost: 125_000_000n,
        };
        deps.invoices.page = () => Promise.resolve({ ...invoice, lines: [line], buyer });
      },
    });
    expect(answer.statusCode).toBe(200);
    expect(answer.headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(answer.headers["content-security-policy"]).toContain("default-src 'none'");
    expect(answer.body).toContain("<h1>Invoice for 2026.01</h1>");
    expect(answer.body).toContain("0.13");
    expect(answer.body).toContain("Analytical Engines\n12 St James&#39;s Square\nLondon\nada@example.com");
    expect(answer.body).toContain("Spring: 20 % off");
    expect(answer.body).not.toContain("<script");
  });
});
