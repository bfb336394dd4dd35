// `stoker webhook test`: a call as the server makes them, from this machine, so that a receiver can be tried before a model is
// asked. Nothing of it stands in the server's log of calls.
import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import { Webhook } from "standardwebhooks";
import { CliError, exitCode } from "../cli-error.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

/** As long as the server waits for a receiver. */
const limitMs = 20_000;

const example = {
  request_id: "R7X9fdlIaF5GlVisBAi5xR3E",
  inference_status: { status: "succeeded", runtime_ms: 228, cost: 0.000114 },
  results: { results: [{ generated_text: "This is a test." }], num_tokens: 5, num_input_tokens: 4 },
};

export function addWebhookTest(
  webhook: Command,
  secretOf: (terminal: Terminal) => Promise<{ readonly secret: string }>,
): void {
  webhook
    .command("test <url>")
    .description("call a receiver from this machine with an example, signed as the server signs")
    .action(async (url: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      if (!URL.canParse(url)) throw new CliError(`${url} is no URL.`, exitCode.wrongUsage);
      const { secret } = await secretOf(terminal);
      const beganMs = performance.now();
      const { id, status } = await call(url, secret);
      const ms = Math.round(performance.now() - beganMs);
      if (status >= 300 && status < 400)
        throw new CliError(
          `${url} answered ${status}: redirects are not followed. Give the address it leads to.`,
          exitCode.failed,
        );
      if (status < 200 || status >= 300)
        throw new CliError(`${url} answered ${status}; the server would call it again. Answer 2xx.`, exitCode.failed);
      terminal.show({ id, status, duration_ms: ms }, () => `${url} took ${id}: ${status} in ${ms} ms`);
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
        "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
        "webhook-signature": new Webhook(secret).sign(id, at, body),
      },
      body,
      redirect: "manual",
      signal: AbortSignal.timeout(limitMs),
    });
    await answer?.cancel();
    return { id, status };
  } catch (cause) {
    const isLate = cause instanceof DOMException && cause.name === "TimeoutError";
    const why = isLate ? `did not answer within ${limitMs / 1000} s` : "cannot be reached";
    throw new CliError(`${url} ${why}.`, isLate ? exitCode.timedOut : exitCode.unavailable, { cause });
  }
}
