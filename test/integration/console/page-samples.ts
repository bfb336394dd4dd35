// Answers of lists that a small stack of processes cannot fill, and lists of a size that no test machine has.
import type { Page, Route } from "playwright-core";
import type { Responses } from "../../../proto/gen/responses.ts";
import { scriptedFleet } from "../../fakes/scripted-fleet.ts";
import { answersOf } from "./stand-ins.ts";

type Answers = Partial<Responses>;

const at = 1_786_000_000;
const iso = "2026-08-06T07:06:40.000Z";
const invoice = {
  status: "open",
  ...{ id: "INV-2026-000041", total: 12_345.678, amount_due: 12_345.678, created: at },
  ...{ due_date: at + 1_209_600, period: "2026.07", invoice_type: "usage", hosted_invoice_url: "", invoice_pdf: null },
} as const;
const line = { task: "text-generation", pricing_type: "tokens", units: 1_234_567_890, discount: null } as const;
export const invoiceId = invoice.id;

const billing: Answers = {
  "GET /payment/invoices": { invoices: [invoice], has_more: false, next_cursor: null },
  "GET /payment/invoices/{invoice_id}": {
    ...invoice,
    ...{ paid: null, currency: "USD", rounded_total: 12_346, rounded_amount_due: 12_346 },
    seller: { name: "Stoker Cloud GmbH", address: "Werkstrasse 1\n10115 Berlin" },
    buyer: {
      ...{ name: "ada-workshop", address: "1 Analytical Street\nLondon W1", email: "ada@example.com" },
      uid: "u:1000000000001",
    },
    lines: [
      { ...line, model: "fake/chat", amount: 9_000.2, rounded_amount: 9_000 },
      {
        ...{ ...line, model: "an-organisation-with-a-long-name/a-model-with-a-very-long-name-instruct" },
        ...{ pricing_type: "uptime", units: 44_640, discount: "10 % First year", amount: 3_345.478 },
        rounded_amount: 3_346,
      },
    ],
  },
  "GET /payment/funds": {
    provider: "stripe",
    payments: [
      { id: "p1", kind: "topup", amount: 5_000, status: "done", error_message: null, created_at: at },
      { id: "p2", kind: "topup", amount: 5_000, status: "failed", error_message: "Card declined.", created_at: at },
    ],
  },
  "GET /payment/limit-alerts": {
    alerts: [
      {
        ...{
          scope: "account",
          token_id: null,
          project_id: null,
          name: null,
          period: "2026.07",
          percent: 80,
          limit: 20_000,
        },
        ...{ spend: 16_012, created_at: at, webhook_id: "msg_1", mail: null },
      },
    ],
  },
  "GET /v1/webhooks/deliveries": {
    deliveries: [
      {
        ...{ id: "msg_1", request_id: "Qk2mYw", event: null, url: "https://example.com/hook", state: "exhausted" },
        ...{ error_code: "http_status", error_message: "The receiver answered 500.", attempts: 8, last_status: 500 },
        ...{ last_outcome: "http_status", created_at: at, next_attempt_at: null, finished_at: at + 86_400 },
      },
    ],
    next_cursor: null,
  },
};

const operator: Answers = {
  "GET /v1/workload-identities": {
    workload_identities: [
      {
        id: "4kQ0bYx1Za9c4kQ0bYx1",
        name: "deploy",
        issuer: "https://token.actions.githubusercontent.com",
        audience: "https://stoker.example.com",
        subject: "repo:acme/app:ref:refs/heads/main",
        claims: {},
        role: "inference",
        allowed_models: null,
        life_seconds: 900,
        member_id: null,
        project_id: null,
        created_at: at,
        last_used_at: null,
      },
    ],
  },
  "GET /v1/projects": {
    projects: [
      { id: "4kQ0bYx1Za9c4kQ0", name: "search", monthly_limit: 500, spent: 123.45, key_count: 3, created_at: at },
    ],
  },
  "GET /v1/admin/identity-providers": {
    providers: [
      {
        ...{ id: "4kQ0bYx1Za9c", name: "Okta", issuer: "https://acme.okta.com", client_id: "0oa1" },
        ...{ has_client_secret: true, scopes: "openid email profile", domains: ["acme.com"], is_enforced: true },
        ...{ is_listed: true, trusts_email: false, organization: null, default_role: null, groups_claim: "groups" },
        ...{ role_of_group: { leads: "admin" }, projects_of_group: { leads: ["4kQ0bYx1Za9c4kQ0"] } },
        ...{ default_project_ids: [], has_scim_token: true, created_at: at },
        redirect_uri: "https://stoker.example.com/v1/auth/oidc/4kQ0bYx1Za9c/callback",
      },
    ],
  },
  "GET /v1/admin/incidents": {
    incidents: [
      {
        ...{ id: "8", kind: "deployment_failed", severity: "critical", advice: "See its events and logs." },
        ...{ summary: "ada/my-llm of ada@example.com failed: out of memory.", runbook: "/docs/operations" },
        ...{ account: { uid: "u:1", email: "ada@example.com" }, deployment: { id: "d1", name: "ada/my-llm" } },
        ...{ node: null, gpu: null, began_at: iso, ended_at: null },
      },
    ],
    next_cursor: null,
    open: { critical: 1, warning: 0, info: 0 },
  },
  "GET /v1/admin/backups": {
    ...{ last_taken_at: iso, last_verified_at: iso },
    backups: [
      {
        ...{ file: "stoker-2026-08-06T07-06-40Z.age", taken_at: iso, size_bytes: 12_345_678, rows: 98_765 },
        ...{ version: "0.1.0", verified_at: iso },
      },
    ],
  },
  "GET /v1/admin/restores": {
    restores: [
      {
        ...{ id: "r1", cause: "restore", began_at: iso, ends_by: iso, ended_at: iso, awaited_hosts: [] },
        report: {
          ...{ hosts: 2, missing_node_ids: [], resent_records: 1_234, recovered_records: 56, recovered_usd: 7.89 },
          lost_records_at_most: 0,
        },
      },
    ],
  },
  "GET /v1/admin/usage-quarantine": {
    hosts: [{ host_id: "n1", open: 1, dropped: 0 }],
    records: [
      {
        ...{ id: "q1", host_id: "n1", request_id: "Qk2mYw", attempt: 1, problem: "unknown_model", at: iso },
        ...{ why: "No such model.", record: '{"model":"gone"}' },
      },
    ],
    next_cursor: null,
  },
};

/** By path. */
const samples: Readonly<Record<string, unknown>> = {
  ...Object.fromEntries(
    Object.entries({ ...billing, ...operator }).map(([route, answer]) => [
      route.slice("GET ".length).replace("{invoice_id}", encodeURIComponent(invoiceId)),
      answer,
    ]),
  ),
  ...answersOf("fake/chat", "a-name"),
  "/v1/containers/c1": (answersOf("fake/chat", "notebook")["/v1/containers"] as readonly unknown[])[0],
  "/v1/containers/c1/terminal": { available: true, reason: "" },
  "/v1/agent/a1/terminal": {
    available: false,
    reason: "The operator of its host does not allow terminals. Log in by SSH, or ask the operator.",
  },
  "/v1/ssh_keys": [{ id: "k1", name: "laptop", key: "ssh-ed25519 AAAA", fingerprint: "SHA256:abc", created_at: at }],
};
/** The real list of a small stack has some. */
const isReal = new Set(["/v1/batches"]);

const api = /^\/(v1|payment|deploy|models)\b/;
const isApi = (url: URL): boolean => api.test(url.pathname);

const printed = [
  "root@notebook:~# nvidia-smi -L",
  "GPU 0: NVIDIA B200 (UUID: GPU-5c2a1f6e-0d6b-4a61-9d43-1c9f6a1b7e20)",
  "root@notebook:~# df -h /workspace",
  "Filesystem      Size  Used Avail Use% Mounted on",
  "/dev/nvme0n1p2  1.8T  412G  1.4T  23% /workspace",
  "root@notebook:~# ",
].join("\r\n");

/** A terminal of the container that is open and has printed some lines. */
async function openTerminal(page: Page): Promise<void> {
  await page.routeWebSocket(/\/v1\/terminal/, (socket) => {
    socket.onMessage(() => {});
    socket.send(Buffer.from(printed));
  });
  await page.route("**/v1/containers/c1/terminal", (route) =>
    isRead(route)
      ? route.fallback()
      : route.fulfill({ json: { path: "/v1/terminal", ticket: "t", valid_seconds: 60 } }),
  );
}

/** Fills lists of which the real server has none. */
export async function fewRows(page: Page): Promise<void> {
  await openTerminal(page);
  await page.route(isApi, (route) => {
    const sample = isRead(route) && !isReal.has(pathOf(route)) ? samples[pathOf(route)] : undefined;
    return sample === undefined ? route.fallback() : route.fulfill({ json: sample });
  });
}

/** Lists with 1,000 rows of long names, and charts with figures at all times. */
export async function manyRows(page: Page): Promise<void> {
  await openTerminal(page);
  await page.route(isApi, async (route) => {
    const path = pathOf(route);
    if (!isRead(route) || kept.test(path)) return route.fallback();
    if (path === "/v1/admin/nodes") return route.fulfill({ json: scriptedFleet(125, 8) });
    const sample = isReal.has(path) ? undefined : samples[path];
    if (sample !== undefined) return route.fulfill({ json: grown(sample, urlOf(route)) });
    const answer = await route.fetch();
    if (!answer.ok()) return route.fulfill({ response: answer });
    return route.fulfill({ response: answer, json: grown(await answer.json(), urlOf(route)) });
  });
}

/** One thing, or a list that the server itself limits. */
const kept = /^\/v1\/(auth|me$|model-catalogue|agent\/catalog|containers\/params)/;
const isRead = (route: Route): boolean => route.request().method() === "GET";
const urlOf = (route: Route): URL => new URL(route.request().url());
const pathOf = (route: Route): string => urlOf(route).pathname;

type Row = Readonly<Record<string, unknown>>;
const isRow = (value: unknown): value is Row => typeof value === "object" && value !== null && !Array.isArray(value);

/** What the server would send at once. */
function sizeOf(url: URL): number {
  const limit = Number(url.searchParams.get("limit"));
  if (limit > 0) return Math.min(limit, 1000);
  // What fits on one host, and what a person decides one by one.
  return url.pathname.startsWith("/v1/admin/nodes/") ? 16 : url.pathname.endsWith("-requests") ? 40 : 1000;
}

/** Lists that belong to one thing: lines of an invoice, attempts of a request. */
const fixedSizes: Readonly<Record<string, number>> = { lines: 60, attempts: 5 };

function grown(answer: unknown, url: URL): unknown {
  const size = sizeOf(url);
  if (Array.isArray(answer)) return multiplied(answer, size);
  if (!isRow(answer)) return answer;
  return Object.fromEntries(
    Object.entries(answer).map(([name, value]) => {
      if (!Array.isArray(value)) return [name, value];
      if (name === "days") return [name, value.map(busyDay)];
      if (name === "series") return [name, value.map(busySeries)];
      return [name, multiplied(value, fixedSizes[name] ?? size)];
    }),
  );
}

function multiplied(rows: readonly unknown[], size: number): readonly unknown[] {
  if (!rows.every(isRow) || rows.length === 0) return rows;
  return Array.from({ length: Math.max(size, rows.length) }, (_, n) => copyOf(rows[n % rows.length] as Row, n));
}

const named = /^(name|model|model_name|display_name|filename|deploy_name|description|note|reason|file|subject)$/;
const long = "with-a-name-that-is-much-longer-than-its-column";

const copyOf = (row: Row, n: number): Row =>
  Object.fromEntries(
    Object.entries(row).map(([key, value]) => {
      if (n === 0 || typeof value !== "string") return [key, value];
      if (/(^|_)id$|^uuid$/.test(key)) return [key, `${value}-${n}`];
      return [key, named.test(key) && value !== "" ? `${value}-${long}-${n}` : value];
    }),
  );

function busyDay(day: Row, n: number): Row {
  const items = Array.from({ length: 12 }, (_, model) => {
    const cost = (model + 1) * (2 + Math.sin(n / 3 + model));
    const id = `organisation-${model}/model-${long}-${model}`;
    return {
      ...{ id, name: id, key_id: `k${model % 3}`, key_name: `key-${model % 3}`, cost, spending_limit: null },
      ...{
        requests: 1000 * (model + 1),
        input_tokens: 5_000_000 * (model + 1),
        output_tokens: 1_000_000 * (model + 1),
      },
    };
  });
  return { ...day, items, total_cost: items.reduce((sum, one) => sum + one.cost, 0) };
}

const busySeries = (series: Row, n: number): Row => ({
  ...series,
  values: (series["values"] as readonly unknown[]).map((_, at) => {
    const wave = 1 + Math.sin(at / 9 + n) / 2;
    return String(series["name"]).endsWith("ratio") ? wave / 2 : Math.round(1234 * wave);
  }),
});
