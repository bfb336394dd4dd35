import { Argument } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import type { Api } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { adminGroup, type Command } from "../command.ts";
import { counted } from "../counted.ts";
import { between, money } from "../option-values.ts";
import { isoTime, utcTime } from "../terminal.ts";

type Named = Responses["GET /v1/admin/accounts"]["accounts"][number];

export const accountsPath = "/v1/admin/accounts";

/** Uid of the account with this uid, e-mail address or display name. Operators only. */
export async function uidOf(api: Api, name: string): Promise<string> {
  if (/^u:\w+$/.test(name)) return name;
  const query = new URLSearchParams({ query: name, limit: "200" });
  const { accounts } = await api.call<{ accounts: Named[] }>("GET", `${accountsPath}?${query}`);
  const text = name.toLowerCase();
  const found = accounts.find((one) => [one.email, one.display_name].some((value) => value.toLowerCase() === text));
  if (!found)
    throw new CliError(`Account ${name} not found. Give its uid, e-mail address or display name.`, exitCode.notFound);
  return found.uid;
}

type Summary = Responses["GET /v1/admin/accounts"]["accounts"][number];

type Account = Responses["GET /v1/admin/accounts/{uid}"];

const root = accountsPath;

export function addAdminAccount(program: Command): void {
  const account = adminGroup(program).command("account").description("accounts, funds and suspensions");

  account
    .command("create")
    .description("create an account and print its first API key once")
    .example("stoker admin account create --email ada@example.com --name ada")
    .requiredOption("--email <address>")
    .requiredOption("--name <display-name>", "letters, digits and single hyphens")
    .option("--credit <usd>", "initial credit", money, 0)
    .run(async (terminal, flags: { email: string; name: string; credit: number }) => {
      const body = { email: flags.email, display_name: flags.name, credit_usd: flags.credit };
      const created = await terminal.api.call<{ uid: string; api_key: string }>("POST", root, body);
      if (!terminal.isStructured) terminal.progress(`Created account ${created.uid}. Its API key, shown only once:`);
      terminal.show(created, ({ api_key: key }) => key);
    });

  account
    .command("list")
    .description("list accounts, newest first")
    .example("stoker admin account list --search ada")
    .option("--search <text>", "part of an e-mail address, a display name or a uid", "")
    .option("--limit <n>", "maximum number of accounts", between(1, 200), 50)
    .run(async (terminal, flags: { search: string; limit: number }) => {
      const query = new URLSearchParams({ query: flags.search, limit: String(flags.limit) });
      const { accounts, next_cursor: more } = await terminal.api.call<{
        accounts: Summary[];
        next_cursor: string | null;
      }>("GET", `${root}?${query}`);
      terminal.rows(
        accounts,
        {
          UID: "uid",
          NAME: "display_name",
          EMAIL: "email",
          "FUNDS USD": (one) => usd(one.funds_usd),
          "SPENT USD": (one) => usd(one.spent_usd),
          STATUS: (one) => statusOf(one),
        },
        {
          wide: {
            CREATED: (one) => utcTime(one.created_at),
            TEAM: (one) => (one.is_team_account ? "yes" : "no"),
            PRIORITY: (one) => (one.may_prioritize ? "yes" : "no"),
          },
        },
      );
      if (more !== null) terminal.progress("More accounts match. Use --search to narrow the list.");
    });

  account
    .command("get <account>")
    .alias("show")
    .description("show an account; a deleted account by its uid")
    .example("stoker admin account get ada@example.com")
    .run(async (terminal, name: string) => {
      terminal.show(await terminal.api.call<Account>("GET", await pathOf(terminal.api, name)), described);
    });

  account
    .command("credit <account> <usd>")
    .description("grant credit; a negative amount (after --) is a correction")
    .example('stoker admin account credit ada 50 --note "welcome"')
    .requiredOption("--note <text>", "reason, recorded in the audit log")
    .option("--reference <text>", "idempotency key: the same reference is credited once")
    .option("--below-zero", "allow the correction to make the funds negative")
    .run(
      async (
        terminal,
        name: string,
        amount: string,
        flags: { note: string; reference?: string; belowZero?: boolean },
      ) => {
        const body = { amount_usd: money(amount), note: flags.note, may_go_below_zero: flags.belowZero ?? false };
        const headers = flags.reference === undefined ? {} : { "idempotency-key": flags.reference };
        const path = `${await pathOf(terminal.api, name)}/credit`;
        terminal.show(await terminal.api.call<Account>("POST", path, body, headers), described);
      },
    );

  account
    .command("suspend <account>")
    .description("suspend an account")
    .example('stoker admin account suspend ada --note "abuse"')
    .option("--reason <reason>", "admin, balance, limit-reached, payment-method, overdue-invoices or bad-cc", "admin")
    .requiredOption("--note <text>", "reason, recorded in the audit log")
    .run(async (terminal, name: string, { reason, note }: { reason: string; note: string }) => {
      const path = `${await pathOf(terminal.api, name)}/suspend`;
      terminal.show(await terminal.api.call<Account>("POST", path, { reason, note }), described);
    });

  account
    .command("lift <account>")
    .description("end a suspension")
    .example('stoker admin account lift ada --note "settled"')
    .option("--reason <reason>", "end only this suspension (default: all)")
    .requiredOption("--note <text>", "reason, recorded in the audit log")
    .run(async (terminal, name: string, { reason, note }: { reason?: string; note: string }) => {
      const path = `${await pathOf(terminal.api, name)}/lift`;
      terminal.show(await terminal.api.call<Account>("POST", path, { reason: reason ?? null, note }), described);
    });

  account
    .command("update <account>")
    .alias("set")
    .description("change the roles of an account")
    .example("stoker admin account update ada --admin")
    .option("--admin", "make it an operator")
    .option("--no-admin", "remove the operator role")
    .option("--team", "make it a team account")
    .option("--no-team", "make it a personal account")
    .option("--note <text>", "reason, recorded in the audit log")
    .run(async (terminal, name: string, flags: { admin?: boolean; team?: boolean; note?: string }) => {
      const body = { is_admin: flags.admin ?? null, is_team_account: flags.team ?? null, note: flags.note ?? null };
      const path = await pathOf(terminal.api, name);
      terminal.show(await terminal.api.call<Account>("PATCH", path, body), described);
    });
}

const pathOf = async (api: Api, name: string): Promise<string> => `${root}/${await uidOf(api, name)}`;

const usd = (amount: number | null): string => (amount === null ? "no limit" : amount.toFixed(2));
const statusOf = (one: Summary): string => one.suspend_reason ?? (one.is_admin ? "operator" : "active");

function described(one: Account): string {
  if (one.deleted_at != null)
    return [
      `${one.uid} was deleted at ${isoTime(one.deleted_at)}; its billing records are kept`,
      `credited USD ${usd(one.credited_usd)}, spent USD ${usd(one.spent_usd)}, remaining USD ${usd(one.funds_usd)}`,
    ].join("\n");
  return [
    `${one.display_name} (${one.uid}) ${one.email}${one.is_admin ? ", operator" : ""}`,
    `funds USD ${usd(one.funds_usd)}, spent USD ${usd(one.spent_usd)}; ${counted(one.keys, "key")}, ${counted(one.deployments, "deployment")}`,
    ...one.suspensions.map(({ reason, since, note }) => `suspended: ${reason} since ${isoTime(since)} (${note})`),
  ].join("\n");
}

export function addAdminPrefixCache(program: Command): void {
  adminGroup(program)
    .command("prefix-cache")
    .example("stoker admin prefix-cache DpM4BkrjEspUwmTa shared")
    .argument("<deploy_id>", "id of the deployment")
    .addArgument(new Argument("<mode>", "shared between accounts, or separate").choices(["shared", "separate"]))
    .description("share the prefix cache of a deployment between accounts, or keep it separate (default)")
    .option("--note <text>", "reason, recorded in the audit log")
    .run(async (terminal, id: string, mode: string, { note }: { readonly note?: string }) => {
      const path = `/v1/admin/deployments/${encodeURIComponent(id)}/prefix-cache`;
      const body = { shared: mode === "shared", note };
      const result = await terminal.api.call<{ deploy_id: string; shared: boolean }>("PUT", path, body);
      terminal.show(result, ({ deploy_id, shared }) => `${deploy_id}: prefix cache ${shared ? "shared" : "separate"}`);
    });
}
