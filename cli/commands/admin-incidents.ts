import { Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { between } from "../option-values.ts";
import { utcTime } from "../terminal.ts";

type Listed = Responses["GET /v1/admin/incidents"];

export function addAdminIncidents(program: Command): void {
  adminGroup(program)
    .command("incidents")
    .description("list what is wrong now, the most severe first")
    .example("stoker admin incidents --severity critical")
    .option("--ended", "list incidents of the last 90 days that have ended, the last first")
    .addOption(new Option("--severity <severity>", "only with this severity").choices(["critical", "warning", "info"]))
    .option("--limit <n>", "maximum number", between(1, 200), 50)
    .run(async (terminal, { ended, severity, limit }: { ended?: boolean; severity?: string; limit: number }) => {
      const query = new URLSearchParams({
        state: ended ? "ended" : "open",
        limit: String(limit),
        ...(severity === undefined ? {} : { severity }),
      });
      const { incidents } = await terminal.api.call<Listed>("GET", `/v1/admin/incidents?${query}`);
      terminal.rows(
        incidents,
        {
          SINCE: (one) => utcTime(one.began_at),
          ...(ended
            ? { ENDED: (one: Listed["incidents"][number]) => (one.ended_at ? utcTime(one.ended_at) : "-") }
            : {}),
          SEVERITY: "severity",
          DESCRIPTION: "summary",
        },
        { empty: ended ? "None." : "No incidents." },
      );
    });
}
