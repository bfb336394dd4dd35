// Model records, lists and what owners change: every endpoint with every status that it declares.
import { describe, expect, it } from "vitest";
import { noAbout } from "../../control-plane/catalog/model-meta.ts";
import type { AccountId } from "../../proto/ids.ts";
import { ada, adminKey, type FakePorts, jwtOfAda, servedModel } from "../fakes/ports.ts";
import { answerTo, check, type Row } from "./status-row.ts";

const own = servedModel({
  name: "ada/own",
  owner: ada.account,
  isPublic: false,
  gpus: { type: "H100-80GB", count: 2 },
  version: "v1",
});
const shown = servedModel({
  name: "bob/shown",
  owner: "u:bob" as AccountId,
  isPublic: false,
  about: { ...noAbout, isShown: true },
});
const hidden = servedModel({ name: "bob/hidden", owner: "u:bob" as AccountId, isPublic: false });
const featured = servedModel({
  about: {
    ...noAbout,
    isFeatured: true,
    tags: ["small"],
    coverImage: "https://example.com/a.png",
    deprecatedAtMs: 1_786_000_000_000,
    replacedBy: "org/next",
  },
});
const given = ({ models }: FakePorts) => {
  models.models = [featured, own, shown, hidden];
};
const speech = ({ models }: FakePorts) => {
  models.models = [servedModel({ task: "text-to-speech" })];
};

const meta = { description: "Fine", github_url: "https://example.com/code", tags: ["fast"], deprecated: 1_786_000_000 };

const rows: readonly Row[] = [
  {
    call: "GET /models/featured",
    status: 200,
    key: null,
    given,
    holds: [{ model_name: "org/model", tags: ["small"] }],
  },
  {
    call: "GET /models/list",
    status: 200,
    key: null,
    given,
    holds: [{ replaced_by: "org/next", deprecated: 1_786_000_000 }],
  },
  {
    call: "GET /models/private/list",
    status: 200,
    given,
    // 2 GPUs at 1.80 USD an hour.
    holds: [{ model_name: "ada/own", private: 1, pricing: { type: "uptime", cents_per_sec: 0.1 } }],
  },
  { call: "GET /models/private/list", status: 401, key: null },
  { call: "GET /models/deployment/list", status: 200, given, holds: [{ model_name: "ada/own" }] },
  { call: "GET /models/deployment/list", status: 401, key: "stk_other" },

  {
    call: "GET /models/org/model",
    status: 200,
    given,
    holds: {
      model_name: "org/model",
      type: "text-generation",
      version: "v1",
      public: true,
      owner: false,
      featured: true,
      deprecated: 1_786_000_000,
      replaced_by: "org/next",
      meta: { github_url: "https://example.com/code", cover_image: "https://example.com/a.png" },
      pricing: { type: "tokens", cents_per_output_token: 0.000004, rate_per_input_token_cached: 0.000001 },
      schemas: [{ key: "default", url: "https://stoker.example.com/models/org/model/schema/default" }, {}, {}, {}],
    },
  },
  { call: "GET /models/org%2Fmodel/", status: 200, given, holds: { model_name: "org/model" } },
  {
    call: "GET /models/ada/own",
    status: 200,
    given,
    holds: { owner: true, public: false, pricing: { type: "uptime" } },
  },
  { call: "GET /models/bob/shown", status: 200, given, holds: { owner: false, public: true } },
  { call: "GET /models/bob/hidden", status: 404, given, holds: { code: "model_not_found" } },
  { call: "GET /models/org/model", status: 401, key: null },
  { call: "GET /models/org/model", status: 403, given, key: jwtOfAda, holds: { code: "model_not_allowed" } },

  {
    call: "GET /models/org/model/versions",
    status: 200,
    given,
    holds: [{ model_name: "org/model", version: "v1", uploaded_at: "2026-08-06T07:06:40+00:00" }],
  },
  { call: "GET /models/org/model/versions", status: 401, key: null },
  { call: "GET /models/bob/hidden/versions", status: 404, given },

  {
    call: "GET /models/org/model/schema/compat-chat-completions",
    status: 200,
    given,
    holds: { variant: { key: "compat-chat-completions" }, schema_in: { required: ["model", "messages"] } },
  },
  {
    call: "GET /models/org/model/schema/elevenlabs-tts",
    status: 200,
    given: speech,
    holds: { variant: { key: "voice-compat-tts" }, schema_stream: {} },
  },
  { call: "GET /models/org/model/schema/openai-completions?version=", status: 200, given },
  { call: "GET /models/org/model/schema/default", status: 401, key: null },
  { call: "GET /models/org/model/schema/default", status: 403, given, key: jwtOfAda },
  { call: "GET /models/org/other/schema/default", status: 404, given },
  {
    call: "GET /models/org/model/schema/compat-tts",
    status: 404,
    given,
    holds: {
      code: "schema_variant_not_found",
      error:
        "This model has no variant compat-tts. Its variants: default, compat-completions, compat-chat-completions, ai-sdk.",
    },
  },
  {
    call: "GET /models/org/model/schema/unheard-of",
    status: 422,
    given,
    holds: { detail: [{ loc: ["path", "variantKey"], type: "enum" }] },
  },

  { call: "DELETE /models/ada/own?version=ALL", status: 200, given, holds: { model_name: "ada/own", version: "ALL" } },
  { call: "DELETE /models/ada/own?version=v1", status: 200, given },
  { call: "DELETE /models/ada/own?version=v2", status: 404, given, holds: { code: "model_version_not_found" } },
  { call: "DELETE /models/bob/hidden?version=ALL", status: 404, given, holds: { code: "model_not_found" } },
  { call: "DELETE /models/org/model?version=ALL", status: 401, given, holds: { code: "not_model_owner" } },
  { call: "DELETE /models/org/model?version=ALL", status: 200, given, key: adminKey },
  { call: "DELETE /models/ada/own?version=ALL", status: 403, given, key: jwtOfAda },
  {
    call: "DELETE /models/ada/own",
    status: 422,
    given,
    holds: { detail: [{ loc: ["query", "version"], type: "missing" }] },
  },

  { call: "POST /models/ada/own/meta", status: 200, body: meta, given, holds: { model_name: "ada/own" } },
  { call: "POST /models/org/model/meta", status: 200, body: { featured: true }, given, key: adminKey },
  { call: "POST /models/ada/own/meta", status: 403, body: { featured: true }, given, holds: { code: "admin_only" } },
  { call: "POST /models/org/model/meta", status: 401, body: meta, given, holds: { code: "not_model_owner" } },
  { call: "POST /models/ada/own/meta", status: 401, body: meta, key: null },
  { call: "POST /models/bob/hidden/meta", status: 404, body: meta, given },
  {
    call: "POST /models/ada/own/meta",
    status: 422,
    body: { github_url: "javascript:alert(1)" },
    given,
    holds: { detail: [{ loc: ["body", "github_url"], type: "string_pattern" }] },
  },

  { call: "POST /models/ada/own/publicity", status: 200, body: { public: true }, given, holds: { public: true } },
  {
    call: "POST /models/bob/shown/publicity",
    status: 401,
    body: { public: false },
    given,
    holds: { code: "not_model_owner" },
  },
  { call: "POST /models/bob/hidden/publicity", status: 404, body: { public: true }, given },
  { call: "POST /models/ada/own/publicity", status: 422, body: {}, given },
  { call: "POST /models/ada/own/publicity", status: 403, body: { public: true }, given, key: jwtOfAda },
];

/** Paths of every null in a value. */
function nullsIn(value: unknown, path = ""): readonly string[] {
  if (value === null) return [path];
  if (typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, one]) => nullsIn(one, `${path}/${key}`));
}

describe("the record of a model without optional facts", () => {
  it.each(["GET /models/ada/own", "GET /models/ada/own/schema/default", "GET /models/private/list"] as const)(
    "%s holds an empty value of the contract's type, never null",
    async (call) => {
      const { body } = await answerTo({ call, status: 200, given });
      // A parameter's default and the examples inside schemas are free-form.
      const nulls = nullsIn(JSON.parse(body)).filter((path) => !/default$|examples|schema|example/.test(path));
      expect(nulls).toEqual([]);
    },
  );

  it("holds numbers and texts where nothing is known", async () => {
    const { body } = await answerTo({ call: "GET /models/ada/own", status: 200, given });
    expect(JSON.parse(body)).toMatchObject({
      replaced_by: "",
      deprecated: 0,
      mmlu: 0,
      max_tokens: expect.any(Number),
      max_output_tokens: expect.any(Number),
    });
  });
});

describe("every endpoint of model records and its statuses", () => {
  it.each(rows.map((row) => [`${row.call} ${row.status}`, row] as const))("%s", (_name, row) => check(row));
});

it("has rows to check", () => {
  expect(rows.length).toBeGreaterThan(40);
});
