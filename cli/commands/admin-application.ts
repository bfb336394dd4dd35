import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { money } from "../option-values.ts";

type Application = Responses["POST /v1/admin/program-applications/{id}/approve"];

const root = "/v1/admin/program-applications";
const line = (one: Application) => `${one.id} ${one.company} (${one.email}): ${one.status}`;

export function addAdminApplication(program: Command): void {
  const group = adminGroup(program).command("application").description("applications to the startup program");

  group
    .command("list")
    .description("list applications, newest first")
    .example("stoker admin application list --status pending")
    .option("--status <status>", "pending, approved or rejected")
    .run(async (terminal, flags: { status?: string }) => {
      const query = new URLSearchParams(flags);
      const { applications } = await terminal.api.call<{ applications: Application[] }>("GET", `${root}?${query}`);
      terminal.rows(applications, {
        ID: "id",
        COMPANY: "company",
        EMAIL: "email",
        FUNDING: "funding",
        STATUS: "status",
      });
    });

  group
    .command("approve <id>")
    .description("approve an application")
    .example('stoker admin application approve AppOfAda --note "welcome" --credit 500')
    .requiredOption("--note <text>", "reason, shown to the applicant")
    .option("--credit <usd>", "credit to grant", money, 0)
    .run(async (terminal, id: string, flags: { note: string; credit: number }) => {
      const body = { note: flags.note, credit_usd: flags.credit };
      const path = `${root}/${encodeURIComponent(id)}/approve`;
      terminal.show(await terminal.api.call<Application>("POST", path, body), line);
    });

  group
    .command("reject <id>")
    .description("reject an application")
    .example('stoker admin application reject AppOfAda --note "too early"')
    .requiredOption("--note <text>", "reason, shown to the applicant")
    .run(async (terminal, id: string, { note }: { note: string }) => {
      const path = `${root}/${encodeURIComponent(id)}/reject`;
      terminal.show(await terminal.api.call<Application>("POST", path, { note }), line);
    });
}
