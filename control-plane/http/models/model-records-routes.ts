// Lists and records of models, the schemas they are asked by, and what their owners change of them.
import type { FastifyReply } from "fastify";
import { Type } from "typebox";
import type { Caller } from "../../accounts/caller.ts";
import { notAdmin } from "../../accounts/errors.ts";
import type { MetaChange } from "../../catalog/model-meta.ts";
import type { Editor } from "../../catalog/model-records.ts";
import type { ServedModel } from "../../catalog/served-model.ts";
import { ModelNotFound, modelNotAllowed } from "../../inference/errors.ts";
import { isListed, mayUse } from "../../inference/may-use.ts";
import { largeBodyBytes } from "../body/json-body.ts";
import { actOf, originOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { isoTime } from "../deployments/render-deployment.ts";
import { schemaVariantMissing } from "../errors/errors.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { ModelFeatures } from "./features.ts";
import {
  MetaAnswer,
  MetaRequest,
  ModelRecord,
  ModelVersions,
  PublicityAnswer,
  PublicityRequest,
  RemovalAnswer,
  RemovalQuery,
  SchemaRecord,
} from "./model-record-schemas.ts";
import { ModelSummaries } from "./models-schemas.ts";
import { renderModelSummaries } from "./render-models.ts";
import { renderModelRecord, renderSchema } from "./render-record.ts";
import { variantAliases, variantKeys, variantOf, variantsOf } from "./variants.ts";

const named = Type.Object({ model_name: Type.String({ minLength: 1, description: "It may hold slashes" }) });

export function addModelRecordRoutes(endpoints: Endpoints, deps: ModelFeatures): void {
  const open = endpoints.with({ tag: "models", access: "public" });
  const callers = endpoints.with({ tag: "models", access: "inference" });
  const { modelRecords: records, publicUrl, spine } = deps;
  const find = (name: string, caller: Caller) => readable(spine.models.find(name, caller.account), name, caller);
  const listOf = async (caller: Caller, isMeant: (model: ServedModel) => boolean) => {
    const meant = spine.models.list(caller.account).filter((model) => isListed(caller.models, model) && isMeant(model));
    return renderModelSummaries(meant, await records.hourRates());
  };

  open.get("/models/featured", {
    summary: "Models offered to every account that the operator recommends",
    isFromMemory: true,
    answer: ModelSummaries,
    handler: ({ caller }) => {
      const offered = spine.models.list(caller.account);
      return renderModelSummaries(
        offered.filter(({ about }) => about?.isFeatured),
        new Map(),
      );
    },
  });

  callers.get("/models/private/list", {
    isOpenToOperators: true,
    summary: "List your private models",
    answer: ModelSummaries,
    handler: ({ caller }) =>
      listOf(caller, (model) => isOwn(caller, model) && !model.isPublic && !model.about?.isShown),
  });

  callers.get("/models/deployment/list", {
    isOpenToOperators: true,
    summary: "Models that deployments of your own serve",
    answer: ModelSummaries,
    handler: ({ caller }) => listOf(caller, (model) => isOwn(caller, model)),
  });

  callers.get("/models/:model_name", {
    isOpenToOperators: true,
    params: named,
    summary: "The record of a model",
    answer: ModelRecord,
    refusals: [404],
    async handler({ params, caller, reply }) {
      const model = find(params.model_name, caller);
      const [papers, hourRates] = await Promise.all([records.papers(model), records.hourRates()]);
      const origin = originOf(publicUrl, reply.request);
      return renderModelRecord({ model, papers, hourRates, origin, isOwner: isOwn(caller, model) });
    },
  });

  callers.get("/models/:model_name/versions", {
    params: named,
    summary: "The versions of a model, the newest first",
    answer: ModelVersions,
    refusals: [404],
    async handler({ params, caller }) {
      const model = find(params.model_name, caller);
      return (await records.versions(model)).map(({ version, uploadedAtMs }) => ({
        model_name: model.name,
        version,
        uploaded_at: isoTime(uploadedAtMs),
      }));
    },
  });

  callers.get("/models/:model_name/schema/:variantKey", {
    summary: "The fields and schemas of one way to ask a model",
    isFromMemory: true,
    params: Type.Object({
      ...named.properties,
      variantKey: Type.Unsafe<string>({ type: "string", enum: [...variantKeys, ...variantAliases] }),
    }),
    query: Type.Object({ version: Type.Optional(nullable.string({ maxLength: 128 })) }),
    answer: SchemaRecord,
    refusals: [404],
    handler({ params, query, caller, reply }) {
      const { model_name: name, variantKey: key } = params;
      const model = find(query.version ? `${name}:${query.version}` : name, caller);
      const variant = variantOf(model.task, key);
      if (!variant) throw schemaVariantMissing(key, variantsOf(model.task));
      return renderSchema(variant, model.name, originOf(publicUrl, reply.request));
    },
  });

  addModelOwnerRoutes(endpoints, deps);
}

function addModelOwnerRoutes(endpoints: Endpoints, { modelRecords: records, spine }: ModelFeatures): void {
  const own = endpoints.with({ tag: "models", access: "key" });
  const find = (name: string, caller: Caller) => readable(spine.models.find(name, caller.account), name, caller);

  own.delete("/models/:model_name", {
    params: named,
    summary: "End the deployments of a model of your own, of one version or of all",
    query: RemovalQuery,
    answer: RemovalAnswer,
    refusals: [404, 409],
    async handler({ params, query, caller, reply }) {
      const model = find(params.model_name, caller);
      await records.remove(editorOf(caller, reply), model, query.version);
      return { model_name: model.name, version: query.version };
    },
  });

  own.post("/models/:model_name/meta", {
    params: named,
    summary: "Describe a model of your own",
    bodyLimitBytes: largeBodyBytes,
    body: MetaRequest,
    answer: MetaAnswer,
    refusals: [404],
    async handler({ params, body, caller, reply }) {
      if (body.featured !== undefined && !caller.isAdmin) throw notAdmin();
      const model = find(params.model_name, caller);
      await records.change(editorOf(caller, reply), model, changeOf(body));
      return { model_name: model.name };
    },
  });

  own.post("/models/:model_name/publicity", {
    params: named,
    summary: "Show the record of your model to every account, or only to yours",
    body: PublicityRequest,
    answer: PublicityAnswer,
    refusals: [404],
    async handler({ params, body, caller, reply }) {
      const model = find(params.model_name, caller);
      await records.show(editorOf(caller, reply), model, body.public);
      return { model_name: model.name, public: body.public };
    },
  });
}

/** Throws modelNotAllowed before ModelNotFound: a token learns nothing of models that it may not use. */
function readable(model: ServedModel | undefined, name: string, caller: Caller): ServedModel {
  if (!mayUse(caller.models, model, name)) throw modelNotAllowed(name);
  if (!model) throw new ModelNotFound(name);
  return model;
}

const isOwn = (caller: Caller, { owner }: ServedModel): boolean => owner === caller.account;

const editorOf = (caller: Caller, reply: FastifyReply): Editor => ({
  account: caller.account,
  isAdmin: caller.isAdmin,
  act: actOf(caller, reply),
});

function changeOf(body: MetaRequest): MetaChange {
  const time = (seconds: number | null | undefined) => (seconds == null ? seconds : seconds * 1000);
  const change = {
    description: body.description,
    githubUrl: body.github_url,
    paperUrl: body.paper_url,
    licenseUrl: body.license_url,
    coverImage: body.cover_image,
    readme: body.readme,
    tags: body.tags,
    isFeatured: body.featured,
    deprecatedAtMs: time(body.deprecated),
    sunsetAtMs: time(body.sunset),
    replacedBy: body.replaced_by,
  };
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as MetaChange;
}
