import type { Command } from "commander";
import { uidOf } from "../account-uid.ts";
import { between } from "../option-values.ts";
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

const mostListed = 200;
const usd = (cents: number): string => (cents / 100).toFixed(6);

/** By `--by`: of what the use of each day is told. */
export const dayDimensions: Readonly<Record<string, "model" | "key" | "token">> = {
  day: "model",
  key: "key",
  "day-key": "key",
  jwt: "token",
  "day-token": "token",
};

interface DaysWish {
  /** YYYY-MM-DD; by default the last 30 days. */
  readonly from: string | undefined;
  readonly to?: string;
  readonly csv?: boolean;
  /** An id: of no other. */
  readonly only?: string;
}

export async function showUsageDays(terminal: Terminal, by: "model" | "key" | "token", wish: DaysWish): Promise<void> {
  const { from, to, csv, only } = wish;
  const found = await terminal.api.call<Days>("GET", `/v1/usage/days?${queryOf({ by, from, to })}`);
  // Without the sums of days, which are of all.
  const ofOne = ({ day, items }: Days["days"][number]) => ({ day, items: items.filter(({ id }) => id === only) });
  const days = only === undefined ? found.days : found.days.map(ofOne);
  if (only !== undefined && days.every(({ items }) => items.length === 0)) await requireKey(terminal, only);
  if (terminal.json) return terminal.show({ ...found, days }, String);
  const lines = days.flatMap(({ day, items }) => items.map((item) => ({ ...item, day })));
  terminal[csv ? "csv" : "rows"](lines, ["DAY", by.toUpperCase(), "REQUESTS", "TOKENS", "USD"], (item) => [
    item.day,
    by === "token" ? `${item.id.slice(0, 12)} of ${item.name}` : item.name || item.id || "no key",
    String(item.requests),
    `${item.input_tokens}+${item.output_tokens}`,
    usd(item.cost),
  ]);
}

/** No use of a key that is not there is no answer: a live key or 404. Keys that were ended have their days still. */
async function requireKey(terminal: Terminal, id: string): Promise<void> {
  await terminal.api.call("GET", `/v1/api-tokens/id/${encodeURIComponent(id)}`);
}

export function addRequest(program: Command): void {
  const request = program.command("request").description("what became of requests that have ended");
  request
    .command("list")
    .description("the account's requests, newest first")
    .option("--failed", "only those that did not end as asked")
    .option("--model <model>", "only of this one")
    .option("--from <time>", "unix seconds, or now-7d, which is the default")
    .option("--limit <n>", "at most", between(1, mostListed), 50)
    .option("--after <id>", "go on after this one, the last of a list")
    .option("--account <account>", "somebody else's, for operators (uid, e-mail address or display name)")
    .action(async (flags: Readonly<Record<string, string>> & { limit: number }, command: Command) => {
      const terminal = openTerminal(command);
      const { limit, account, ...filter } = flags;
      const of = account === undefined ? {} : { account: await uidOf(terminal.api, account) };
      const query = queryOf({ ...filter, ...of, limit: String(limit) });
      const path = account === undefined ? "/v1/requests" : "/v1/admin/requests";
      const { requests, has_more: isMore } = await terminal.api.call<{ requests: LoggedRequest[]; has_more: boolean }>(
        "GET",
        `${path}?${query}`,
      );
      terminal.rows(requests, ["REQUEST", "AT (UTC)", "MODEL", "END", "MS", "USD"], listed);
      if (isMore)
        terminal.progress(
          `There are more: --limit lists up to ${mostListed} at once, --after ${requests.at(-1)?.request_id} goes on from here.`,
        );
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
