import { Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { Endpoints } from "../endpoint.ts";
import { perMillion, perUnit, ratesOf } from "../models/rates.ts";
import { renderDeployment } from "../render-deployment.ts";
import { DeploymentRecord } from "../schemas/deployment.ts";
import { ExternalServer, OfferAnswer, OfferRequest } from "../schemas/models.ts";
import type { HttpDeps } from "../verbs.ts";

const tag = "operator";
const access = "admin";

export function addAdminRoutes(endpoints: Endpoints, { admin }: Pick<HttpDeps, "admin">): void {
  endpoints.add({
    method: "PUT",
    // Model names hold a slash.
    path: "/v1/admin/models/*",
    summary: "Offer a deployment to every account, priced by tokens",
    tag,
    access,
    params: Type.Object({ "*": Type.String({ description: "The model's public name" }) }),
    body: OfferRequest,
    answer: OfferAnswer,
    refusals: [404, 503],
    async handler({ params, body }) {
      const { input, cached_input: cached = input, output, ...units } = body.pricing;
      const offered = await admin.offerModel({
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

  endpoints.add({
    method: "POST",
    path: "/v1/admin/external",
    summary: "Serve an OpenAI-compatible server that already runs as an instance",
    tag,
    access,
    body: ExternalServer,
    answer: DeploymentRecord,
    refusals: [404, 409, 503],
    handler: async ({ caller, body }) =>
      renderDeployment(
        await admin.createExternal(caller, {
          name: body.name,
          url: body.url,
          maxBatchSize: body.max_batch_size ?? 96,
          servedName: body.served_name ?? undefined,
          host: body.host_id ?? undefined,
          contextLength: body.context_length ?? undefined,
          task: body.task ?? undefined,
        }),
      ),
  });
}
