import type { Command } from "commander";
import { accountsPath, uidOf } from "../account-uid.ts";
import { adminGroup } from "../admin-group.ts";
import type { Api } from "../api.ts";
import { between, money } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

interface Summary {
  readonly uid: string;
  readonly email: string;
  readonly display_name: string;
  readonly is_admin: boolean;
  readonly suspend_reason: string | null;
  /** Null: no limit. */
  readonly funds_usd: number | null;
  readonly spent_usd: number;
}

interface Account extends Summary {
  /** Unix seconds. */
  readonly deleted_at: number | null;
  readonly credited_usd: number | null;
  readonly keys: number;
  readonly deployments: number;
  readonly suspensions: readonly { readonly reason: string; readonly since: number; readonly note: string }[];
}

const root = accountsPath;

export function addAdminAccount(program: Command): void {
  const account = adminGroup(program).command("account").description("accounts, their funds and standing");

  account
    .command("create")
    .description("make an account; prints its first key, once")
    .requiredOption("--email <address>")
    .requiredOption("--name <display-name>", "letters, digits and single hyphens")
    .option("--credit <usd>", "what it may spend", money, 0)
    .action(async (flags: { email: string; name: string; credit: number }, command: Command) => {
      const terminal = openTerminal(command);
      const body = { email: flags.email, display_name: flags.name, credit_usd: flags.credit };
      const made = await terminal.api.call<{ uid: string; api_key: string }>("POST", root, body);
      if (!terminal.json) terminal.progress(`Account ${made.uid}; its key, shown once:`);
      terminal.show(made, ({ api_key: key }) => key);
    });

  account
    .command("list")
    .description("accounts, newest first")
    .option("--search <text>", "part of an e-mail address, a display name or a uid", "")
    .option("--limit <n>", "at most", between(1, 200), 50)
    .action(async (flags: { search: string; limit: number }, command: Command) => {
      const terminal = openTerminal(command);
      const query = new URLSearchParams({ query: flags.search, limit: String(flags.limit) });
      const { accounts, next_cursor: more } = await terminal.api.call<{
        accounts: Summary[];
        next_cursor: string | null;
      }>("GET", `${root}?${query}`);
      terminal.rows(accounts, ["UID", "NAME", "EMAIL", "FUNDS", "SPENT", "STANDING"], (one) => [
        one.uid,
        one.display_name,
        one.email,
        usd(one.funds_usd),
        usd(one.spent_usd),
        standing(one),
      ]);
      if (more !== null) terminal.progress("There are more: narrow them with --search.");
    });

  account
    .command("show <account>")
    .description("one account; of a deleted one, by its uid, what its records keep")
    .action(async (name: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await terminal.api.call<Account>("GET", await pathOf(terminal.api, name)), described);
    });

  account
    .command("credit <account> <usd>")
    .description("grant credit; a negative amount, after --, is a correction")
    .requiredOption("--note <text>", "why; kept in the audit log")
    .option("--reference <text>", "your own name of this grant: the same again counts once")
    .option("--below-zero", "a correction may take more than is left")
    .action(
      async (
        name: string,
        amount: string,
        flags: { note: string; reference?: string; belowZero?: boolean },
        command: Command,
      ) => {
        const terminal = openTerminal(command);
        const body = { amount_usd: money(amount), note: flags.note, may_go_below_zero: flags.belowZero ?? false };
        const headers = flags.reference === undefined ? {} : { "idempotency-key": flags.reference };
        const path = `${await pathOf(terminal.api, name)}/credit`;
        terminal.show(await terminal.api.call<Account>("POST", path, body, headers), described);
      },
    );

  account
    .command("suspend <account>")
    .description("keep an account from spending")
    .option("--reason <reason>", "admin, balance, limit-reached, payment-method, overdue-invoices or bad-cc", "admin")
    .requiredOption("--note <text>", "why; kept in the audit log")
    .action(async (name: string, { reason, note }: { reason: string; note: string }, command: Command) => {
      const terminal = openTerminal(command);
      const path = `${await pathOf(terminal.api, name)}/suspend`;
      terminal.show(await terminal.api.call<Account>("POST", path, { reason, note }), described);
    });

  account
    .command("lift <account>")
    .description("end a suspension")
    .option("--reason <reason>", "this one alone; without it all")
    .requiredOption("--note <text>", "why; kept in the audit log")
    .action(async (name: string, { reason, note }: { reason?: string; note: string }, command: Command) => {
      const terminal = openTerminal(command);
      const path = `${await pathOf(terminal.api, name)}/lift`;
      terminal.show(await terminal.api.call<Account>("POST", path, { reason: reason ?? null, note }), described);
    });

  account
    .command("set <account>")
    .description("make it an operator's or a team's account, or an ordinary one")
    .option("--admin", "may administer")
    .option("--no-admin", "may not")
    .option("--team", "has a team name")
    .option("--no-team", "has none")
    .option("--note <text>", "why; kept in the audit log")
    .action(async (name: string, flags: { admin?: boolean; team?: boolean; note?: string }, command: Command) => {
      const terminal = openTerminal(command);
      const body = { is_admin: flags.admin ?? null, is_team_account: flags.team ?? null, note: flags.note ?? null };
      const path = await pathOf(terminal.api, name);
      terminal.show(await terminal.api.call<Account>("PATCH", path, body), described);
    });
}

const pathOf = async (api: Api, name: string): Promise<string> => `${root}/${await uidOf(api, name)}`;

const usd = (amount: number | null): string => (amount === null ? "no limit" : amount.toFixed(2));
const time = (seconds: number): string => new Date(seconds * 1000).toISOString();
const standing = (one: Summary): string => one.suspend_reason ?? (one.is_admin ? "operator" : "good");

function described(one: Account): string {
  if (one.deleted_at != null)
    return [
      `${one.uid} was deleted at ${time(one.deleted_at)}; its records stay`,
      `credited USD ${usd(one.credited_usd)}, spent USD ${usd(one.spent_usd)}, left USD ${usd(one.funds_usd)}`,
    ].join("\n");
  return [
    `${one.display_name} (${one.uid}) ${one.email}${one.is_admin ? ", operator" : ""}`,
    `funds USD ${usd(one.funds_usd)}, spent USD ${usd(one.spent_usd)}; ${one.keys} keys, ${one.deployments} deployments`,
    ...one.suspensions.map(({ reason, since, note }) => `suspended: ${reason} since ${time(since)} (${note})`),
  ].join("\n");
}
