// Projects of an account: API keys that share a budget per UTC month.
import { type AccountId, type BudgetId, type ProjectId, randomId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import type { Act } from "../act.ts";
import { conflict, forbidden, invalid, notFound } from "../service-error.ts";
import type { ProjectOutcome, ProjectRecord, ProjectStore } from "./project-store.ts";

export const maxProjects = 200;

export const projectNotFound = () =>
  notFound("project_not_found", "Project not found. `GET /v1/projects` lists the projects of this account.");

const nameTaken = () =>
  conflict("name_taken", "A project with this name already exists. Choose another name.", { param: "name" });

const tooMany = () =>
  conflict("too_many_projects", `An account has at most ${maxProjects} projects. Delete one first.`);

const hasKeys = () =>
  conflict(
    "project_has_keys",
    "The project has API keys, members, invitations, rules of an identity provider or workload identities. Remove them first; keys cannot leave their project, so revoke them.",
  );

export const emptyChange = (example: string) =>
  invalid("empty_change", `Name at least one field to change, such as \`${example}\`.`);

/** `projects`: of the member whose key it is. */
export const projectNotAllowed = (projects: readonly ProjectId[]) =>
  forbidden(
    "project_not_allowed",
    `Keys of this member belong to its projects: ${projects.join(", ")}. Choose one of them, or leave out \`project_id\`.`,
    { param: "project_id" },
  );

export function createProjects(deps: {
  readonly store: ProjectStore;
  /** Budget of a project in the month of this time. */
  readonly monthOf: (project: ProjectId, unixMs: number) => BudgetId;
  readonly unixMs?: () => number;
}) {
  const { store } = deps;
  const unixMs = deps.unixMs ?? steadyTime.nowMs;
  const monthOf = (project: ProjectId) => deps.monthOf(project, unixMs());

  async function get(account: AccountId, id: ProjectId): Promise<ProjectRecord> {
    const found = (await store.projects(account, monthOf)).find(({ project }) => project === id);
    if (!found) throw projectNotFound();
    return found;
  }

  return {
    list: (account: AccountId): Promise<readonly ProjectRecord[]> => store.projects(account, monthOf),
    /** Throws projectNotFound. */
    get,
    /** `limit`: nano-USD per UTC month; null: none. Throws name_taken, too_many_projects. */
    async create(account: AccountId, name: string, limit: bigint | null, act: Act): Promise<ProjectRecord> {
      const id = randomId<"project">(16);
      const budget = { limit, month: monthOf(id) };
      check(await store.createProject(account, { id, name: name.trim() }, budget, maxProjects, act));
      return get(account, id);
    },
    /** `limit`: undefined: unchanged. Throws projectNotFound, name_taken, empty_change. */
    async change(
      account: AccountId,
      id: ProjectId,
      { name, limit }: { readonly name?: string | undefined; readonly limit?: bigint | null | undefined },
      act: Act,
    ): Promise<ProjectRecord> {
      if (name === undefined && limit === undefined) throw emptyChange("monthly_limit");
      const change = {
        ...(name !== undefined && { name: name.trim() }),
        ...(limit !== undefined && { limit: { limit, month: monthOf(id) } }),
      };
      check(await store.changeProject(account, id, change, act));
      return get(account, id);
    },
    /** Its usage stays. Throws projectNotFound, project_has_keys. */
    async end(account: AccountId, id: ProjectId, act: Act): Promise<void> {
      check(await store.endProject(account, id, act));
    },
  };
}

export type Projects = ReturnType<typeof createProjects>;

function check(outcome: ProjectOutcome): void {
  if (outcome === "gone") throw projectNotFound();
  if (outcome === "name_taken") throw nameTaken();
  if (outcome === "too_many") throw tooMany();
  if (outcome === "has_keys") throw hasKeys();
}
