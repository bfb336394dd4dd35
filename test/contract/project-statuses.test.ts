import { describe } from "vitest";
import { checkStatuses, createCustomer, succeed, type Values } from "./status-table.ts";

/** A customer with a project that has no keys, and one that has. */
async function owner(): Promise<Values> {
  const customer = await createCustomer();
  const project = (name: string) =>
    succeed({ call: "POST /v1/projects", key: customer.key, body: { name, monthly_limit: 5 } });
  const [empty, used] = [await project("empty"), await project("used")];
  await succeed({ call: "POST /v1/api-tokens", key: customer.key, body: { name: "in it", project_id: used["id"] } });
  return { ...customer, project: empty["id"], used: used["id"] };
}

describe("projects", () => {
  const own = "/v1/projects/{project}";
  checkStatuses(owner, [
    { call: "GET /v1/projects", status: 200, holds: { projects: [{ name: "empty", monthly_limit: 5, spent: 0 }, {}] } },
    { call: "GET /v1/projects", status: 401, key: null },
    { call: `GET ${own}`, status: 200, holds: { id: "{project}", key_count: 0 } },
    { call: "GET /v1/projects/{used}", status: 200, holds: { key_count: 1 } },
    { call: "GET /v1/projects/unknown", status: 404, holds: { code: "project_not_found" } },
    { call: "POST /v1/projects", status: 200, body: { name: "search" }, holds: { monthly_limit: null } },
    { call: "POST /v1/projects", status: 409, body: { name: "SEARCH" }, holds: { code: "name_taken" } },
    { call: "POST /v1/projects", status: 422, body: { name: " " } },
    { call: "POST /v1/projects", status: 422, body: { name: "negative", monthly_limit: -1 } },
    { call: `PATCH ${own}`, status: 200, body: { monthly_limit: 0 }, holds: { name: "empty", monthly_limit: 0 } },
    { call: `PATCH ${own}`, status: 200, body: { name: "renamed" }, holds: { name: "renamed", monthly_limit: 0 } },
    { call: `PATCH ${own}`, status: 409, body: { name: "used" }, holds: { code: "name_taken" } },
    { call: `PATCH ${own}`, status: 422, body: {}, holds: { code: "empty_change" } },
    { call: "PATCH /v1/projects/unknown", status: 404, body: { monthly_limit: null } },
    { call: "POST /v1/api-tokens", status: 404, body: { name: "lost", project_id: "unknown" } },
    { call: "DELETE /v1/projects/{used}", status: 409, holds: { code: "project_has_keys" } },
    { call: `DELETE ${own}`, status: 200 },
    { call: `DELETE ${own}`, status: 404, holds: { code: "project_not_found" } },
  ]);
});
