// LoRA adapters. Names contain a slash: each path accepts it unencoded, and is described with it encoded.
import { type Static, Type } from "typebox";
import type { AdapterOrigin } from "../../deployments/adapter.ts";
import { adapterRefused } from "../../deployments/errors.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { ModelSummaries } from "../models/models-schemas.ts";
import { renderModelSummaries } from "../models/render-models.ts";
import { Lora, LoraChange, LoraCreateRequest, LoraModelRequest, LoraStatus, Loras } from "./adapters-schemas.ts";
import { DeploymentRecord } from "./deployment-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";
import { renderLora, renderLoraDeployment, renderLoraStatus } from "./render-adapter.ts";

const creating = { idempotent: true, answer: DeploymentRecord, refusals: [400, 402, 404, 409, 423] };
const one = { refusals: [404] };

const named = (name: string) =>
  [
    { at: `:${name}`, params: Type.Object({ [name]: Type.String() }), isHidden: false },
    { at: ":owner/:name", params: Type.Object({ owner: Type.String(), name: Type.String() }), isHidden: true },
  ] as const;
const nameIn = (params: unknown) => Object.values(params as Record<string, string>).join("/");

/** Throws adapterRefused. */
function originOf(source: Static<typeof LoraCreateRequest>["source"]): AdapterOrigin {
  const { type, repo, url, civit_url: civitUrl } = source;
  if (type === "huggingface" && repo)
    return { kind: type, repo, revision: source.revision || undefined, file: source.file || undefined };
  if (type === "civitai" && civitUrl) return { kind: type, url: civitUrl };
  if (type === "url" && url) return { kind: type, url };
  throw adapterRefused(
    "source",
    "give type huggingface and `repo`; or, for an image model's adapter in one .safetensors file, civitai and `civit_url`, or url and `url`.",
  );
}

export function addAdapterRoutes(endpoints: Endpoints, { adapters, spine }: DeploymentFeatures): void {
  const own = endpoints.with({ tag: "lora", access: "key" });
  const open = endpoints.with({ tag: "models", access: "public" });

  own.post("/lora-model", {
    ...creating,
    summary: "Deploy a LoRA adapter of the hub on a served model",
    bodyLimitBytes: mediumBodyBytes,
    body: LoraModelRequest,
    handler: async ({ caller, body }) =>
      renderLoraDeployment(
        await adapters.create(caller, {
          name: body.lora_model_name,
          origin: { kind: "huggingface", repo: body.hf_model_name, revision: undefined, file: undefined },
          token: body.hf_token || undefined,
          baseModel: body.base_model_name || undefined,
          isPrivate: true,
          description: "",
          fields: { name: "lora_model_name", repo: "hf_model_name", base: "base_model_name" },
        }),
      ),
  });

  own.post("/v1/lora/create", {
    ...creating,
    summary: "Deploy a LoRA adapter of the hub or a URL, with a description",
    bodyLimitBytes: mediumBodyBytes,
    body: LoraCreateRequest,
    async handler({ caller, body }) {
      const { source } = body;
      return renderLoraDeployment(
        await adapters.create(caller, {
          name: body.lora_name,
          origin: originOf(source),
          token: source.token || undefined,
          baseModel: body.base_model,
          isPrivate: body.private ?? true,
          description: body.description ?? "",
          fields: { name: "lora_name", repo: "source", base: "base_model" },
        }),
      );
    },
  });

  for (const { at, params, isHidden } of named("lora_name")) {
    own.get(`/v1/lora/${at}/status`, {
      ...one,
      summary: "Get the status of an adapter",
      isHidden,
      params,
      answer: LoraStatus,
      handler: async ({ caller, params }) => renderLoraStatus(await adapters.get(caller, nameIn(params))),
    });
    own.get(`/v1/lora/${at}`, {
      ...one,
      summary: "Get an adapter",
      isHidden,
      params,
      answer: Lora,
      handler: async ({ caller, params }) => renderLora(await adapters.get(caller, nameIn(params))),
    });
    own.patch(`/v1/lora/${at}`, {
      ...one,
      summary: "Change the description or visibility of an adapter",
      isHidden,
      params,
      bodyLimitBytes: mediumBodyBytes,
      body: LoraChange,
      refusals: [400, ...one.refusals],
      answer: Lora,
      handler: async ({ caller, params, body }) =>
        renderLora(
          await adapters.change(caller, nameIn(params), {
            ...(body.private == null ? {} : { isPrivate: body.private }),
            ...(body.description == null ? {} : { description: body.description }),
          }),
        ),
    });
  }

  for (const prefix of ["/v1/lora", "/lora-model"])
    for (const { at, params, isHidden } of named(prefix === "/v1/lora" ? "lora_name" : "lora_model_name"))
      own.delete(`${prefix}/${at}`, {
        ...one,
        summary: "Delete an adapter; its name is free at once",
        isHidden,
        params,
        answer: DeploymentRecord,
        handler: async ({ caller, params }) => renderLoraDeployment(await adapters.remove(caller, nameIn(params))),
      });

  for (const { at, params, isHidden } of named("model_name"))
    own.get(`/v1/model/${at}/loras`, {
      summary: "List your adapters of one base model",
      isHidden,
      params,
      answer: Loras,
      handler: async ({ caller, params }) => (await adapters.list(caller.account, nameIn(params))).map(renderLora),
    });

  own.get("/v1/user/loras", {
    summary: "List your adapters",
    answer: Loras,
    handler: async ({ caller }) => (await adapters.list(caller.account, undefined)).map(renderLora),
  });

  open.get("/models/lora/list", {
    summary: "List public models that accept LoRA adapters",
    isFromMemory: true,
    answer: ModelSummaries,
    handler: ({ caller }) =>
      renderModelSummaries(
        spine.models.list(caller.account).filter((one) => one.takesAdapters),
        new Map(),
      ),
  });
}
