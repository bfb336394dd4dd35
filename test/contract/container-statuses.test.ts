import { describe, expect, it } from "vitest";
import * as containers from "../../control-plane/containers/errors.ts";
import * as deployments from "../../control-plane/deployments/errors.ts";
import * as terminals from "../../control-plane/terminals/errors.ts";
import { container } from "../fakes/container-ports.ts";
import { makeContainer } from "../fakes/container-rows.ts";
import { adminKey } from "../fakes/ports.ts";
import { terminalTicket } from "../fakes/terminal-ports.ts";
import { answerTo, check, type Row, refuse } from "./status-row.ts";
import { checkStatuses, createCustomer, installation, type StatusRow, suspended, type Values } from "./status-table.ts";

const { id } = container();
const request = {
  name: "my-container",
  gpu_config: "1xB200-180GB",
  container_image: "stoker-cont-ubuntu-torch:latest",
  cloud_init_user_data: "#!/bin/sh\n",
};
// A host that offers containers decides these; the installation of the contract tests has no hosts.
const create = refuse("containers", "create");
const noRetry = { "x-should-retry": "false" };

const rows: readonly Row[] = [
  { call: "POST /v1/containers", status: 200, body: request, holds: { container_id: id } },
  { call: "POST /v1/containers", status: 401, body: request, key: null },
  { call: "POST /v1/containers", status: 400, body: "{", holds: { code: "json_invalid" } },
  {
    call: "POST /v1/containers",
    status: 400,
    body: request,
    given: create(containers.firstStartRefused("must start with #!")),
    holds: { code: "invalid_user_data" },
  },
  { call: "POST /v1/containers", status: 402, body: request, given: create(deployments.noFunds()), headers: noRetry },
  { call: "POST /v1/containers", status: 404, body: request, given: create(deployments.accountEnded()) },
  {
    call: "POST /v1/containers",
    status: 409,
    body: request,
    given: create(containers.containerNameTaken("x")),
    headers: noRetry,
  },
  {
    call: "POST /v1/containers",
    status: 422,
    body: { ...request, cloud_init_user_data: "" },
    holds: { detail: [{ loc: ["body", "cloud_init_user_data"] }] },
  },
  {
    call: "POST /v1/containers",
    status: 422,
    body: { ...request, cloud_init_user_data: "x".repeat(32_001) },
    holds: { detail: [{ loc: ["body", "cloud_init_user_data"] }] },
  },
  {
    call: "POST /v1/containers",
    status: 422,
    body: { ...request, name: "x".repeat(65) },
    holds: { detail: [{ loc: ["body", "name"] }] },
  },
  {
    call: "POST /v1/containers",
    status: 429,
    body: request,
    given: create(containers.containerLimitReached(new Error("4 of your limit of 4 are taken"))),
    holds: { code: "gpu_limit_reached" },
    headers: { "retry-after": "60" },
  },

  { call: `GET /v1/containers/${id}/terminal`, status: 200, holds: { available: true, reason: null } },
  { call: `GET /v1/containers/${id}/terminal`, status: 401, key: null },
  { call: `GET /v1/containers/${id}/terminal`, status: 404, key: adminKey, holds: { code: "container_not_found" } },
  {
    call: `POST /v1/containers/${id}/terminal`,
    status: 200,
    holds: { path: "/v1/terminal", ticket: terminalTicket, valid_seconds: 30 },
    headers: { "cache-control": "no-store" },
  },
  { call: `POST /v1/containers/${id}/terminal`, status: 401, key: null },
  {
    call: `POST /v1/containers/${id}/terminal`,
    status: 403,
    given: refuse("terminals", "ticket")(terminals.terminalNotAllowed()),
    holds: { code: "terminal_not_allowed" },
  },
  { call: `POST /v1/containers/${id}/terminal`, status: 404, key: adminKey },
  {
    call: `POST /v1/containers/${id}/terminal`,
    status: 409,
    given: refuse("terminals", "ticket")(terminals.notRunning("container", "stopped")),
    holds: { code: "wrong_state" },
  },
  {
    call: `POST /v1/containers/${id}/terminal`,
    status: 423,
    given: refuse("terminals", "ticket")(deployments.accountSuspended("operator")),
    holds: { code: "account_suspended" },
  },

  { call: "GET /v1/containers", status: 200 },
  { call: "GET /v1/containers?state=inactive", status: 200 },
  { call: "GET /v1/containers?state=asleep", status: 422, holds: { detail: [{ loc: ["query", "state"] }] } },
  { call: "GET /v1/containers", status: 401, key: null },
  {
    call: "GET /v1/containers/params",
    status: 200,
    holds: { container_images: ["stoker-cont-ubuntu-torch:latest"], gpu_configs: ["1xB200-180GB"] },
  },
  { call: "GET /v1/containers/params", status: 401, key: null },
  {
    call: "GET /v1/containers/gpu_availability",
    status: 200,
    holds: { gpus: [{ gpu_config: "1xB200-180GB", usd_per_hour: 2.79, available: true, recommended: false }] },
  },
  { call: "GET /v1/containers/gpu_availability", status: 401, key: null },

  {
    call: `GET /v1/containers/${id}`,
    status: 200,
    holds: {
      id,
      name: "my-container",
      state: "running",
      start_ts: 1_786_000_000,
      state_ts: 1_786_000_090,
      stop_ts: null,
      ip: "203.0.113.7",
      ssh_port: 22_017,
      gpu_config: "1xB200-180GB",
      price_per_hour: 2.79,
      container_image: "stoker-cont-ubuntu-torch:latest",
      fail_reason: null,
    },
  },
  { call: `GET /v1/containers/${id}`, status: 401, key: null },
  { call: "GET /v1/containers/unknown", status: 404, holds: { code: "container_not_found" } },
  { call: `GET /v1/containers/${id}`, status: 404, key: adminKey },
  { call: `PATCH /v1/containers/${id}`, status: 200, body: { name: "other" }, holds: { id, name: "other" } },
  { call: `PATCH /v1/containers/${id}`, status: 401, body: { name: "other" }, key: null },
  { call: "PATCH /v1/containers/unknown", status: 404, body: { name: "other" } },
  { call: `PATCH /v1/containers/${id}`, status: 422, body: { name: "other", gpu_config: "2xB200-180GB" } },
  { call: `PATCH /v1/containers/${id}`, status: 422, body: {}, holds: { detail: [{ type: "missing" }] } },
  { call: `DELETE /v1/containers/${id}`, status: 200 },
  { call: `DELETE /v1/containers/${id}`, status: 401, key: null },
  {
    call: "DELETE /v1/containers/unknown",
    status: 404,
    holds: { error: expect.stringContaining("Container not found") },
  },
];

describe("every endpoint of containers and its statuses", () => {
  it.each(rows.map((row) => [`${row.call} ${row.status}`, row] as const))("%s", (_name, row) => check(row));
});

describe("a container's record", () => {
  const shown = async (change: Parameters<typeof container>[0]) => {
    const given: Row["given"] = ({ deps }) => {
      deps.containers.get = () => Promise.resolve(container(change));
    };
    return (await answerTo({ call: `GET /v1/containers/${id}`, status: 200, given })).json();
  };

  it("has all keys in every state, and no address before it runs", async () => {
    const keys = Object.keys(await shown({}));
    const places = { sshAddress: "203.0.113.7", sshPort: 22_017 };
    for (const status of ["initializing", "deploying", "stopping", "failed", "deleted"] as const) {
      const record = await shown({ status, ...places });
      expect(Object.keys(record)).toEqual(keys);
      expect(record).toMatchObject({ ip: null, ssh_port: null });
    }
  });

  it("is shutting down until its host has removed it", async () => {
    const deletedAtMs = 1_786_000_200_000;
    expect(await shown({ status: "deleted", deletedAtMs })).toMatchObject({ state: "shutting_down" });
    expect(await shown({ status: "deleted", deletedAtMs, isOnHost: false })).toMatchObject({
      state: "deleted",
      stop_ts: 1_786_000_200,
    });
  });

  it("has failed with the reason when it was stopped for lack of funds", async () => {
    const failReason = "insufficient_funds: add funds";
    expect(await shown({ status: "stopped", failReason })).toMatchObject({
      state: "failed",
      stop_ts: 1_786_000_090,
      fail_reason: failReason,
    });
  });
});

async function newCustomer(): Promise<Values> {
  return { ...(await createCustomer()) };
}

const productRows: readonly StatusRow[] = [
  {
    call: "POST /v1/containers",
    status: 422,
    body: { ...request, gpu_config: "no" },
    holds: { detail: [{ loc: ["body", "gpu_config"] }], error: expect.stringContaining("gpu_config: ") },
  },
  {
    call: "POST /v1/containers",
    status: 423,
    given: () => suspended(createCustomer()),
    body: request,
    holds: { code: "account_suspended" },
  },
  {
    call: "PATCH /v1/containers/{container}",
    status: 409,
    given: async () => {
      const customer = await createCustomer();
      await makeContainer(installation.databaseUrl, customer.uid, "taken");
      return { ...customer, container: await makeContainer(installation.databaseUrl, customer.uid, "mine") };
    },
    body: { name: "taken" },
    holds: { code: "name_taken" },
  },
];

describe("refused calls of containers", () => {
  checkStatuses(newCustomer, productRows);
});
