// Aliases of an account, and those that an operator defines for every account.
import type { Static } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import type { Caller } from "../../accounts/caller.ts";
import type { ModelAlias } from "../../catalog/model-alias.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { actorIdOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { isoTime } from "../deployments/render-deployment.ts";
import { AliasAnswer, AliasList, AliasName, AliasRemoval, AliasRequest } from "./alias-schemas.ts";
import type { ModelFeatures } from "./features.ts";

export function addAliasRoutes(endpoints: Endpoints, { aliases }: Pick<ModelFeatures, "aliases">): void {
  endpoints.with({ tag: "models", access: "key" }).get("/v1/model-aliases", {
    isOpenToOperators: true,
    summary: "Your aliases and those of the installation",
    answer: AliasList,
    handler: async ({ caller }) => ({ aliases: (await aliases.list(caller.account)).map(render) }),
  });
  addScope(endpoints, "/v1/model-aliases/*", aliases, {
    tag: "models",
    access: "key",
    whose: "one of your names",
    scopeOf: ({ account }) => account,
  });
  addScope(endpoints, "/v1/admin/model-aliases/*", aliases, {
    tag: "operator",
    access: "admin",
    whose: "a name for every account",
    scopeOf: () => null,
  });
}

interface Scope {
  readonly tag: "models" | "operator";
  readonly access: "key" | "admin";
  readonly whose: string;
  readonly scopeOf: (caller: Caller) => AccountId | null;
}

function addScope(
  endpoints: Endpoints,
  path: "/v1/model-aliases/*" | "/v1/admin/model-aliases/*",
  aliases: ModelFeatures["aliases"],
  { whose, scopeOf, ...common }: Scope,
): void {
  const scope = endpoints.with(common);
  scope.put(path, {
    summary: `Map ${whose} to models, with weights and fallbacks`,
    params: AliasName,
    bodyLimitBytes: mediumBodyBytes,
    body: AliasRequest,
    answer: AliasAnswer,
    refusals: [409],
    async handler({ params, body, caller, reply }) {
      const editor = { by: actorIdOf(caller), ip: reply.request.ip, scope: scopeOf(caller) };
      return render(
        await aliases.put(editor, {
          name: params["*"],
          targets: body.targets.map(({ model, weight = 1 }) => ({ model, weight })),
          fallbacks: body.fallbacks ?? [],
          isSticky: body.sticky ?? false,
        }),
      );
    },
  });
  scope.get(path, {
    summary: `The models of ${whose}`,
    params: AliasName,
    answer: AliasAnswer,
    refusals: [404],
    handler: async ({ params, caller }) => render(await aliases.find(scopeOf(caller), params["*"])),
  });
  scope.delete(path, {
    summary: `Delete the alias of ${whose}`,
    params: AliasName,
    answer: AliasRemoval,
    refusals: [404],
    async handler({ params, caller, reply }) {
      await aliases.remove({ by: actorIdOf(caller), ip: reply.request.ip, scope: scopeOf(caller) }, params["*"]);
      return { name: params["*"], deleted: true as const };
    },
  });
}

const render = ({
  name,
  account,
  targets,
  fallbacks,
  isSticky,
  updatedAtMs,
}: ModelAlias): Static<typeof AliasAnswer> => ({
  name,
  scope: account === null ? "installation" : "account",
  targets: targets.map(({ model, weight }) => ({ model, weight })),
  fallbacks: [...fallbacks],
  sticky: isSticky,
  updated_at: isoTime(updatedAtMs),
});
