import { describe, expect, it } from "vitest";
import { InsufficientFunds, type UsedUp } from "../../control-plane/billing/hold.ts";
import {
  conversationTooLong,
  responseQueueFull,
  responsesFull,
  responseTooLarge,
} from "../../control-plane/responses/errors.ts";
import { DatabaseUnavailable } from "../../control-plane/service-error.ts";
import { chat, text } from "../fakes/edge.ts";
import { ada, apiKey, type FakePorts, servedModel } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const suspended = (suspendReason: string) => (ports: FakePorts) => {
  ports.authenticator.callers.set(apiKey, { ...ada, suspendReason });
};

const refuseHold = (hold: FakePorts["budgets"]["hold"]) => (ports: FakePorts) => {
  ports.budgets.hold = hold;
};

/** What each limit says of itself, and of no other. */
const usedUp: readonly (readonly [UsedUp, RegExp])[] = [
  ["account", /account's funds .* Add funds/],
  ["account_month", /^The account's monthly limit .*POST \/payment\/config/],
  ["key_month", /^This API key's monthly limit .*POST \/payment\/key-limits/],
  ["project_month", /^The project's monthly limit .*PATCH \/v1\/projects/],
  ["jwt", /^This scoped token's spending limit .* another one/],
  ["instances", /^The model's instances are stopped.* Add funds/],
];

const rows: readonly Row[] = [
  {
    call: "POST ",
    status: 401,
    key: null,
    holds: { error: { type: "authentication_error", code: "invalid_api_key" } },
  },
  {
    call: "POST ",
    status: 402,
    given: refuseHold(() => {
      throw new InsufficientFunds();
    }),
    holds: { error: { code: "insufficient_quota" } },
    headers: { "x-should-retry": "false" },
  },
  ...usedUp.map(
    ([kind, sentence]): Row => ({
      call: "POST ",
      status: 402,
      given: refuseHold(() => Promise.reject(new InsufficientFunds(kind))),
      holds: { error: { code: "insufficient_quota", message: expect.stringMatching(sentence) } },
      headers: { "x-should-retry": "false" },
    }),
  ),
  {
    call: "POST ",
    status: 402,
    given: suspended("overdue-invoices"),
    holds: { error: { code: "insufficient_quota" } },
  },
  { call: "POST ", status: 403, given: suspended("admin"), holds: { error: { code: "account_suspended" } } },
  {
    call: "POST ",
    status: 404,
    given: ({ models }) => void Object.assign(models, { models: [] }),
    holds: { error: { code: "model_not_found", param: "model" } },
  },
  {
    call: "POST ",
    status: 404,
    given: ({ models }) => void Object.assign(models, { models: [servedModel({ isPublic: false })] }),
  },
  {
    call: "POST ",
    status: 503,
    given: refuseHold(() => Promise.reject(new DatabaseUnavailable("unreachable"))),
    headers: { "retry-after": "2" },
    holds: { error: { type: "server_error" } },
  },
  {
    call: "POST ",
    status: 503,
    holds: { error: { code: "model_not_ready" } },
    headers: { "x-stoker-phase": "deployed" },
  },
];

describe.each([
  ["/v1/completions", text()],
  ["/v1/compat/completions", text()],
  ["/v1/compat/chat/completions", chat()],
  ["/v1/openai/chat/completions", chat()],
  ["/v1/chat/completions", chat({ stream: true })],
  ["/v1/chat/completions/", chat()],
  ["/v1/responses", { model: "org/model", input: "x" }],
  ["/v1/openai/responses", { model: "org/model", input: "x", stream: true }],
  ["/v1/compat/embeddings", { model: "org/model", input: "x" }],
  ["/v1/rerank", { model: "org/model", query: "q", documents: ["x"] }],
  ["/v1/score", { model: "org/model", text_1: "q", text_2: "x" }],
  ["/v1/moderations", { model: "org/model", input: "x" }],
  ["/v1/openai/audio/speech", { model: "org/model", input: "x" }],
  ["/v1/images/generations", { model: "org/model", prompt: "x" }],
])("POST %s", (path, body) => {
  it.each(rows.map((row, i) => [`${row.status} (${i})`, row] as const))("%s", (_name, row) =>
    check({
      ...row,
      call: `POST ${path}`,
      body,
      given: (ports) => {
        if (path === "/v1/moderations") ports.models.models = [servedModel({ task: "text-classification" })];
        row.given?.(ports);
      },
    }),
  );
});

const response = (change: object = {}) => ({ model: "org/model", input: "Hi", ...change });
const item = (change: object) => response({ input: [change] });
const responses: readonly (readonly [number, string | undefined, object])[] = [
  [400, "unsupported_tool", response({ tools: [{ type: "web_search" }] })],
  [400, "unsupported_tool", response({ tools: [{ type: "function", name: "f" }], tool_choice: { type: "mcp" } })],
  [400, "invalid_tool_choice", response({ tool_choice: { type: "function", name: "f" } })],
  [400, "unsupported_item", item({ type: "web_search_call" })],
  [400, "unsupported_content", item({ role: "user", content: [{ type: "input_file", file_id: "file_1" }] })],
  [400, "invalid_encrypted_content", item({ type: "reasoning", summary: [], encrypted_content: "AAAA" })],
  [400, "unsupported_parameter", response({ conversation: "conv_1" })],
  [400, "unsupported_parameter", response({ prompt: { id: "p" } })],
  [422, "validation_error", { model: "org/model" }],
  [422, "validation_error", { input: "Hi" }],
  [422, "validation_error", item({ type: "function_call", name: "f", arguments: "{}" })],
  [
    422,
    "validation_error",
    item({ role: "user", content: [{ type: "input_image", image_url: "https://a.example/b" }] }),
  ],
  [422, "validation_error", response({ include: ["everything"] })],
  [422, "validation_error", response({ max_output_tokens: 0 })],
  [422, "validation_error", response({ metadata: { a: 1 } })],
];

const full = (code: string, verb: "checkSpace" | "queue" | "conversation", error: Error): Row => ({
  call: "POST /v1/responses",
  status: 0,
  given: refuse("responses", verb)(error),
  holds: { error: { code } },
});
const stored: readonly Row[] = [
  {
    ...full("stored_responses_full", "checkSpace", responsesFull(2 ** 30)),
    status: 409,
    body: response({ store: true }),
  },
  {
    ...full("response_queue_full", "queue", responseQueueFull(1_000)),
    status: 429,
    body: response({ store: true, background: true }),
    headers: { "retry-after": "30" },
  },
  {
    ...full("response_too_large", "queue", responseTooLarge(2 ** 24)),
    status: 413,
    body: response({ store: true, background: true }),
  },
  {
    ...full("conversation_too_long", "conversation", conversationTooLong(1_000, 2 ** 26)),
    status: 400,
    body: response({ previous_response_id: "resp_1" }),
  },
  {
    call: "POST /v1/responses",
    status: 400,
    body: response({ previous_response_id: "resp_1" }),
    holds: { error: { code: "previous_response_not_found", param: "previous_response_id" } },
  },
  {
    call: "POST /v1/responses",
    status: 400,
    body: item({ type: "item_reference", id: "msg_x_0" }),
    holds: { error: { code: "item_reference_not_found", param: "input.0.id" } },
  },
  ...[{ background: true }, { background: true, store: true, stream: true }].map(
    (change): Row => ({
      call: "POST /v1/responses",
      status: 400,
      body: response(change),
      holds: { error: { code: "unsupported_parameter" } },
    }),
  ),
  ...[{ store: true }, { previous_response_id: "resp_1" }].map(
    (change): Row => ({
      call: "POST /v1/responses",
      status: 403,
      given: ({ authenticator }) => void authenticator.callers.set(apiKey, { ...ada, via: "jwt" }),
      body: response(change),
      holds: { error: { code: "scope_not_allowed" } },
    }),
  ),
  ...(["GET", "DELETE"] as const).map(
    (method): Row => ({
      call: `${method} /v1/responses/resp_1`,
      status: 404,
      holds: { error: { code: "response_not_found" } },
    }),
  ),
  { call: "POST /v1/responses/resp_1/cancel", status: 404, holds: { error: { code: "response_not_found" } } },
  { call: "GET /v1/openai/responses/resp_1/input_items", status: 404 },
  { call: "GET /v1/responses/resp_1/input_items?limit=0", status: 422 },
  { call: "GET /v1/responses/resp_1/input_items?order=up", status: 422 },
  { call: "GET /v1/responses/resp_1?stream=true", status: 400, holds: { error: { code: "unsupported_parameter" } } },
  { call: "GET /v1/responses/resp_1", status: 401, key: null },
];

describe("stored responses", () => {
  it.each(stored.map((row, n) => [`${row.status} for ${row.call} (${n + 1})`, row] as const))("returns %s", (_, row) =>
    check(row),
  );
});

describe("POST /v1/responses", () => {
  it.each(responses)("returns %s %s", (status, code, body) =>
    check({ call: "POST /v1/responses", status, body, holds: { error: { code } } }),
  );
});
