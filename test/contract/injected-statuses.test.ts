// Statuses that no request to an installation reaches within a test's time, or without a race. A fake of the feature throws
// the error; each group says why. All other statuses: status-table.ts.
import { describe, it } from "vitest";
import { cliLoginTimedOut } from "../../control-plane/accounts/cli-login.ts";
import { accountGone, accountInUse } from "../../control-plane/accounts/errors.ts";
import { reportsBusy } from "../../control-plane/billing/report-slots.ts";
import { logsUnavailable } from "../../control-plane/deployments/errors.ts";
import { reportTooLong } from "../../control-plane/service-error.ts";
import { fakeFactors } from "../fakes/factor-ports.ts";
import { adasSession, adminKey, deployment } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const { id } = deployment();
const inSession = {
  key: null,
  send: { cookie: `session=${adasSession.cookie}`, "x-csrf-token": adasSession.csrfToken },
} as const;
const busy = { status: 429, headers: { "retry-after": "3" } } as const;

const groups: Readonly<Record<string, readonly Row[]>> = {
  "a control plane is ready until slices of budgets end, 30 s after the database is gone": [
    {
      call: "GET /readyz",
      status: 503,
      key: null,
      given: ({ deps }) => Object.assign(deps, { readiness: () => ({ isReady: false, reasons: ["no database"] }) }),
      holds: { reasons: ["no database"] },
      headers: { "retry-after": "1" },
    },
  ],
  "nobody confirms the login of a command line for 290 s": [
    {
      call: "GET /github/cli/login?login_id=abcd1234ABCD1234abcd1234ABCD1234",
      status: 408,
      key: null,
      given: refuse("cliLogins", "wait")(cliLoginTimedOut()),
    },
  ],
  "the account is deleted between two statements of the same request": [
    {
      ...inSession,
      call: "POST /v1/me/factors",
      status: 404,
      body: { kind: "totp" },
      given: refuse("factors", "start")(accountGone()),
    },
    {
      ...inSession,
      call: "PUT /v1/me/factors",
      status: 404,
      body: { ticket: "ticket-of-ada", code: "123456", name: "telephone" },
      given: refuse("factors", "finish")(accountGone()),
    },
  ],
  "a deployment is created while its account is being deleted": [
    {
      call: "DELETE /v1/me",
      status: 409,
      given: ({ deps }) =>
        void Object.assign(deps, { deleteAccount: () => Promise.reject(accountInUse()), factors: fakeFactors([]) }),
      holds: { code: "account_in_use" },
    },
  ],
  "other reports run for seconds, which takes months of requests": [
    { call: "GET /v1/usage/days", ...busy, given: refuse("usageDays", "read")(reportsBusy()) },
    { call: "GET /v1/usage/users", ...busy, given: refuse("endUsers", "list")(reportsBusy()) },
    { call: "GET /v1/requests", ...busy, given: refuse("requestLog", "list")(reportsBusy()) },
    {
      call: "GET /v1/admin/requests?account=u:1",
      key: adminKey,
      ...busy,
      given: refuse("requestLog", "list")(reportsBusy()),
    },
    { call: `GET /v1/deployments/${id}/series`, ...busy, given: refuse("deployments", "series")(reportsBusy()) },
    { call: "GET /deploy/stats", ...busy, given: refuse("deployments", "requestCounts")(reportsBusy()) },
    { call: `GET /deploy/${id}/stats`, ...busy, given: refuse("deployments", "use")(reportsBusy()) },
    { call: `GET /deploy/${id}/stats2`, ...busy, given: refuse("deployments", "use")(reportsBusy()) },
    {
      call: "GET /v1/requests?failed=true",
      status: 422,
      given: refuse("requestLog", "list")(reportTooLong("Looking through these requests", undefined)),
      holds: { code: "report_too_long", detail: [{ loc: ["query", "from"] }] },
    },
  ],
  "a host stops answering while an instance runs on it": [
    {
      call: `GET /v1/logs/query?deploy_id=${id}`,
      status: 503,
      given: refuse("deployments", "logs")(logsUnavailable("x")),
    },
    {
      call: `GET /v1/deployment_logs/query?deploy_id=${id}`,
      status: 503,
      given: refuse("deployments", "instanceLogs")(logsUnavailable("x")),
    },
  ],
};

describe.each(Object.entries(groups))("when %s", (_, rows) => {
  it.each(rows)("returns $status for $call", check);
});
