import { describe, it } from "vitest";
import { InsufficientFunds } from "../../control-plane/billing/hold.ts";
import { DatabaseUnavailable } from "../../control-plane/service-error.ts";
import { ada, apiKey, type FakePorts, servedModel } from "../fakes/ports.ts";
import { check, type Row } from "./status-row.ts";

const hello = { model: "org/model", max_tokens: 5, messages: [{ role: "user", content: "Hi" }] };
const holds = (type: string, error_code: string) => ({ type: "error", error: { type, details: { error_code } } });
const refuseHold = (hold: FakePorts["budgets"]["hold"]) => (ports: FakePorts) => {
  ports.budgets.hold = hold;
};
const suspended = (suspendReason: string) => (ports: FakePorts) => {
  ports.authenticator.callers.set(apiKey, { ...ada, suspendReason });
};

const rows: readonly Omit<Row, "call">[] = [
  { status: 400, body: "{", holds: holds("invalid_request_error", "json_invalid") },
  {
    status: 400,
    body: { ...hello, mcp_servers: [{ type: "url", url: "https://e.example", name: "e" }] },
    holds: holds("invalid_request_error", "unsupported_value"),
  },
  {
    status: 400,
    body: { ...hello, tools: [{ type: "web_search_20250305", name: "web_search" }] },
    holds: holds("invalid_request_error", "unsupported_value"),
  },
  { status: 401, key: null, body: hello, holds: holds("authentication_error", "invalid_api_key") },
  {
    status: 402,
    body: hello,
    given: refuseHold(() => {
      throw new InsufficientFunds();
    }),
    holds: holds("billing_error", "insufficient_quota"),
    headers: { "x-should-retry": "false" },
  },
  { status: 403, body: hello, given: suspended("admin"), holds: holds("permission_error", "account_suspended") },
  {
    status: 404,
    body: hello,
    given: ({ models }) => void Object.assign(models, { models: [servedModel({ isPublic: false })] }),
    holds: holds("not_found_error", "model_not_found"),
  },
  {
    status: 422,
    body: { ...hello, max_tokens: 0 },
    holds: {
      ...holds("invalid_request_error", "validation_error"),
      detail: [{ loc: ["body", "max_tokens"], type: "greater_than_equal" }],
    },
  },
  {
    status: 422,
    body: { ...hello, messages: [{ role: "user", content: [{ type: "video" }] }] },
    holds: holds("invalid_request_error", "validation_error"),
  },
  {
    status: 422,
    body: {
      ...hello,
      messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url: "https://e.example" } }] }],
    },
    holds: holds("invalid_request_error", "unsupported_value"),
  },
  {
    status: 503,
    body: hello,
    given: refuseHold(() => Promise.reject(new DatabaseUnavailable("unreachable"))),
    holds: holds("overloaded_error", "store_away"),
    headers: { "retry-after": "2" },
  },
  {
    status: 503,
    body: hello,
    holds: holds("overloaded_error", "model_not_ready"),
    headers: { "x-stoker-phase": "deployed" },
  },
];

describe.each(["/v1/messages", "/anthropic/v1/messages"])("POST %s", (path) => {
  it.each(rows.map((row, i) => [`${row.status} (${i})`, row] as const))("returns %s", (_name, row) =>
    check({ ...row, call: `POST ${path}` }),
  );

  it("returns 405 for another method, in the same format", () =>
    check({ call: `GET ${path}`, status: 405, holds: { type: "error", error: { type: "invalid_request_error" } } }));
});
