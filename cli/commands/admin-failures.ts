import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { between } from "../option-values.ts";
import { utcTime } from "../terminal.ts";

export function addAdminFailures(program: Command): void {
  adminGroup(program)
    .command("failures")
    .description("failed requests of all accounts, newest first")
    .example("stoker admin failures --from now-24h")
    .option("--from <time>", "start, Unix seconds or relative such as now-1h (default)")
    .option("--limit <n>", "maximum number of requests", between(1, 200), 50)
    .run(async (terminal, { limit, ...filter }: { limit: number; from?: string }) => {
      const query = new URLSearchParams({ ...filter, limit: String(limit) });
      const { requests } = await terminal.api.call<Responses["GET /v1/admin/failed-requests"]>(
        "GET",
        `/v1/admin/failed-requests?${query}`,
      );
      terminal.rows(
        requests,
        {
          REQUEST: "request_id",
          "AT (UTC)": (one) => utcTime(one.created_at),
          MODEL: "model",
          END: "end_reason",
        },
        {
          empty: "No failed requests in this period.",
          wide: { ACCOUNT: "account", DEPLOYMENT: "deploy_id", HTTP: (one) => String(one.http_status || "") },
        },
      );
    });
}
