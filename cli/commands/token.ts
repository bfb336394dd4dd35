// API keys of the account, and tokens signed with them that may do less.
import { type Command, InvalidArgumentError } from "commander";
import { readLocalFile } from "../local-file.ts";
import { collect, money, seconds } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";
import { showUsageDays } from "./usage-log.ts";

interface Token {
  readonly token: string;
  readonly token_id: string;
  readonly name: string;
  readonly allowed_ips: readonly string[] | null;
  /** Unix seconds. */
  readonly created_at: number;
  /** Unix seconds. */
  readonly last_used_at: number | null;
}

interface MintFlags {
  readonly key: string;
  readonly models?: readonly string[];
  readonly model?: readonly string[];
  readonly expires?: number;
  readonly limit?: number;
}

interface TokenState {
  /** Unix seconds. */
  readonly expires_at: number;
  readonly models: readonly string[] | null;
  /** USD. */
  readonly spending_limit: number | null;
  readonly spending_current: number;
}

export function addToken(program: Command): void {
  const token = program.command("token").description("API keys of this account, and tokens that may do less");
  token
    .command("create <name>")
    .description("make an API key; it is printed once")
    .option("--ip <address>", "usable from this address or network alone (repeatable)", collect)
    .action(async (name: string, { ip }: { ip?: readonly string[] }, command: Command) => {
      const terminal = openTerminal(command);
      const made = await terminal.api.call<Token>("POST", "/v1/api-tokens", { name, allowed_ips: ip ?? null });
      terminal.show(made, (key) => key.token);
      terminal.progress(`${made.name} (${made.token_id}) is made. Keep the key: lists show only its last characters.`);
    });
  token
    .command("list")
    .description("live keys, masked")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const keys = await terminal.api.call<Token[]>("GET", "/v1/api-tokens");
      terminal.rows(keys, ["ID", "NAME", "KEY", "MADE", "LAST USED", "FROM"], (key) => [
        key.token_id,
        key.name,
        key.token,
        day(key.created_at),
        key.last_used_at === null ? "never" : day(key.last_used_at),
        key.allowed_ips?.join(",") ?? "anywhere",
      ]);
    });
  token
    .command("delete <id>")
    .description("end a key, and every token signed with it; its id stands in `stoker token list`")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      // Under this path nothing is read as a secret, so a key typed by mistake ends nothing.
      const ended = await terminal.api.call<Token>("DELETE", `/v1/api-tokens/id/${encodeURIComponent(id)}`);
      terminal.show(ended, (key) => `${key.name} (${key.token_id}) is ended, with every token it signed`);
    });
  token
    .command("usage <id>")
    .description("what a key used each day, with the tokens that it signed; its id stands in `stoker token list`")
    .option("--from <day>", "YYYY-MM-DD (default: the last 30 days)")
    .option("--to <day>", "the same")
    .option("--csv", "for a spreadsheet")
    .action((only: string, flags: { from?: string; to?: string; csv?: boolean }, command: Command) =>
      showUsageDays(openTerminal(command), "key", { ...flags, from: flags.from, only }),
    );
  addMint(token.command("mint"));
  const jwt = token.command("jwt").description("tokens that keys sign, and that may do less");
  addMint(jwt.command("create"));
  jwt
    .command("inspect [token]")
    .description("what a token may do and has spent, with the key that signed it; read from standard input without one")
    .action(async (given: string | undefined, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const query = new URLSearchParams({ jwtoken: given ?? readLocalFile("-").toString().trim() });
      terminal.show(await terminal.api.call<TokenState>("GET", `/v1/scoped-jwt?${query}`), inWords);
    });
}

function addMint(command: Command): void {
  command
    .description("sign a token with a key: for certain models, for a time, up to an amount")
    .requiredOption("--key <name>", "name of the key that signs; its use is charged")
    .option("--models <names>", "usable for these models alone, with commas between (default: any)", names)
    .option("--model <name>", "the same, one at a time (repeatable)", collect)
    .option("--expires <time>", "how long it lasts, such as 90s, 30m, 1h or 7d (default: a year)", seconds)
    .option("--limit <usd>", "most that it may spend, in USD (default: no limit of its own)", money)
    .action(async ({ key, models, model, expires, limit }: MintFlags, command: Command) => {
      const terminal = openTerminal(command);
      const body = {
        api_key_name: key,
        models: models || model ? [...(models ?? []), ...(model ?? [])] : null,
        expires_delta: expires ?? null,
        spending_limit: limit ?? null,
      };
      terminal.show(await terminal.api.call<{ token: string }>("POST", "/v1/scoped-jwt", body), (made) => made.token);
    });
}

function inWords({ expires_at: end, models, spending_limit: limit, spending_current: spent }: TokenState): string {
  const what = models === null ? "any model" : models.join(", ");
  const most = limit === null ? "no limit of its own" : `of ${plain(limit)} USD`;
  return `${what}, until ${new Date(end * 1000).toISOString().slice(0, 19)}Z, ${plain(spent)} USD spent, ${most}`;
}

/** Never as an exponent. */
const plain = (usd: number): string => usd.toFixed(9).replace(/\.?0+$/, "");

/** No name at all would be a token for nothing, or be taken for one without restriction. */
function names(text: string): string[] {
  const given = text.split(",").map((name) => name.trim());
  if (given.includes("")) throw new InvalidArgumentError("Give names of models with commas between.");
  return given;
}

const day = (unixSeconds: number): string => new Date(unixSeconds * 1000).toISOString().slice(0, 10);
