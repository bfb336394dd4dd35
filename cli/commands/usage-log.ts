import type { Command } from "commander";
import { uidOf } from "../account-uid.ts";
import { atLeast } from "../option-values.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

interface Days {
  readonly days: readonly {
    readonly day: string;
    readonly items: readonly {
      readonly id: string;
      readonly name: string;
      readonly requests: number;
      readonly input_tokens: number;
      readonly output_tokens: number;
      /** Cents. */
      readonly cost: number;
    }[];
  }[];
}

interface LoggedRequest {
  readonly request_id: string;
  readonly attempt: number;
  readonly model: string;
  readonly end_reason: string;
  readonly created_at: number;
  readonly queue_ms: number;
  readonly first_byte_ms: number;
  readonly total_ms: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost: number;
}

const usd = (cents: number): string => (cents / 100).toFixed(6);

/** By `--by`: of what the use of each day is told. */
export const dayDimensions: Readonly<Record<string, "model" | "key" | "token">> = {
  day: "model",
  "day-key": "key",
  "day-token": "token",
};

export async function showUsageDays(
  terminal: Terminal,
  by: "model" | "key" | "token",
  from: string | undefined,
  to: string | undefined,
): Promise<void> {
  const found = await terminal.api.call<Days>("GET", `/v1/usage/days?${queryOf({ by, from, to })}`);
  if (terminal.json) return terminal.show(found, String);
  const lines = found.days.flatMap(({ day, items }) => items.map((item) => ({ ...item, day })));
  terminal.rows(lines, ["DAY", by.toUpperCase(), "REQUESTS", "TOKENS", "USD"], (item) => [
    item.day,
    by === "token" ? `${item.id.slice(0, 12)} of ${item.name}` : item.name || item.id || "-",
    String(item.requests),
    `${item.input_tokens}+${item.output_tokens}`,
    usd(item.cost),
  ]);
}

export function addRequest(program: Command): void {
  const request = program.command("request").description("what became of requests that have ended");
  request
    .command("list")
    .description("the account's requests, newest first")
    .option("--failed", "only those that did not end as asked")
    .option("--model <model>", "only of this one")
    .option("--from <time>", "unix seconds, or now-7d, which is the default")
    .option("--limit <n>", "at most", atLeast(1), 50)
    .option("--account <account>", "somebody else's, for operators (uid, e-mail address or display name)")
    .action(async (flags: Readonly<Record<string, string>> & { limit: number }, command: Command) => {
      const terminal = openTerminal(command);
      const { limit, account, ...filter } = flags;
      const of = account === undefined ? {} : { account: await uidOf(terminal.api, account) };
      const query = queryOf({ ...filter, ...of, limit: String(Math.min(limit, 200)) });
      const path = account === undefined ? "/v1/requests" : "/v1/admin/requests";
      const { requests } = await terminal.api.call<{ requests: LoggedRequest[] }>("GET", `${path}?${query}`);
      terminal.rows(requests, ["REQUEST", "AT (UTC)", "MODEL", "END", "MS", "USD"], listed);
    });
  request
    .command("show <id>")
    .description("each attempt of one, by the x-request-id of its answer")
    .option("--anybody", "whoever's it is, for operators")
    .action(async (id: string, { anybody }: { anybody?: boolean }, command: Command) => {
      const terminal = openTerminal(command);
      const path = `/v1/${anybody ? "admin/" : ""}requests/${encodeURIComponent(id)}`;
      const found = await terminal.api.call<{ attempts: LoggedRequest[] }>("GET", path);
      terminal.show(found, ({ attempts }) => attempts.map(described).join("\n\n"));
    });
}

/** One line of a width that a terminal has. */
const listed = (one: LoggedRequest): string[] => [
  one.request_id,
  new Date(one.created_at * 1000).toISOString().slice(5, 16).replace("T", " "),
  one.model,
  one.end_reason,
  String(one.total_ms),
  usd(one.cost),
];

const described = (one: LoggedRequest): string =>
  [
    `${one.request_id}${one.attempt === 1 ? "" : `, attempt ${one.attempt}`}`,
    `model    ${one.model}`,
    `made     ${new Date(one.created_at * 1000).toISOString()}`,
    `ended    ${one.end_reason}`,
    `time     ${one.queue_ms} ms waited, first byte after ${one.first_byte_ms} ms, ${one.total_ms} ms in all`,
    `tokens   ${one.input_tokens} in, ${one.output_tokens} out`,
    `cost     USD ${usd(one.cost)}`,
  ].join("\n");

const queryOf = (fields: Readonly<Record<string, string | boolean | undefined>>): URLSearchParams =>
  new URLSearchParams(
    Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  );
