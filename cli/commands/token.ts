// API keys of the account, and scoped tokens signed with them.

import { InvalidArgumentError } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { unixSeconds } from "../../proto/unix-seconds.ts";
import type { Command } from "../command.ts";
import { readLocalFile } from "../local-file.ts";
import { atLeast, collect, money, seconds } from "../option-values.ts";
import { isoTime, utcMinute, utcTime } from "../terminal.ts";
import { showUsageDays } from "./usage-log.ts";

type Token = Responses["POST /v1/api-tokens"];

interface RuleFlags {
  readonly ip?: readonly string[];
  readonly model?: readonly string[];
  readonly expires?: number | "none";
  readonly rpm?: number | "none";
  readonly tpm?: number | "none";
  /** USD. */
  readonly budget?: number | "none";
  readonly role?: string;
  readonly trustUserHeaders?: boolean;
}

interface MintFlags {
  readonly key: string;
  readonly models?: readonly string[];
  readonly model?: readonly string[];
  readonly expires?: number;
  readonly limit?: number;
}

type TokenState = Responses["GET /v1/scoped-jwt"];

export function addToken(program: Command): void {
  const token = program.command("token").description("API keys and scoped tokens of this account");
  addRules(token.command("create <name>").example("stoker token create ci --role inference --expires 30d"))
    .description("create an API key and print it once")
    .option("--member <id>", "service account that the key is for (`stoker member list`)")
    .option("--project <id>", "project whose budget it spends (`stoker project list`); it cannot leave it")
    .run(async (terminal, name: string, flags: RuleFlags & { readonly member?: string; readonly project?: string }) => {
      const { member, project } = flags;
      const body = {
        name,
        ...rulesOf(flags),
        ...(member !== undefined && { member_id: member }),
        ...(project !== undefined && { project_id: project }),
      };
      const created = await terminal.api.call<Token>("POST", "/v1/api-tokens", body);
      terminal.show(created, (key) => key.token);
      terminal.progress(`Created ${created.name} (${created.token_id}). Save the key now: it is shown only once.`);
    });
  addRules(token.command("update <id>").example("stoker token update key-ada --model org/model --rpm 600"))
    .description("change what an API key may do, by its id (`stoker token list`); other options stay")
    .run(async (terminal, id: string, flags: RuleFlags) => {
      const path = `/v1/api-tokens/id/${encodeURIComponent(id)}`;
      const changed = await terminal.api.call<Token>("PATCH", path, rulesOf(flags));
      terminal.show(changed, (key) => `Changed ${key.name} (${key.token_id})`);
    });
  token
    .command("list")
    .description("list API keys; --output wide: also models, limits and addresses")
    .example("stoker token list -o wide")
    .run(async (terminal) => {
      const keys = await terminal.api.call<Token[]>("GET", "/v1/api-tokens");
      terminal.rows(
        keys,
        {
          ID: "token_id",
          NAME: "name",
          ROLE: "role",
          "LAST USED": (key) => (key.last_used_at === null ? "never" : day(key.last_used_at)),
          EXPIRES: (key) => (key.expires_at === null ? "never" : minute(key.expires_at)),
        },
        {
          wide: {
            KEY: "token",
            CREATED: (key) => day(key.created_at),
            MODELS: (key) => key.allowed_models?.join(",") ?? "any",
            LIMITS: limitsText,
            "ALLOWED FROM": (key) => key.allowed_ips?.join(",") ?? "anywhere",
          },
        },
      );
    });
  token
    .command("delete <id>")
    .description("revoke an API key by its id (`stoker token list`), with all tokens it signed")
    .example("stoker token delete key-ada")
    .confirm(async ({ api }, id: string) => {
      const { name } = await api.call<Token>("GET", `/v1/api-tokens/id/${encodeURIComponent(id)}`);
      return `Revoke the key ${id} (${name}) and all tokens it signed?`;
    })
    .run(async (terminal, id: string) => {
      // This path takes ids only, so a key typed by mistake deletes nothing.
      const revoked = await terminal.api.call<Token>("DELETE", `/v1/api-tokens/id/${encodeURIComponent(id)}`);
      terminal.show(revoked, (key) => `Revoked ${key.name} (${key.token_id}) and all tokens it signed`);
    });
  token
    .command("usage <id>")
    .description("daily usage of an API key by its id (`stoker token list`), including tokens it signed")
    .example("stoker token usage key-ada --csv")
    .option("--from <day>", "start, YYYY-MM-DD (default: the last 30 days)")
    .option("--to <day>", "end, YYYY-MM-DD")
    .option("--csv", "print CSV")
    .run((terminal, only: string, flags: { from?: string; to?: string; csv?: boolean }) =>
      showUsageDays(terminal, "key", { ...flags, from: flags.from, only }),
    );
  addMint(token.command("mint").example("stoker token mint --key ci --model org/model --expires 1h --limit 5"));
  const jwt = token.command("jwt").description("scoped tokens");
  addMint(jwt.command("create").example("stoker token jwt create --key ci --expires 1h"));
  jwt
    .command("get [token]")
    .alias("inspect")
    .description("show the scope and spending of a token; read from standard input if omitted")
    .example("stoker token jwt get --json")
    .run(async (terminal, given: string | undefined) => {
      const query = new URLSearchParams({ jwtoken: given ?? readLocalFile("-").toString().trim() });
      terminal.show(await terminal.api.call<TokenState>("GET", `/v1/scoped-jwt?${query}`), stateText);
    });
}

const addRules = (command: Command): Command =>
  command
    .option("--ip <address>", "allow only this address or network (repeatable); any: anywhere", collect)
    .option("--model <name>", "allow only this model (repeatable); any: all models", collect)
    .option("--expires <time>", "lifetime from now, such as 12h or 30d; none: no expiry", orNone(seconds))
    .option("--rpm <count>", "requests per minute; none: no limit of its own", orNone(atLeast(1)))
    .option("--tpm <count>", "tokens per minute, input and output; none: no limit of its own", orNone(atLeast(1)))
    .option("--budget <usd>", "limit per month (UTC); none: no limit, 0: blocked", orNone(money))
    .option("--role <role>", "admin, read or inference (default of a new key: admin)")
    .option("--trust-user-headers", "count requests for the end user in their X-OpenWebUI-User headers")
    .option("--no-trust-user-headers", "ignore these headers");

/** Body with the given options. */
function rulesOf({ ip, model, expires, rpm, tpm, budget, role, trustUserHeaders }: RuleFlags): object {
  return {
    ...(ip && { allowed_ips: orAny(ip) }),
    ...(model && { allowed_models: orAny(model) }),
    ...(expires !== undefined && { expires_at: expires === "none" ? null : unixSeconds(Date.now()) + expires }),
    ...(rpm !== undefined && { requests_per_minute: rpm === "none" ? null : rpm }),
    ...(tpm !== undefined && { tokens_per_minute: tpm === "none" ? null : tpm }),
    ...(budget !== undefined && { monthly_limit: budget === "none" ? null : budget }),
    ...(role !== undefined && { role }),
    ...(trustUserHeaders !== undefined && { trusts_user_headers: trustUserHeaders }),
  };
}

const orAny = (given: readonly string[]): readonly string[] | null => (given.includes("any") ? null : given);

const orNone =
  (read: (text: string) => number) =>
  (text: string): number | "none" =>
    text === "none" ? text : read(text);

function limitsText({ requests_per_minute: rpm, tokens_per_minute: tpm, monthly_limit: budget }: Token): string {
  const limits = [
    ...(budget == null ? [] : [`${plain(budget)} USD a month`]),
    ...(rpm === null ? [] : [`${rpm} rpm`]),
    ...(tpm === null ? [] : [`${tpm} tpm`]),
  ];
  return limits.join(", ") || "none";
}

function addMint(command: Command): void {
  command
    .description("create a token limited to models, a lifetime and an amount")
    .requiredOption("--key <name>", "name of the signing key, which is charged")
    .option("--models <names>", "allowed models, separated by commas (default: all)", names)
    .option("--model <name>", "allowed model (repeatable)", collect)
    .option("--expires <time>", "lifetime, such as 90s, 30m, 1h or 7d (default: one year)", seconds)
    .option("--limit <usd>", "spending limit in USD (default: none)", money)
    .run(async (terminal, { key, models, model, expires, limit }: MintFlags) => {
      const body = {
        api_key_name: key,
        models: models || model ? [...(models ?? []), ...(model ?? [])] : null,
        expires_delta: expires ?? null,
        spending_limit: limit ?? null,
      };
      terminal.show(await terminal.api.call<{ token: string }>("POST", "/v1/scoped-jwt", body), (made) => made.token);
    });
}

function stateText({ expires_at: end, models, spending_limit: limit, spending_current: spent }: TokenState): string {
  const what = models === undefined ? "all models" : models.join(", ");
  const max = limit === undefined ? "no spending limit" : `limit ${plain(limit)} USD`;
  return `${what}, until ${utcTime(end)}, ${plain(spent)} USD spent, ${max}`;
}

/** Without an exponent. */
const plain = (usd: number): string => usd.toFixed(9).replace(/\.?0+$/, "");

/** An empty name would allow nothing, or be read as no restriction. */
function names(text: string): string[] {
  const given = text.split(",").map((name) => name.trim());
  if (given.includes("")) throw new InvalidArgumentError("Must be model names separated by commas.");
  return given;
}

const minute = (unixSeconds: number): string => `${utcMinute(unixSeconds)}`;
const day = (unixSeconds: number): string => isoTime(unixSeconds).slice(0, 10);
