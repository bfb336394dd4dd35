import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { between } from "../option-values.ts";
import { utcTime } from "../terminal.ts";
import { listRejected } from "./usage-log.ts";

export function addAdminFailures(program: Command): void {
  adminGroup(program)
    .command("failures")
    .description("failed requests of all accounts, newest first")
    .example("stoker admin failures --from now-24h")
    .example("stoker admin failures --rejected")
    .option("--rejected", "requests that ended with an error before a host recorded them, such as 402, 404 or 429")
    .option("--from <time>", "start, Unix seconds or relative such as now-1h (default)")
    .option("--limit <n>", "maximum number of requests", between(1, 200), 50)
    .run(async (terminal, { limit, rejected, ...filter }: { limit: number; from?: string; rejected?: boolean }) => {
      if (rejected) return listRejected(terminal, { from: "now-1h", ...filter, limit: String(limit) }, true);
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
          ACCOUNT: (one) => one.account_email ?? one.account,
          MODEL: "model",
          END: "end_reason",
        },
        {
          empty: "No failed requests in this period.",
          wide: { UID: "account", DEPLOYMENT: "deploy_id", HTTP: (one) => String(one.http_status || "") },
        },
      );
    });
}
