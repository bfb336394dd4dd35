import { describe, expect, it } from "vitest";
import { accountEnded } from "../../control-plane/deployments/errors.ts";
import { adapter } from "../fakes/adapter-ports.ts";
import { check, type Row, refuse } from "./status-row.ts";
import { checkStatuses, createCustomer, type StatusRow, succeed, suspended, type Values } from "./status-table.ts";

const text = { hf_model_name: "ada/ink-lora", lora_model_name: "ada/ink", base_model_name: "org/model" };
const described = {
  base_model: "org/model",
  lora_name: "ada/ink",
  source: { type: "huggingface", repo: "ada/ink-lora" },
  description: "like ink",
};

/** Both ways to create one refuse alike. 404: the account is deleted during the request. */
const creating = [
  { call: "POST /lora-model", body: text, name: "lora_model_name" },
  { call: "POST /v1/lora/create", body: described, name: "lora_name" },
] as const;
const creations: readonly Row[] = creating.flatMap(({ call, body, name }): Row[] => {
  return [
    {
      call,
      status: 200,
      body,
      holds: {
        type: "lora",
        model_name: "ada/ink",
        status: "initializing",
        config: { weights: { token: "********" } },
      },
    },
    { call, status: 400, body: "{", holds: { code: "json_invalid" } },
    { call, status: 401, body, key: null },
    { call, status: 404, body, given: refuse("adapters", "create")(accountEnded()) },
    {
      call,
      status: 422,
      body: { ...body, [name]: 7 },
      holds: { detail: [{ loc: ["body", name], type: "string_type" }] },
    },
  ];
});

const one = [
  ["GET /v1/lora/ada%2Fink", "get", undefined, { lora_name: "ada/ink", source: { repo: "ada/ink-lora" } }],
  ["GET /v1/lora/ada%2Fink/status", "get", undefined, { deploy_id: adapter().id, created_at: 1_786_000_000 }],
  ["PATCH /v1/lora/ada%2Fink", "change", { private: false }, { private: false }],
  ["DELETE /v1/lora/ada%2Fink", "remove", undefined, { status: "deleted", type: "lora" }],
  ["DELETE /lora-model/ada%2Fink", "remove", undefined, { status: "deleted", type: "lora" }],
] as const;
const singles: readonly Row[] = one.flatMap(([call, _verb, body, holds]): Row[] => {
  const more = body === undefined ? {} : { body };
  return [
    { call, status: 200, ...more, holds },
    // Its name as it is.
    { call: call.replace("%2F", "/") as Row["call"], status: 200, ...more, holds },
    { call, status: 401, ...more, key: null },
    { call: call.replace("%2Fink", "%2Fother") as Row["call"], status: 404, ...more },
  ];
});

const lists: readonly Row[] = [
  { call: "GET /v1/user/loras", status: 200, holds: [{ lora_name: "ada/ink" }] },
  { call: "GET /v1/user/loras", status: 401, key: null },
  { call: "GET /v1/model/org%2Fmodel/loras", status: 200, holds: [{ base_model: "org/model" }] },
  { call: "GET /v1/model/org/model/loras", status: 200, holds: [{ base_model: "org/model" }] },
  { call: "GET /v1/model/org%2Fother/loras", status: 200, holds: [] },
  { call: "GET /v1/model/org%2Fmodel/loras", status: 401, key: null },
  { call: "GET /models/lora/list", status: 200, key: null, holds: [{ model_name: "org/model" }] },
];

const rest: readonly Row[] = [
  {
    call: "POST /v1/lora/create",
    status: 422,
    body: { ...described, source: { type: "civitai", url: "https://example.com/x" } },
    holds: { detail: [{ loc: ["body", "source"] }] },
  },
  {
    call: "POST /v1/lora/create",
    status: 200,
    body: { ...described, source: { type: "civitai", civit_url: "https://example.com/x" } },
    holds: { config: { weights: { repo: "https://example.com/x" } } },
  },
  {
    call: "PATCH /v1/lora/ada%2Fink",
    status: 422,
    body: { private: "no" },
    holds: { detail: [{ loc: ["body", "private"] }] },
  },
  { call: "PATCH /v1/lora/ada%2Fink", status: 400, body: "{" },
  // Its id is one of deployments', where clients look for how far it is.
  { call: `GET /deploy/${adapter().id}`, status: 200, holds: { type: "lora", model_name: "ada/ink" } },
  { call: `DELETE /deploy/${adapter().id}`, status: 200, holds: { deploy_id: adapter().id } },
  { call: `POST /deploy/${adapter().id}/stop`, status: 404 },
];

describe("LoRA adapters", () => {
  it.each([...creations, ...singles, ...lists, ...rest])("$call answers $status", check);
});

/** A customer with a deployment of its own, which needs no host to be a base model. */
async function withModel(): Promise<Values> {
  const customer = await createCustomer();
  const base = `${customer.name}/base`;
  const body = { model_name: base, gpu: "other", hf: { repo: "acme/private" } };
  await succeed({ call: "POST /deploy/llm", body }, { ...customer });
  return { uid: customer.uid, key: customer.key, base, lora: `${customer.name}/ink` };
}

const ownText = { hf_model_name: "acme/ink-lora", lora_model_name: "{lora}", base_model_name: "{base}" };
const ownDescribed = {
  base_model: "{base}",
  lora_name: "{lora}",
  source: { type: "huggingface", repo: "acme/ink-lora" },
};

const productRows = (
  [
    { call: "POST /lora-model", body: ownText, base: "base_model_name" },
    { call: "POST /v1/lora/create", body: ownDescribed, base: "base_model" },
  ] as const
).flatMap(({ call, body, base }): StatusRow[] => [
  {
    call,
    status: 409,
    given: async () => {
      const values = await withModel();
      await succeed({ call, body }, values);
      return values;
    },
    body,
    headers: { "x-should-retry": "false" },
  },
  {
    call,
    status: 422,
    body: { ...body, [base]: "acme/unknown" },
    holds: { detail: [{ loc: ["body", base], msg: expect.stringContaining(`${base}: `) }] },
  },
  {
    call,
    status: 423,
    given: () => suspended(withModel()),
    body,
    holds: { code: "account_suspended" },
  },
]);

describe("refused creations of LoRA adapters", () => {
  checkStatuses(withModel, productRows);
});
