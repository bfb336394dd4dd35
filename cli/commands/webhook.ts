// Webhooks of native inference: the secret that signs them, the log of calls, and whether a call is genuine.
import { buffer } from "node:stream/consumers";
import { Argument, type Command } from "commander";
import { Webhook } from "standardwebhooks";
import { CliError, exitCode } from "../cli-error.ts";
import { readLocalFile } from "../local-file.ts";
import { between } from "../option-values.ts";
import { openTerminal, type Terminal } from "../terminal.ts";
import { addWebhookTest } from "./webhook-test.ts";

interface Secret {
  readonly secret: string;
  /** Unix seconds. */
  readonly previous_secret_expires_at: number | null;
}

interface Delivery {
  readonly id: string;
  readonly request_id: string;
  readonly url: string;
  readonly state: string;
  readonly error_message: string | null;
  readonly attempts: number;
  readonly last_status: number | null;
  readonly last_outcome: string | null;
  /** Unix seconds. */
  readonly created_at: number;
}

interface DeliveryWithHistory extends Delivery {
  readonly history: readonly {
    readonly at: number;
    readonly duration_ms: number;
    readonly outcome: string;
    readonly status: number | null;
    readonly answer: string;
  }[];
}

interface VerifyFlags {
  readonly id: string;
  readonly timestamp: string;
  readonly signature: string;
  readonly secretFile?: string;
}

export function addWebhook(program: Command): void {
  const webhook = program.command("webhook").description("calls that answer requests sent with `webhook`");
  webhook
    .command("secret")
    .description("print the secret that signs the account's webhooks")
    .addArgument(new Argument("[act]", "rotate: replace it first").choices(["rotate"]))
    .action(async (act: string | undefined, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      if (act === "rotate") await rotate(terminal);
      else terminal.show(await secretOf(terminal), ({ secret }) => secret);
    });
  webhook
    .command("rotate")
    .description("replace the secret; the one before signs as well for 24 hours")
    .action((_flags: object, command: Command) => rotate(openTerminal(command)));
  webhook
    .command("list")
    .alias("log")
    .description("calls of the last 7 days, newest first")
    .option("--limit <n>", "how many (default: 20)", between(1, 100), 20)
    .action(async ({ limit }: { limit: number }, command: Command) => {
      const terminal = openTerminal(command);
      const path = `/v1/webhooks/deliveries?limit=${limit}`;
      const { deliveries } = await terminal.api.call<{ deliveries: Delivery[] }>("GET", path);
      terminal.rows(deliveries, ["ID", "STATE", "TRIES", "LAST", "MADE"], (one) => [
        one.id,
        one.state,
        String(one.attempts),
        String(one.last_status ?? one.last_outcome ?? "-"),
        moment(one.created_at),
      ]);
    });
  webhook
    .command("info <id>")
    .description("one call with its attempts; its id is the header `webhook-id`")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await terminal.api.call<DeliveryWithHistory>("GET", pathOf(id)), told);
    });
  webhook
    .command("replay <id>")
    .description("make a call that has ended again, with the same id and body")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const one = await terminal.api.call<DeliveryWithHistory>("POST", `${pathOf(id)}/replay`);
      terminal.show(one, ({ url }) => `${id} is on its way again to ${url}`);
    });
  webhook
    .command("verify [file]")
    .description(
      "is a call genuine? Takes its body as it came, from a file or standard input, and three of its headers",
    )
    .requiredOption("--id <text>", "header `webhook-id`")
    .requiredOption("--timestamp <text>", "header `webhook-timestamp`")
    .requiredOption("--signature <text>", "header `webhook-signature`")
    .option(
      "--secret-file <path>",
      "holds the secret (default: STOKER_WEBHOOK_SECRET, else the server is asked for it)",
    )
    .action(verify);
  addWebhookTest(webhook, secretOf);
}

async function rotate(terminal: Terminal): Promise<void> {
  const made = await terminal.api.call<Secret>("POST", "/v1/webhooks/secret/rotate");
  terminal.show(made, ({ secret }) => secret);
  if (made.previous_secret_expires_at !== null)
    terminal.progress(`The secret before it signs as well until ${moment(made.previous_secret_expires_at)}.`);
}

async function verify(file: string | undefined, flags: VerifyFlags, command: Command): Promise<void> {
  const terminal = openTerminal(command);
  const body = file === undefined ? await buffer(process.stdin) : readLocalFile(file);
  const { id, timestamp, signature, secretFile } = flags;
  const given =
    secretFile === undefined ? process.env["STOKER_WEBHOOK_SECRET"] : readLocalFile(secretFile).toString().trim();
  const secret = given || (await secretOf(terminal)).secret;
  try {
    // Compares in constant time, and refuses what is more than five minutes old or ahead.
    new Webhook(secret).verify(body, {
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": signature,
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : "the signature does not fit";
    throw new CliError(`The call is not genuine, or too old: ${why}.`, exitCode.failed, { cause: error });
  }
  terminal.show({ id, genuine: true }, () => `${id} is genuine. Take each id once: a call may come again.`);
}

const secretOf = (terminal: Terminal): Promise<Secret> => terminal.api.call<Secret>("GET", "/v1/webhooks/secret");
const pathOf = (id: string): string => `/v1/webhooks/deliveries/${encodeURIComponent(id)}`;

function told(one: DeliveryWithHistory): string {
  const attempts = one.history.map(
    ({ at, duration_ms, outcome, status, answer }) =>
      `${moment(at)}  ${status ?? outcome}  ${duration_ms} ms  ${answer.replaceAll(/\s+/g, " ").slice(0, 200)}`,
  );
  const why = one.error_message === null ? [] : [`the request failed: ${one.error_message}`];
  return [`${one.id} of request ${one.request_id} to ${one.url}: ${one.state}`, ...why, ...attempts].join("\n");
}

const moment = (unixSeconds: number): string => `${new Date(unixSeconds * 1000).toISOString().slice(0, 19)}Z`;
