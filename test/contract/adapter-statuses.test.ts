import { describe, it } from "vitest";
import * as deployments from "../../control-plane/deployments/errors.ts";
import { DatabaseUnavailable } from "../../control-plane/service-error.ts";
import { adapter } from "../fakes/adapter-ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const text = { hf_model_name: "ada/ink-lora", lora_model_name: "ada/ink", base_model_name: "org/model" };
const described = {
  base_model: "org/model",
  lora_name: "ada/ink",
  source: { type: "huggingface", repo: "ada/ink-lora" },
  description: "like ink",
};
const away = new DatabaseUnavailable("unreachable");

/** Both ways of making one refuse alike. */
const creating = [
  { call: "POST /lora-model", body: text, name: "lora_model_name" },
  { call: "POST /v1/lora/create", body: described, name: "lora_name" },
] as const;
const creations: readonly Row[] = creating.flatMap(({ call, body, name }): Row[] => {
  const given = (error: Error) => refuse("adapters", "create")(error);
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
    { call, status: 404, body, given: given(deployments.accountEnded()) },
    { call, status: 409, body, given: given(deployments.deploymentNameTaken("ada/ink")) },
    {
      call,
      status: 422,
      body: { ...body, [name]: 7 },
      holds: { detail: [{ loc: ["body", name], type: "string_type" }] },
    },
    {
      call,
      status: 422,
      body,
      given: given(deployments.adapterRefused(name, "no")),
      holds: { detail: [{ loc: ["body", name], msg: `${name}: no` }] },
    },
    { call, status: 423, body, given: given(deployments.accountSuspended("admin")) },
    { call, status: 503, body, given: given(away) },
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
