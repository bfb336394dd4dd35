// Projects: API keys of an account that share a budget per month.
import { type Static, Type } from "typebox";
import type { ProjectId } from "../../../proto/ids.ts";
import { nano, toUsd } from "../../../proto/money.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import { guarded } from "../../accounts/permissions.ts";
import type { ProjectRecord } from "../../accounts/project-store.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { givenLimit, monthlyLimit } from "./account-schemas.ts";
import type { AccountFeatures } from "./features.ts";

const name = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: "^[^\\u0000-\\u001f\\u007f]*[^\\s\\u0000-\\u001f\\u007f][^\\u0000-\\u001f\\u007f]*$",
  description: "Unique among the account's projects, ignoring case",
});
const projectLimit = monthlyLimit("all keys of the project together");

const ProjectBody = Type.Object({
  id: Type.String({ description: "`project_id` of an API key" }),
  name: Type.String(),
  monthly_limit: projectLimit,
  spent: Type.Number({ description: "USD settled this month (UTC)" }),
  key_count: Type.Integer({ description: "API keys that are not revoked" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
});
type ProjectBody = Static<typeof ProjectBody>;

const NewProject = Type.Object({ name, monthly_limit: Type.Optional(projectLimit) });
const ProjectChange = Type.Partial(Type.Object({ name, monthly_limit: projectLimit }));

export function addProjectRoutes(endpoints: Endpoints, { projects }: AccountFeatures): void {
  const own = endpoints.with({ tag: "account", access: "key" });

  own.get("/v1/projects", {
    right: "readUsage",
    isOpenToOperators: true,
    summary: "List projects with their use of this month",
    answer: Type.Object({ projects: Type.Array(ProjectBody) }),
    handler: async ({ caller }) => ({ projects: (await projects.list(caller.account)).map(render) }),
  });

  own.post("/v1/projects", {
    right: "manageKeys",
    summary: "Create a project",
    idempotent: true,
    body: NewProject,
    answer: ProjectBody,
    refusals: [409],
    handler: async ({ caller, body, reply }) =>
      render(
        await projects.create(
          caller.account,
          body.name,
          givenLimit(body) ?? null,
          guarded("manageKeys", caller, actOf(caller, reply)),
        ),
      ),
  });

  own.get("/v1/projects/:project_id", {
    right: "readUsage",
    summary: "Get a project",
    answer: ProjectBody,
    refusals: [404],
    handler: async ({ caller, params }) => render(await projects.get(caller.account, params.project_id as ProjectId)),
  });

  own.patch("/v1/projects/:project_id", {
    right: "changeMoney",
    summary: "Rename a project or change its monthly limit; absent fields are unchanged",
    body: ProjectChange,
    answer: ProjectBody,
    refusals: [404, 409],
    handler: async ({ caller, params, body, reply }) =>
      render(
        await projects.change(
          caller.account,
          params.project_id as ProjectId,
          { name: body.name, limit: givenLimit(body) },
          guarded("changeMoney", caller, actOf(caller, reply)),
        ),
      ),
  });

  own.delete("/v1/projects/:project_id", {
    right: "manageKeys",
    summary: "Delete a project without keys; its usage stays",
    refusals: [404, 409],
    async handler({ caller, params, reply }) {
      await projects.end(
        caller.account,
        params.project_id as ProjectId,
        guarded("manageKeys", caller, actOf(caller, reply)),
      );
    },
  });
}

const render = (one: ProjectRecord): ProjectBody => ({
  id: one.project,
  name: one.name,
  monthly_limit: one.monthlyLimit === null ? null : toUsd(nano(one.monthlyLimit)),
  spent: toUsd(nano(one.spent)),
  key_count: one.keyCount,
  created_at: unixSeconds(one.createdAtMs),
});
