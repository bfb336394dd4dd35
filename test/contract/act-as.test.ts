// An operator reads an account's records as its owner does, and nothing else, against a running control plane.
import { beforeAll, describe, expect, it } from "vitest";
import { type Customer, createCustomer, installation, operatorKey, succeed } from "./status-table.ts";

let ada: Customer;
beforeAll(async () => {
  ada = await createCustomer({ creditUsd: 5 });
});

async function ask(method: string, path: string, key = operatorKey, account = ada.uid) {
  const answer = await fetch(`${installation.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "x-stoker-act-as": account },
    signal: AbortSignal.timeout(30_000),
  });
  const text = await answer.text();
  return { status: answer.status, text, code: (JSON.parse(text) as { code?: string }).code };
}

interface Described {
  readonly security?: readonly unknown[];
  readonly parameters?: readonly { readonly name: string }[];
}

/** Operations that an operator may send for another account; every other one must be refused. */
const open = new Set([
  "/v1/metrics/series",
  "/payment/invoices",
  "/payment/invoices/{invoice_id}",
  "/v1/invoice-exports/{month}",
  "/payment/funds",
  "/payment/limit-alerts",
  "/v1/user/loras",
  "/v1/webhooks/deliveries",
  "/v1/usage/days",
  "/v1/rejected-requests",
  "/v1/requests",
  "/v1/requests/{request_id}",
  "/payment/checklist",
  "/payment/usage",
  "/payment/usage/tokens",
  "/payment/usage/rent",
  "/v1/usage/users",
  "/payment/config",
  "/payment/key-limits",
  "/v1/me/rate_limit",
  "/v1/me/limit_requests",
  "/v1/gpu_pool/gpu_types",
  "/v1/ssh_keys",
  "/v1/voices",
  "/v1/model-catalogue",
  "/v1/projects",
  "/v1/me/suspension",
  "/v1/hub/models",
  "/v1/containers/params",
  "/v1/containers/gpu_availability",
  "/v1/agent/catalog",
  "/deploy/llm/gpu_availability",
  "/v1/me/gpu_pool",
  "/v1/me/gpu_limit",
  "/deploy/{deploy_id}/events",
  "/v1/files",
  "/v1/files/{file_id}",
  "/v1/messages/batches",
  "/v1/messages/batches/{batch_id}",
  "/v1/batches",
  "/v1/batches/{batch_id}",
  "/v1/model-aliases",
  "/models/private/list",
  "/models/deployment/list",
  "/models/{model_name}",
  "/v1/me",
  "/v1/api-tokens",
  "/v1/containers",
  "/v1/containers/{container_id}",
  "/v1/containers/{container_id}/terminal",
  "/deploy/stats",
  "/deploy/{deploy_id}/stats",
  "/deploy/{deploy_id}/stats2",
  "/deploy/{deploy_id}/versions",
  "/v1/deployments/{deploy_id}/series",
  "/v1/deployment_logs/query",
  "/v1/logs/query",
  "/deploy/list",
  "/deploy/{deploy_id}",
  "/deploy/{deploy_id}/placement",
  "/v1/agent",
  "/v1/agent/{instance_id}",
  "/v1/agent/{instance_id}/backups",
  "/v1/agent/{instance_id}/terminal",
]);

describe("X-Stoker-Act-As", () => {
  it("shows an operator what the account's owner sees", async () => {
    const own = await fetch(`${installation.url}/v1/api-tokens`, { headers: { authorization: `Bearer ${ada.key}` } });
    expect((await ask("GET", "/v1/api-tokens")).text).toBe(await own.text());
    expect(JSON.parse((await ask("GET", "/v1/me")).text)).toMatchObject({ uid: ada.uid });
  });

  it("is one entry of the audit log, with the operator", async () => {
    const bob = await createCustomer();
    for (const path of ["/deploy/list", "/v1/requests"])
      expect(await ask("GET", path, operatorKey, bob.uid)).toMatchObject({ status: 200 });
    const { entries } = await succeed({
      call: `GET /v1/admin/audit?account=${bob.uid}&action=account.view`,
      key: operatorKey,
    });
    expect(entries).toMatchObject([{ subject: bob.uid, account: bob.uid }]);
  });

  it("records each begin and end of a view in the console, however close together", async () => {
    const bob = await createCustomer();
    const call = `POST /v1/admin/accounts/${bob.uid}/views` as const;
    for (const state of ["begin", "end", "begin", "end"]) await succeed({ call, key: operatorKey, body: { state } });
    const { entries } = await succeed({
      call: `GET /v1/admin/audit?account=${bob.uid}&action=account`,
      key: operatorKey,
    });
    expect(entries.map(({ action }: { action: string }) => action)).toEqual([
      ...["account.view_end", "account.view_begin", "account.view_end", "account.view_begin", "account.create"],
    ]);
  });

  it("does not compute what the account owes, which could suspend it", async () => {
    const bob = await createCustomer();
    const path = "/payment/checklist?compute_owed=true";
    expect(await ask("GET", path, operatorKey, bob.uid)).toMatchObject({ status: 200 });
    const { entries } = await succeed({
      call: `GET /v1/admin/audit?account=${bob.uid}&action=account`,
      key: operatorKey,
    });
    expect(entries.map(({ action }: { action: string }) => action)).toEqual(["account.view", "account.create"]);
  });

  it("is refused to customers, and for accounts that do not exist", async () => {
    const bob = await createCustomer();
    expect(await ask("GET", "/v1/api-tokens", bob.key)).toMatchObject({ status: 403, code: "admin_only" });
    expect(await ask("GET", "/v1/api-tokens", operatorKey, "u:9999999999999")).toMatchObject({ status: 404 });
    expect(await ask("GET", "/v1/api-tokens", operatorKey, "'; drop table account")).toMatchObject({ status: 404 });
  });

  it("changes nothing, and shows no secrets and no content, on any operation", async () => {
    const description = await fetch(`${installation.url}/openapi.json`);
    const { paths } = (await description.json()) as { paths: Record<string, Record<string, Described>> };
    const answered: string[] = [];
    for (const [path, operations] of Object.entries(paths))
      for (const [method, { security }] of Object.entries(operations)) {
        if (!security?.length || path === "/mcp") continue;
        const answer = await ask(method.toUpperCase(), path.replaceAll(/\{\w+\}/g, "unknown"));
        // Some dialects have no codes.
        if (answer.status === 403 && answer.text.includes("X-Stoker-Act-As reads lists")) continue;
        answered.push(method === "get" ? path : `${method} ${path}`);
      }
    const described = Object.entries(paths).filter(([, { get }]) =>
      get?.parameters?.some(({ name }) => name === "X-Stoker-Act-As"),
    );
    // Public without a credential, so it has no security.
    expect(described.map(([path]) => path).toSorted()).toEqual([...open, "/v1/metrics/live"].toSorted());
    expect(answered.filter((path) => !open.has(path))).toEqual([]);
    expect([...open].filter((path) => !answered.includes(path))).toEqual([]);
  });
});
