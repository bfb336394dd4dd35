import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import {
  checkStatuses,
  createCustomer,
  operate,
  operatorKey,
  type StatusRow,
  send,
  type Values,
} from "./status-table.ts";

const external = "/v1/admin/external" as const;
const one = `${external}/{server}` as const;
const terms = { costs: { input: 0.5, output: 1.5, request: 0.001 }, monthly_limit: 500, daily_limit: null };
const body = { name: "provider/{name}", url: "http://127.0.0.1:9" };

async function arrange(): Promise<Values> {
  const { key } = await createCustomer();
  const name = randomBytes(4).toString("hex");
  const { deploy_id: server } = await operate(`POST ${external}`, { ...body, name: `provider/${name}` });
  return { key, name, server };
}

const answer = {
  deploy_id: "{server}",
  format: "openai",
  costs: { input: 0.5, cached_input: 0.5, output: 1.5, request: 0.001 },
  month: { limit: 500, spent: 0, left: 500 },
  day: { limit: null, spent: 0, left: null },
};

const rows: readonly StatusRow[] = [
  { call: `GET ${external}`, key: operatorKey, status: 200 },
  { call: `GET ${external}`, status: 403, holds: { code: "admin_only" } },
  { call: `GET ${external}`, key: null, status: 401 },
  { call: `PUT ${one}`, key: operatorKey, body: terms, status: 200, holds: answer },
  { call: `PUT ${one}`, key: operatorKey, body: {}, status: 200, holds: { month: { limit: null } } },
  { call: `PUT ${one}`, body: terms, status: 403 },
  { call: `PUT ${one}`, key: null, body: terms, status: 401 },
  { call: `PUT ${one}`, key: operatorKey, body: "{", status: 400 },
  {
    call: `PUT ${external}/none`,
    key: operatorKey,
    body: terms,
    status: 404,
    holds: { code: "external_not_found" },
  },
  // Without a price nothing would ever reach the limit; a misspelt field would remove it.
  { call: `PUT ${one}`, key: operatorKey, body: { monthly_limit: 5 }, status: 422 },
  { call: `PUT ${one}`, key: operatorKey, body: { ...terms, month_limit: 5 }, status: 422 },
  { call: `PUT ${one}`, key: operatorKey, body: { costs: { input: -1 } }, status: 422 },
  {
    call: `POST ${external}`,
    key: operatorKey,
    body: { ...body, name: "provider/new-{name}", ...terms },
    status: 200,
    holds: { model_name: "provider/new-{name}" },
  },
  {
    call: `POST ${external}`,
    key: operatorKey,
    body: { ...body, name: "provider/claude-{name}", format: "anthropic" },
    status: 200,
    holds: { model_name: "provider/claude-{name}" },
  },
  // The same server, in another format.
  { call: `POST ${external}`, key: operatorKey, body: { ...body, name: "provider/claude-{name}" }, status: 409 },
  { call: `POST ${external}`, key: operatorKey, body: { ...body, format: "grpc" }, status: 422 },
  {
    call: `POST ${external}`,
    key: operatorKey,
    body: { ...body, name: "provider/voice-{name}", format: "anthropic", task: "text-to-speech" },
    status: 422,
    holds: { code: "invalid_deployment" },
  },
];

describe("external servers", () => {
  it("are not created with a limit that no price could reach", async () => {
    const name = `provider/${randomBytes(4).toString("hex")}`;
    const create = { call: `POST ${external}`, key: operatorKey, body: { ...body, name, monthly_limit: 5 } } as const;
    expect(await send(create, {})).toMatchObject({ status: 422, json: { code: "costs_missing" } });
    const { servers } = (await operate(`GET ${external}`)) as { servers: { model_name: string }[] };
    expect(servers.map(({ model_name }) => model_name)).not.toContain(name);
  });

  checkStatuses(arrange, rows);
});
