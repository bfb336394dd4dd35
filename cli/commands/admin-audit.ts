import type { Command } from "commander";
import { uidOf } from "../account-uid.ts";
import { adminGroup } from "../admin-group.ts";
import { between } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

interface Entry {
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly subject: string;
  readonly note: string;
}

export function addAdminAudit(program: Command): void {
  adminGroup(program)
    .command("audit")
    .description("who did what to whom, newest first (--json: from where, before and after)")
    .option("--account <account>", "acts of this account or upon it (uid, e-mail address or display name)")
    .option("--action <word>", "such as account.suspend, or account")
    .option("--from <time>", "unix seconds, or ISO 8601")
    .option("--to <time>", "the same")
    .option("--limit <n>", "at most", between(1, 200), 50)
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
