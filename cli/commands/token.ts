// API keys of the account, and tokens signed with them that may do less.
import { type Command, InvalidArgumentError } from "commander";
import { collect, money, seconds } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

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
  readonly expires?: number;
  readonly limit?: number;
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
    .command("mint")
    .description("sign a token with a key: for certain models, for a time, up to an amount")
    .requiredOption("--key <name>", "name of the key that signs; its use is charged")
    .option("--models <names>", "usable for these models alone, with commas between (default: any)", names)
    .option("--expires <time>", "how long it lasts, such as 90s, 30m, 1h or 7d (default: a year)", seconds)
    .option("--limit <usd>", "most that it may spend, in USD (default: no limit of its own)", money)
    .action(async ({ key, models, expires, limit }: MintFlags, command: Command) => {
      const terminal = openTerminal(command);
      const body = {
        api_key_name: key,
        models: models ?? null,
        expires_delta: expires ?? null,
        spending_limit: limit ?? null,
      };
      terminal.show(await terminal.api.call<{ token: string }>("POST", "/v1/scoped-jwt", body), (made) => made.token);
    });
}

/** No name at all would be a token for nothing, or be taken for one without restriction. */
function names(text: string): string[] {
  const given = text.split(",").map((name) => name.trim());
  if (given.includes("")) throw new InvalidArgumentError("Give names of models with commas between.");
  return given;
}

const day = (unixSeconds: number): string => new Date(unixSeconds * 1000).toISOString().slice(0, 10);
