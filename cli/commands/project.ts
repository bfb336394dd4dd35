// Projects: API keys that share a monthly budget.
import type { Responses } from "../../proto/gen/responses.ts";
import type { Command } from "../command.ts";
import { money } from "../option-values.ts";
import { utcMinute } from "../terminal.ts";

type Project = Responses["GET /v1/projects"]["projects"][number];

interface Flags {
  readonly name?: string;
  /** USD. */
  readonly budget?: number | "none";
}

const pathOf = (id: string) => `/v1/projects/${encodeURIComponent(id)}`;
const budget = (text: string) => (text === "none" ? text : money(text));
const budgetText = ({ monthly_limit: limit }: Project) => (limit === null ? "none" : `$${limit}`);
const bodyOf = ({ name, budget: limit }: Flags) => ({
  ...(name !== undefined && { name }),
  ...(limit !== undefined && { monthly_limit: limit === "none" ? null : limit }),
});

export function addProject(program: Command): void {
  const group = program.command("project").description("projects: API keys that share a monthly budget");
  group
    .command("create <name>")
    .description("create a project; `stoker token create --project ID` creates its keys")
    .option("--budget <usd>", "what its keys may spend together per month (UTC), or none", budget)
    .example("stoker project create search --budget 500")
    .run(async (terminal, name: string, flags: Flags) => {
      const made = await terminal.api.call<Project>("POST", "/v1/projects", { ...bodyOf(flags), name });
      terminal.show(made, ({ id }) => id);
    });
  group
    .command("list")
    .description("list projects with their use of this month")
    .example("stoker project list")
    .run(async (terminal) => {
      const { projects } = await terminal.api.call<Responses["GET /v1/projects"]>("GET", "/v1/projects");
      terminal.rows(
        projects,
        {
          ID: "id",
          NAME: "name",
          KEYS: ({ key_count }) => String(key_count),
          SPENT: ({ spent }) => `$${spent.toFixed(2)}`,
          BUDGET: budgetText,
        },
        { wide: { CREATED: ({ created_at }) => utcMinute(created_at) }, empty: "No projects." },
      );
    });
  group
    .command("update <id>")
    .description("rename a project or change its budget")
    .option("--name <name>", "new name")
    .option("--budget <usd>", "what its keys may spend together per month (UTC), or none", budget)
    .example("stoker project update project-search --budget 800")
    .run(async (terminal, id: string, flags: Flags) => {
      const changed = await terminal.api.call<Project>("PATCH", pathOf(id), bodyOf(flags));
      terminal.show(changed, (one) => `${one.name} (${one.id}): budget ${budgetText(one)}`);
    });
  group
    .command("delete <id>")
    .description("delete a project without keys; its usage stays")
    .example("stoker project delete project-search")
    .confirm(async ({ api }, id: string) => {
      const { name } = await api.call<Project>("GET", pathOf(id));
      return `Delete the project ${name}?`;
    })
    .run(async (terminal, id: string) => {
      const deleted = await terminal.api.call("DELETE", pathOf(id));
      terminal.show(deleted, () => `Deleted ${id}`);
    });
}
