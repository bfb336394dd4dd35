// `stoker rate-limit` and `stoker gpu-pool`: limits of the caller's account.

import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { atLeast, counts } from "../option-values.ts";
import { isoTime } from "../terminal.ts";

type RateLimit = Responses["GET /v1/me/rate_limit"];

type OwnRequests = Responses["GET /v1/me/limit_requests"];

const requestsPath = "/v1/me/limit_requests";

type Counts = Readonly<Record<string, number>>;

interface Requested {
  readonly rate_limit?: number | null;
  readonly tpm_rate_limit?: number | null;
  readonly max?: Counts | null | undefined;
  readonly min?: Counts | null | undefined;
}

/** Limits that a request for rate limits or GPUs names. */
export function requestedText({ rate_limit: requests, tpm_rate_limit: tokens, max, min }: Requested): string {
  if (requests != null) return `${requests} concurrent requests${tokens ? `, ${tokens} tokens per minute` : ""}`;
  const of = (bound: string, counts: Counts | null | undefined) =>
    Object.entries(counts ?? {}).map(([gpu, n]) => `${bound} ${n} ${gpu}`);
  return [...of("max", max), ...of("min", min)].join(", ");
}

type GpuRequest = Responses["POST /v1/me/gpu_pool/request"];

type GpuPool = Responses["GET /v1/me/gpu_pool"];

interface GpuFlags {
  readonly max?: Counts;
  readonly min?: Counts;
  readonly reason: string;
}

export function addLimits(program: Command): void {
  const rate = program.command("rate-limit").alias("limit").description("rate limits per model");
  rate
    .command("get")
    .example("stoker rate-limit get")
    .alias("show")
    .description("show the rate limits")
    .run(async (terminal) => {
      terminal.show(
        await terminal.api.call<RateLimit>("GET", "/v1/me/rate_limit"),
        (limit) =>
          `${limit.rate_limit} concurrent requests and ${limit.tpm_rate_limit} tokens per minute for each model`,
      );
    });
  rate
    .command("request")
    .example('stoker rate-limit request --requests 400 --reason "launch in May"')
    .description("request higher rate limits")
    .requiredOption("--requests <n>", "concurrent requests", atLeast(1))
    .option("--tokens <n>", "tokens per minute (default: unchanged)", atLeast(1))
    .requiredOption("--reason <text>", "shown to the operator")
    .run(async (terminal, flags: { requests: number; tokens?: number; reason: string }) => {
      const body = { rate_limit: flags.requests, tpm_rate_limit: flags.tokens ?? null, reason: flags.reason };
      await terminal.api.call("POST", "/v1/me/rate_limit/request", body);
      terminal.progress("The request is pending until your operator decides.");
    });

  rate
    .command("withdraw [id]")
    .example("stoker rate-limit withdraw")
    .description("withdraw the open request, or the given one")
    .run(async (terminal, given: string | undefined) => {
      const { requests } = await terminal.api.call<OwnRequests>("GET", requestsPath);
      const id = given ?? requests.find(({ kind, status }) => kind === "rate" && status === "open")?.id;
      if (id === undefined) throw new CliError("No open request for rate limits.", exitCode.notFound);
      await terminal.api.call("DELETE", `/v1/me/rate_limit/request/${encodeURIComponent(id)}`);
      terminal.show({ id }, () => `${id} withdrawn`);
    });
  rate
    .command("requests")
    .example("stoker rate-limit requests")
    .description("list requests for rate limits and GPUs with the operator's answers, newest first")
    .run(async (terminal) => {
      const { requests } = await terminal.api.call<OwnRequests>("GET", requestsPath);
      terminal.rows(
        requests,
        {
          ID: "id",
          CREATED: (one) => isoTime(one.created_at),
          REQUESTED: (one) => requestedText({ ...one, max: one.gpu_max, min: one.gpu_min }),
          STATUS: "status",
          ANSWER: (one) => one.resolution_reason ?? "",
        },
        { empty: "No requests." },
      );
    });

  const gpu = program.command("gpu-pool").alias("pool").description("GPU limits of this account");
  gpu
    .command("get")
    .example("stoker gpu-pool get")
    .alias("show")
    .description("show limits and the open request")
    .run(async (terminal) => {
      const pool = await terminal.api.call<GpuPool>("GET", "/v1/me/gpu_pool");
      if (terminal.isStructured) return terminal.show(pool, String);
      const requested = pool.pending_request?.requested_max ?? {};
      const types = new Set([...Object.keys(pool.max_limits), ...Object.keys(requested)]);
      const limits = [...types].map((gpu) => ({ gpu, min: pool.min_limits[gpu] ?? 0, max: pool.max_limits[gpu] ?? 0 }));
      terminal.rows(limits, {
        GPU: "gpu",
        MIN: "min",
        MAX: "max",
        REQUESTED: ({ gpu }) => String(requested[gpu] ?? ""),
      });
      if (pool.pending_request) terminal.progress(`Request ${pool.pending_request.id} is open.`);
      if (pool.last_rejection) {
        terminal.progress(`Request ${pool.last_rejection.id} was rejected: ${pool.last_rejection.resolution_reason}`);
      }
    });
  gpu
    .command("request")
    .example('stoker gpu-pool request --max H100-80GB=16 --reason "launch in May"')
    .description("request other GPU limits; replaces an open request")
    .option("--max <gpu=n>", "maximum number of GPUs of a type (repeatable)", counts)
    .option("--min <gpu=n>", "guaranteed number of GPUs of a type (repeatable)", counts)
    .requiredOption("--reason <text>", "shown to the operator")
    .run(async (terminal, { max, min, reason }: GpuFlags) => {
      const { pending_request: open } = await terminal.api.call<GpuPool>("GET", "/v1/me/gpu_pool");
      const filed = await terminal.api.call<GpuRequest>("POST", "/v1/me/gpu_pool/request", {
        reason,
        requested_max: max ?? null,
        requested_min: min ?? null,
        expected_request_id: open?.id ?? null,
      });
      terminal.show(filed, ({ id }) => id);
    });
  gpu
    .command("withdraw [id]")
    .example("stoker gpu-pool withdraw")
    .description("withdraw the open request, or the given one")
    .run(async (terminal, given: string | undefined) => {
      const id = given ?? (await terminal.api.call<GpuPool>("GET", "/v1/me/gpu_pool")).pending_request?.id;
      if (id === undefined) throw new CliError("No open GPU request.", exitCode.notFound);
      await terminal.api.call("DELETE", `/v1/me/gpu_pool/request/${encodeURIComponent(id)}`);
      terminal.show({ id }, () => `${id} withdrawn`);
    });
}
