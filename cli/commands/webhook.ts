// Webhooks of native inference: signing secret, log of deliveries, verification and test.

import { randomBytes } from "node:crypto";
import { buffer } from "node:stream/consumers";
import { Argument } from "commander";
import { Webhook } from "standardwebhooks";
import type { Responses } from "../../proto/gen/responses.ts";
import { unixSeconds } from "../../proto/unix-seconds.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { readLocalFile } from "../local-file.ts";
import { between } from "../option-values.ts";
import { openTerminal, type Terminal, utcTime } from "../terminal.ts";

type Secret = Responses["GET /v1/webhooks/secret"];

type Delivery = Responses["GET /v1/webhooks/deliveries"]["deliveries"][number];

type DeliveryWithHistory = Responses["GET /v1/webhooks/deliveries/{webhook_id}"];

interface VerifyFlags {
  readonly id: string;
  readonly timestamp: string;
  readonly signature: string;
  readonly secretFile?: string;
}

export function addWebhook(program: Command): void {
  const webhook = program.command("webhook").description("deliveries of requests sent with `webhook`");
  webhook
    .command("secret")
    .description("print the secret that signs the account's webhooks")
    .example("stoker webhook secret")
    .addArgument(new Argument("[act]", "rotate: replace the secret first").choices(["rotate"]))
    .run(async (terminal, act: string | undefined) => {
      if (act === "rotate") await rotate(terminal);
      else terminal.show(await secretOf(terminal), ({ secret }) => secret);
    });
  webhook
    .command("rotate")
    .description("replace the secret; the old secret stays valid for 24 hours")
    .example("stoker webhook rotate")
    .run((terminal) => rotate(terminal));
  webhook
    .command("list")
    .alias("log")
    .description("list deliveries of the last 7 days, newest first")
    .example("stoker webhook list --limit 50")
    .option("--limit <n>", "maximum number of deliveries", between(1, 100), 20)
    .run(async (terminal, { limit }: { limit: number }) => {
      const path = `/v1/webhooks/deliveries?limit=${limit}`;
      const { deliveries } = await terminal.api.call<{ deliveries: Delivery[] }>("GET", path);
      terminal.rows(
        deliveries,
        {
          ID: "id",
          STATE: "state",
          ATTEMPTS: "attempts",
          LAST: (one) => String(one.last_status ?? one.last_outcome ?? "-"),
          CREATED: (one) => moment(one.created_at),
        },
        {
          empty: "No deliveries in the last 7 days.",
          wide: { REQUEST: "request_id", URL: "url", ERROR: (one) => one.error_code ?? "" },
        },
      );
    });
  webhook
    .command("get <id>")
    .alias("info")
    .description("show a delivery and its attempts; the id is the header `webhook-id`")
    .example("stoker webhook get msg_01KAJ000000000000000000000")
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<DeliveryWithHistory>("GET", pathOf(id)), deliveryText);
    });
  webhook
    .command("replay <id>")
    .description("send a finished delivery again, with the same id and body")
    .example("stoker webhook replay msg_01KAJ000000000000000000000")
    .run(async (terminal, id: string) => {
      const one = await terminal.api.call<DeliveryWithHistory>("POST", `${pathOf(id)}/replay`);
      terminal.show(one, ({ url }) => `Sending ${id} to ${url} again`);
    });
  webhook
    .command("verify [file]")
    .example("stoker webhook verify body.json --id ID --timestamp T --signature S")
    .description(
      "verify the signature of a delivery, from its unchanged body (file or standard input) and three headers",
    )
    .requiredOption("--id <text>", "header `webhook-id`")
    .requiredOption("--timestamp <text>", "header `webhook-timestamp`")
    .requiredOption("--signature <text>", "header `webhook-signature`")
    .option(
      "--secret-file <path>",
      "file with the secret (default: STOKER_WEBHOOK_SECRET, otherwise read from the server)",
    )
    .action(verify);
  addTest(webhook);
}

async function rotate(terminal: Terminal): Promise<void> {
  const made = await terminal.api.call<Secret>("POST", "/v1/webhooks/secret/rotate");
  terminal.show(made, ({ secret }) => secret);
  if (made.previous_secret_expires_at !== null)
    terminal.progress(`The old secret stays valid until ${moment(made.previous_secret_expires_at)}.`);
}

async function verify(file: string | undefined, flags: VerifyFlags, command: Command): Promise<void> {
  const terminal = openTerminal(command);
  const body = file === undefined ? await buffer(process.stdin) : readLocalFile(file);
  const { id, timestamp, signature, secretFile } = flags;
  const given =
    secretFile === undefined ? process.env["STOKER_WEBHOOK_SECRET"] : readLocalFile(secretFile).toString().trim();
  const secret = given || (await secretOf(terminal)).secret;
  try {
    // Compares in constant time and rejects timestamps more than five minutes off.
    new Webhook(secret).verify(body, {
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": signature,
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : "the signature does not match";
    throw new CliError(`Verification failed: ${why}.`, exitCode.failed, { cause: error });
  }
  terminal.show({ id, genuine: true }, () => `${id} is genuine. Process each id once: a delivery may be repeated.`);
}

const secretOf = (terminal: Terminal): Promise<Secret> => terminal.api.call<Secret>("GET", "/v1/webhooks/secret");
const pathOf = (id: string): string => `/v1/webhooks/deliveries/${encodeURIComponent(id)}`;

function deliveryText(one: DeliveryWithHistory): string {
  const attempts = one.history.map(
    ({ at, duration_ms, outcome, status, answer }) =>
      `${moment(at)}  ${status ?? outcome}  ${duration_ms} ms  ${answer.replaceAll(/\s+/g, " ").slice(0, 200)}`,
  );
  const why = one.error_message === null ? [] : [`the request failed: ${one.error_message}`];
  return [
    `${one.id} of ${one.event ?? `request ${one.request_id}`} to ${one.url}: ${one.state}`,
    ...why,
    ...attempts,
  ].join("\n");
}

const moment = (seconds: number): string => utcTime(seconds);

/** Same limit as on the server. */
const testLimitMs = 20_000;

const example = {
  request_id: "R7X9fdlIaF5GlVisBAi5xR3E",
  inference_status: { status: "succeeded", runtime_ms: 228, cost: 0.000114 },
  results: { results: [{ generated_text: "This is a test." }], num_tokens: 5, num_input_tokens: 4 },
};

function addTest(webhook: Command): void {
  webhook
    .command("test <url>")
    .description("send a signed example delivery to a receiver from this machine; not recorded in the log")
    .example("stoker webhook test https://example.com/hook")
    .run(async (terminal, url: string) => {
      if (!URL.canParse(url)) throw new CliError(`Invalid URL ${url}.`, exitCode.wrongUsage);
      const { secret } = await secretOf(terminal);
      const startMs = performance.now();
      const { id, status } = await call(url, secret);
      const ms = Math.round(performance.now() - startMs);
      if (status >= 300 && status < 400)
        throw new CliError(
          `${url} returned ${status}. Redirects are not followed; use the final URL.`,
          exitCode.failed,
        );
      if (status < 200 || status >= 300)
        throw new CliError(`${url} returned ${status}. The server would retry; return 2xx.`, exitCode.failed);
      terminal.show({ id, status, duration_ms: ms }, () => `${url} accepted ${id}: ${status} in ${ms} ms`);
    });
}

async function call(url: string, secret: string): Promise<{ readonly id: string; readonly status: number }> {
  const id = `msg_test${randomBytes(8).toString("hex")}`;
  const body = JSON.stringify(example);
  const at = new Date();
  try {
    const { status, body: answer } = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "user-agent": "stoker-webhooks/1",
        "webhook-id": id,
        "webhook-timestamp": String(unixSeconds(at.getTime())),
        "webhook-signature": new Webhook(secret).sign(id, at, body),
      },
      body,
      redirect: "manual",
      signal: AbortSignal.timeout(testLimitMs),
    });
    await answer?.cancel();
    return { id, status };
  } catch (cause) {
    const isLate = cause instanceof DOMException && cause.name === "TimeoutError";
    const message = isLate ? `No response from ${url} within ${testLimitMs / 1000} s.` : `Could not reach ${url}.`;
    throw new CliError(message, isLate ? exitCode.timedOut : exitCode.unavailable, { cause });
  }
}
