// Servers that already run: the operator's own, and those of upstream providers, with what they cost and may cost.
import type { DeploymentId } from "../../../proto/ids.ts";
import { fromUsd, type NanoUsd, nano, toUsd } from "../../../proto/money.ts";
import { checkTerms, type ExternalProvider, type ProviderTerms } from "../../billing/providers.ts";
import type { TargetHealth, TargetState } from "../../inference/target-health.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { priceFromUsd } from "../models/rates.ts";
import { DeployId, DeploymentRecord } from "./deployment-schemas.ts";
import { ExternalAnswer, ExternalList, ExternalServer, ExternalTerms } from "./external-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";
import { renderDeployment } from "./render-deployment.ts";

export function addExternalRoutes(
  endpoints: Endpoints,
  { deployments, providers }: DeploymentFeatures,
  health: Pick<TargetHealth, "stateOf">,
): void {
  const shown = (server: ExternalProvider) => ({
    ...render(server),
    health: renderHealth(health.stateOf(server.deployId)),
  });
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.post("/v1/admin/external", {
    summary: "Serve an OpenAI- or Anthropic-compatible server that already runs as an instance",
    bodyLimitBytes: mediumBodyBytes,
    body: ExternalServer,
    answer: DeploymentRecord,
    refusals: [404, 409],
    async handler({ caller, body, reply }) {
      const terms = termsOf(body);
      checkTerms(terms);
      const created = await deployments.createExternal(caller, {
        name: body.name,
        url: body.url,
        maxBatchSize: body.max_batch_size,
        servedName: body.served_name ?? undefined,
        host: body.host_id ?? undefined,
        contextLength: body.context_length ?? undefined,
        task: body.task ?? undefined,
        api: body.format,
        apiKey: body.api_key ?? undefined,
      });
      const hasTerms = body.costs !== undefined || terms.monthLimit !== null || terms.dayLimit !== null;
      if (hasTerms) await providers.set({ by: caller.account, ip: reply.request.ip }, created.id, terms);
      return renderDeployment(created);
    },
  });

  admin.get("/v1/admin/external", {
    summary: "External servers, with what their providers cost in this month and day",
    answer: ExternalList,
    async handler() {
      const { servers, hasMore } = await providers.list();
      return { servers: servers.map(shown), has_more: hasMore };
    },
  });

  admin.put("/v1/admin/external/:deploy_id", {
    summary: "Set what the provider of an external server costs, and the most it may cost",
    params: DeployId,
    body: ExternalTerms,
    answer: ExternalAnswer,
    refusals: [404],
    handler: async ({ caller, params, body, reply }) =>
      shown(
        await providers.set(
          { by: caller.account, ip: reply.request.ip },
          params.deploy_id as DeploymentId,
          termsOf(body),
        ),
      ),
  });
}

function termsOf({ costs = {}, monthly_limit: month, daily_limit: day }: ExternalTerms): ProviderTerms {
  const { input = 0, cached_input: cachedInput = input, output = 0, request = 0 } = costs;
  return {
    rates: {
      input: priceFromUsd(input, "costs.input"),
      cachedInput: priceFromUsd(cachedInput, "costs.cached_input"),
      output: priceFromUsd(output, "costs.output"),
      request: priceFromUsd(request, "costs.request"),
    },
    monthLimit: month === null || month === undefined ? null : fromUsd(month),
    dayLimit: day === null || day === undefined ? null : fromUsd(day),
  };
}

const free = { input: 0n, cachedInput: 0n, output: 0n, request: 0n };

function render({ deployId, modelName, url, api, status, terms, monthSpent, daySpent }: ExternalProvider) {
  const rates = terms?.rates ?? free;
  return {
    deploy_id: deployId,
    model_name: modelName,
    url,
    format: api,
    status,
    costs: {
      input: toUsd(nano(rates.input)),
      cached_input: toUsd(nano(rates.cachedInput)),
      output: toUsd(nano(rates.output)),
      request: toUsd(nano(rates.request)),
    },
    month: spending(terms?.monthLimit ?? null, monthSpent),
    day: spending(terms?.dayLimit ?? null, daySpent),
  };
}

const renderHealth = ({ state, reason, secondsLeft, failures }: TargetState) => ({
  state,
  reason: reason ?? null,
  seconds_left: secondsLeft,
  failures,
});

const spending = (limit: NanoUsd | null, spent: NanoUsd) => ({
  limit: limit === null ? null : toUsd(limit),
  spent: toUsd(spent),
  left: limit === null ? null : Math.max(0, toUsd(nano(limit - spent))),
});
