import type { Command } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { uidOf } from "../account-uid.ts";
import { adminGroup } from "../command-groups.ts";
import { between } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

type Entry = Responses["GET /v1/admin/audit"]["entries"][number];

export function addAdminAudit(program: Command): void {
  adminGroup(program)
    .command("audit")
    .description("audit log, newest first (--json: also the source address and the values before and after)")
    .option("--account <account>", "only entries by or about this account (uid, e-mail address or display name)")
    .option("--action <word>", "action or its first part, such as account.suspend or account")
    .option("--from <time>", "start, Unix seconds or ISO 8601")
    .option("--to <time>", "end, Unix seconds or ISO 8601")
    .option("--limit <n>", "maximum number of entries", between(1, 200), 50)
    .action(async ({ limit, ...filter }: Record<string, string> & { limit: number }, command: Command) => {
      const terminal = openTerminal(command);
      if (filter["account"] !== undefined) filter["account"] = await uidOf(terminal.api, filter["account"]);
      const query = new URLSearchParams({ ...filter, limit: String(limit) });
      const { entries } = await terminal.api.call<{ entries: Entry[] }>("GET", `/v1/admin/audit?${query}`);
      terminal.rows(entries, ["AT", "ACTOR", "ACTION", "SUBJECT", "NOTE"], (entry) => [
        entry.at.slice(0, 19),
        entry.actor,
        entry.action,
        entry.subject,
        entry.note,
      ]);
    });
}
