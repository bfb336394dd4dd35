import type { FastifyReply } from "fastify";
import { Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { Caller } from "../../accounts/caller.ts";
import { ModelNotFound } from "../../inference/errors.ts";
import { isListed, mayUse } from "../../inference/may-use.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { ModelFeatures } from "./features.ts";
import { messagesDialect, renderMessagesModel, renderMessagesModels } from "./messages-models.ts";
import {
  MessagesModel,
  MessagesModelList,
  ModelItem,
  ModelList,
  ModelPage,
  ModelSummaries,
  OfferAnswer,
  OfferRequest,
} from "./models-schemas.ts";
import { perMillion, perUnit, ratesOf } from "./rates.ts";
import { renderModel, renderModelList, renderModelSummaries } from "./render-models.ts";

const isForMessages = ({ request }: FastifyReply): boolean => request.state?.dialect === "messages";

export function addModelRoutes(endpoints: Endpoints, { spine: { models }, modelRecords }: ModelFeatures): void {
  const callers = endpoints.with({ tag: "models", access: "inference" });
  const open = endpoints.with({ tag: "models", access: "public" });
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  /** An alias as a model of its name, if the caller may use it: the record of its first model that exists. */
  const aliased = (name: string, caller: Caller) => {
    if (!models.aliasOf(name, caller.account) || !mayUse(caller.models, undefined, name)) return undefined;
    const model = models.resolve(name, caller.account);
    return model && { ...model, name };
  };

  callers.get("/v1/models", {
    summary: "Models this key may use",
    isFromMemory: true,
    dialect: "compat",
    dialectOf: messagesDialect,
    query: ModelPage,
    answer: Type.Union([ModelList, MessagesModelList]),
    handler: ({ caller, query, reply }) => {
      const listed = models.list(caller.account).filter((model) => isListed(caller.models, model));
      const aliases = models.aliases(caller.account).flatMap((alias) => aliased(alias.name, caller) ?? []);
      const named = new Set(aliases.map(({ name }) => name));
      const all = [...aliases, ...listed.filter(({ name }) => !named.has(name))];
      return isForMessages(reply) ? renderMessagesModels(all, query) : renderModelList(all);
    },
  });

  callers.get("/v1/models/:model_name", {
    summary: "One model that this key may use",
    isFromMemory: true,
    dialect: "compat",
    params: Type.Object({ model_name: Type.String({ minLength: 1, description: "It may hold slashes" }) }),
    dialectOf: messagesDialect,
    answer: Type.Union([ModelItem, MessagesModel]),
    refusals: [404],
    handler({ caller, params, reply }) {
      const name = params.model_name;
      const render = isForMessages(reply) ? renderMessagesModel : renderModel;
      const alias = aliased(name, caller);
      if (alias) return render(alias);
      const model = models.find(name, caller.account);
      if (!model || !isListed(caller.models, model)) throw new ModelNotFound(name);
      return render(model);
    },
  });

  open.get("/models/list", {
    summary: "Models offered to every account",
    isFromMemory: true,
    answer: ModelSummaries,
    handler: ({ caller }) => renderModelSummaries(models.list(caller.account), new Map()),
  });

  admin.put("/v1/admin/models/*", {
    summary: "Offer a deployment to every account, priced by tokens",
    params: Type.Object({ "*": Type.String({ description: "The model's public name" }) }),
    bodyLimitBytes: mediumBodyBytes,
    body: OfferRequest,
    answer: OfferAnswer,
    refusals: [404],
    async handler({ params, body }) {
      const { input, cached_input: cached = input, output, ...units } = body.pricing;
      const offered = await modelRecords.offer({
        name: params["*"].replace(/\/$/, ""),
        deployId: body.deploy_id as DeploymentId,
        description: body.description ?? "",
        rates: ratesOf({ input, cached_input: cached, output, ...units }),
      });
      return {
        model_name: offered.name,
        deploy_id: offered.deployId,
        description: offered.description,
        price_version: offered.priceVersion,
        pricing: { ...perMillion(offered.rates), ...perUnit(offered.rates) },
      };
    },
  });
}
