import { Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { counted } from "../counted.ts";
import { between } from "../option-values.ts";
import { isoTime, type Terminal } from "../terminal.ts";
import { uidOf } from "./admin-account.ts";

type Days = Responses["GET /v1/usage/days"];

type LoggedRequest = Responses["GET /v1/requests"]["requests"][number];

const maxListed = 200;
const usd = (cents: number): string => (cents / 100).toFixed(6);

interface Sums {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost: number;
}

const tokens = ({ input_tokens: input, output_tokens: output }: Sums): string => `${input}+${output}`;

/** Columns of CSV that a spreadsheet can add: one number each, cost to a billionth of a dollar. */
const sums = {
  "INPUT TOKENS": "input_tokens",
  "OUTPUT TOKENS": "output_tokens",
  USD: ({ cost }: Sums) => (cost / 100).toFixed(9),
} as const;

/** Dimension of the API by value of `--by`. */
export const dayDimensions: Readonly<Record<string, "model" | "key" | "token" | "user">> = {
  day: "model",
  key: "key",
  "day-key": "key",
  jwt: "token",
  user: "user",
  "day-token": "token",
};

interface DaysQuery {
  /** YYYY-MM-DD; by default the last 30 days. */
  readonly from: string | undefined;
  readonly to?: string;
  readonly csv?: boolean;
  /** Only the usage of this id. */
  readonly only?: string;
}

export async function showUsageDays(
  terminal: Terminal,
  by: "model" | "key" | "token" | "user",
  query: DaysQuery,
): Promise<void> {
  const { from, to, csv, only } = query;
  const found = await terminal.api.call<Days>("GET", `/v1/usage/days?${queryOf({ by, from, to })}`);
  // Omits the sums per day, because they include other ids.
  const ofOne = ({ day, items }: Days["days"][number]) => ({ day, items: items.filter(({ id }) => id === only) });
  const days = only === undefined ? found.days : found.days.map(ofOne);
  if (only !== undefined && days.every(({ items }) => items.length === 0)) await requireKey(terminal, only);
  if (terminal.isStructured) return terminal.show({ ...found, days }, String);
  const lines = days.flatMap(({ day, items }) => items.map((item) => ({ ...item, day })));
  const columns = {
    DAY: "day",
    [by.toUpperCase()]: (item: (typeof lines)[number]) =>
      by === "token"
        ? `${item.id.slice(0, 12)} of ${item.name}`
        : item.name || item.id || (by === "user" ? "no user" : "no key"),
    REQUESTS: "requests",
  } as const;
  if (csv) terminal.csv(lines, { ...columns, ...sums });
  else
    terminal.rows(
      lines,
      { ...columns, TOKENS: tokens, USD: (item) => usd(item.cost) },
      { empty: "No usage in this period." },
    );
}

type Users = Responses["GET /v1/usage/users"];

export function addUsageUsers(usage: Command): void {
  usage
    .command("users")
    .description("usage of the account by end user, all pages, in USD")
    .example("stoker usage users --by month")
    .option("--from <day>", "YYYY-MM-DD (default: 30 days)")
    .option("--to <day>", "last day")
    .option("--by <period>", "month or day", "month")
    .option("--model <model>", "only requests to this model")
    .option("--key <id>", "only requests with this key")
    .option("--csv", "print CSV")
    .run(async (terminal, own: Readonly<Record<string, string>> & { csv?: boolean }) => {
      // The parser gives options that `usage` has too to `usage`.
      const shared = Object.entries(usage.opts()).filter(([name]) => usage.getOptionValueSource(name) === "cli");
      const { csv, ...filter } = { ...own, ...Object.fromEntries(shared) };
      const users: Users["users"] = [];
      let after: string | undefined;
      do {
        const page = await terminal.api.call<Users>("GET", `/v1/usage/users?${queryOf({ ...filter, after })}`);
        users.push(...page.users);
        after = page.next ?? undefined;
      } while (after !== undefined);
      if (terminal.isStructured) return terminal.show({ users }, String);
      if (csv) {
        // A user may be called "no name".
        return terminal.csv(users, {
          PERIOD: "period",
          USER: (one) => one.user ?? "",
          REQUESTS: "requests",
          ...sums,
        });
      }
      terminal.rows(
        users,
        {
          PERIOD: "period",
          USER: (one) => one.user ?? "no name",
          REQUESTS: "requests",
          TOKENS: tokens,
          USD: (one) => usd(one.cost),
        },
        { empty: "No usage in this period." },
      );
    });
  usage
    .command("erase-user <user>")
    .description("erase the name of an end user; the sums stay under no name")
    .example("stoker usage erase-user ann")
    .confirm((_, user: string) => `Erase the name ${user} from the usage of this account?`)
    .run(async (terminal, user: string) => {
      await terminal.api.call("DELETE", `/v1/usage/users?${queryOf({ user })}`);
      terminal.show({}, () => `Erased ${user}.`);
    });
}

/** Fails with 404 if the key does not exist, instead of showing no usage. Revoked keys keep their usage. */
async function requireKey(terminal: Terminal, id: string): Promise<void> {
  await terminal.api.call("GET", `/v1/api-tokens/id/${encodeURIComponent(id)}`);
}

export function addRequest(program: Command): void {
  const request = program.command("request").description("log of finished requests");
  request
    .command("list")
    .description("list requests of the account, newest first")
    .example("stoker request list --failed")
    .example("stoker request list --rejected --code model_not_found")
    .example("stoker request list --rejected --account ada")
    .option("--failed", "only failed requests")
    .addOption(
      new Option("--rejected", "requests that ended with an error before a host recorded them").conflicts(recordedOnly),
    )
    .option("--code <code>", "with --rejected: only this error code, such as rate_limit_exceeded")
    .option("--model <model>", "only requests to this model")
    .option("--key <id>", "only requests with this key (`stoker token list`)")
    .option("--user <name>", "only requests for this end user")
    .option("--status <code>", "only this HTTP status, such as 429, or 4xx")
    .option("--end-reason <reason>", "only requests that ended so, such as engine_timeout")
    .option("--from <time>", "start, Unix seconds or relative such as now-7d (default)")
    .option("--limit <n>", "maximum number of requests", between(1, maxListed), 50)
    .option("--after <id>", "list requests after this one (next page)")
    .option("--account <account>", "requests of another account, for operators (uid, e-mail address or display name)")
    .addOption(new Option("--anybody", "with --rejected: of all accounts, for operators").conflicts("account"))
    .run(async (terminal, flags: Readonly<Record<string, string>> & { limit: number; anybody?: boolean }) => {
      const { limit, account, anybody = false, endReason, rejected, code, ...filter } = flags;
      const of = account === undefined ? {} : { account: await uidOf(terminal.api, account) };
      if (rejected) {
        const isForOperators = anybody || account !== undefined;
        return listRejected(terminal, { ...filter, ...of, code, limit: String(limit) }, isForOperators);
      }
      if (code !== undefined) throw new CliError("--code needs --rejected.", exitCode.wrongUsage);
      if (anybody)
        throw new CliError(
          "--anybody needs --rejected. Failed requests of all accounts: `stoker admin failures`.",
          exitCode.wrongUsage,
        );
      const query = queryOf({ ...filter, ...of, end_reason: endReason, limit: String(limit) });
      const path = account === undefined ? "/v1/requests" : "/v1/admin/requests";
      const { requests, has_more: isMore } = await terminal.api.call<{ requests: LoggedRequest[]; has_more: boolean }>(
        "GET",
        `${path}?${query}`,
      );
      // Narrow enough for a terminal.
      terminal.rows(
        requests,
        {
          REQUEST: "request_id",
          "AT (UTC)": shortTime,
          MODEL: "model",
          END: "end_reason",
          MS: "total_ms",
          USD: (one) => usd(one.cost),
        },
        {
          empty: "No requests match. Finished requests are listed within seconds.",
          wide: {
            "QUEUE MS": "queue_ms",
            "FIRST BYTE MS": "first_byte_ms",
            TOKENS: tokens,
            CACHED: "cached_input_tokens",
            TIER: "service_tier",
            KEY: "token_id",
            HTTP: (one) => String(one.http_status || ""),
            USER: (one) => one.user ?? "",
          },
        },
      );
      if (isMore) showNextPage(terminal, requests.at(-1)?.request_id);
    });
  request
    .command("get <id>")
    .alias("show")
    .description("show the attempts of a request, by the x-request-id of its response")
    .example("stoker request get RequestOfAda")
    .option("--anybody", "requests of all accounts, for operators")
    .run(async (terminal, id: string, { anybody }: { anybody?: boolean }) => {
      const path = `/v1/${anybody ? "admin/" : ""}requests/${encodeURIComponent(id)}`;
      const found = await terminal.api.call<Found>("GET", path).catch(async (error: unknown) => {
        throw anybody ? error : await withHint(terminal, error);
      });
      terminal.show(found, ({ attempts, rejection }) =>
        rejection ? describedRejection(rejection) : attempts.map(described).join("\n\n"),
      );
    });
}

/** Filters that only requests with a usage record have. */
const recordedOnly = ["failed", "user", "status", "endReason"];

/** Adds to "not found" how an operator finds requests of other accounts. */
async function withHint(terminal: Terminal, error: unknown): Promise<unknown> {
  if (!(error instanceof CliError) || error.exitCode !== exitCode.notFound) return error;
  const { is_admin: isOperator } = await terminal.api.call<Responses["GET /v1/me"]>("GET", "/v1/me");
  if (!isOperator) return error;
  const { code, requestId, status, help } = error;
  return new CliError(`${error.message} For a request of another account, add --anybody.`, exitCode.notFound, {
    code,
    requestId,
    help,
    cause: error,
    ...(status !== undefined && { status }),
  });
}

/** For operators: of all accounts, or of one by the filter `account`. */
export async function listRejected(
  terminal: Terminal,
  filter: Readonly<Record<string, string | undefined>>,
  isForOperators: boolean,
): Promise<void> {
  const path = `/v1/${isForOperators ? "admin/" : ""}rejected-requests`;
  const { requests, has_more: isMore } = await terminal.api.call<{
    requests: (Rejected & Owned)[];
    has_more: boolean;
  }>("GET", `${path}?${queryOf(filter)}`);
  terminal.rows(
    requests,
    {
      REQUEST: "request_id",
      "AT (UTC)": shortTime,
      ...(isForOperators && { ACCOUNT: (one: Owned) => one.account_email ?? one.account ?? "" }),
      MODEL: "model",
      HTTP: (one) => String(one.status),
      CODE: "code",
    },
    {
      empty: "No rejected requests match. They are listed within seconds.",
      wide: {
        OTHERS: (one) => String(one.others),
        KEY: "token_id",
        PATH: "path",
        "CLIENT ID": (one) => one.client_request_id ?? "",
      },
    },
  );
  if (isMore) showNextPage(terminal, requests.at(-1)?.request_id);
}

const shortTime = (one: { readonly created_at: number }): string =>
  isoTime(one.created_at).slice(5, 16).replace("T", " ");

const showNextPage = (terminal: Terminal, last: string | undefined): void =>
  terminal.progress(`More requests: use --limit (up to ${maxListed}), or --after ${last} for the next page.`);

type Rejected = Responses["GET /v1/rejected-requests"]["requests"][number];

/** Fields that a record has for operators only. */
interface Owned {
  readonly account?: string;
  readonly account_email?: string | null;
}

interface Found {
  readonly attempts: readonly (LoggedRequest & Owned)[];
  readonly rejection?: Rejected & Owned;
}

const accountLine = ({ account, account_email: email }: Owned) => {
  if (account === undefined) return [];
  return [`account  ${email && email !== account ? `${email} (${account})` : account}`];
};

/** Returns the line with characters, seconds of audio and images; none where all are 0. */
const unitsLine = ({ characters, audio_ms: audio, images }: LoggedRequest) => {
  const units = [
    characters > 0 && `${characters} characters`,
    audio > 0 && `${audio / 1000} s of audio`,
    images > 0 && counted(images, "image"),
  ].filter((part) => part !== false);
  return units.length === 0 ? [] : [`units    ${units.join(", ")}`];
};

const describedRejection = (one: NonNullable<Found["rejection"]>): string =>
  [
    one.request_id,
    ...accountLine(one),
    `rejected ${one.code}, HTTP ${one.status}`,
    `model    ${one.model || "no name given"}`,
    `path     ${one.path}`,
    `created  ${isoTime(one.created_at)}`,
    ...(one.others > 0 ? [`others   ${one.others} more with this code in the same minute`] : []),
  ].join("\n");

const described = (one: Found["attempts"][number]): string =>
  [
    `${one.request_id}${one.attempt === 1 ? "" : `, attempt ${one.attempt}`}`,
    ...accountLine(one),
    `model    ${one.model}`,
    `created  ${isoTime(one.created_at)}`,
    `tier     ${one.service_tier}`,
    `ended    ${one.end_reason}${one.http_status === 0 ? "" : `, HTTP ${one.http_status}`}`,
    `time     ${one.queue_ms} ms queued, first byte after ${one.first_byte_ms} ms, ${one.total_ms} ms total`,
    `tokens   ${one.input_tokens} in, ${one.output_tokens} out`,
    ...unitsLine(one),
    `cost     USD ${usd(one.cost)}`,
  ].join("\n");

const queryOf = (fields: Readonly<Record<string, string | boolean | undefined>>): URLSearchParams =>
  new URLSearchParams(
    Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  );
