import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { between } from "../option-values.ts";
import { utcTime } from "../terminal.ts";
import { uidOf } from "./admin-account.ts";

type Entry = Responses["GET /v1/admin/audit"]["entries"][number];

export function addAdminAudit(program: Command): void {
  adminGroup(program)
    .command("audit")
    .description("audit log, newest first (--json: also the source address and the values before and after)")
    .example("stoker admin audit --action account.suspend")
    .option("--account <account>", "only entries by or about this account (uid, e-mail address or display name)")
    .option("--actor <account>", "only entries by this account, or by `system`")
    .option("--action <word>", "action or its first part, such as account.suspend or account")
    .option("--from <time>", "start, Unix seconds or ISO 8601")
    .option("--to <time>", "end, Unix seconds or ISO 8601")
    .option("--limit <n>", "maximum number of entries", between(1, 200), 50)
    .run(async (terminal, { limit, ...filter }: Record<string, string> & { limit: number }) => {
      if (filter["account"] !== undefined) filter["account"] = await uidOf(terminal.api, filter["account"]);
      const { actor } = filter;
      if (actor !== undefined && actor !== "system") filter["actor"] = await uidOf(terminal.api, actor);
      const query = new URLSearchParams({ ...filter, limit: String(limit) });
      const { entries } = await terminal.api.call<{ entries: Entry[] }>("GET", `/v1/admin/audit?${query}`);
      terminal.rows(
        entries,
        {
          AT: (entry) => utcTime(entry.at),
          ACTOR: (entry) => entry.actor_email ?? entry.actor,
          ACTION: "action",
          SUBJECT: (entry) => entry.subject_name ?? entry.subject,
          NOTE: "note",
        },
        { wide: { ID: "subject", ACCOUNT: (entry) => entry.account_email ?? "" } },
      );
    });
}
